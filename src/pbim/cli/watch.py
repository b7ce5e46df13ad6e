"""``pbim watch``: a moving picture of a trained agent."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from pbim._extras import require
from pbim.errors import InputError, choose

VIDEOS = (".gif", ".mp4")
PICTURE = ".png"


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Write a GIF or MP4 of a trained agent, on layouts that were not used in training; or a PNG of its skills.

    Example: pbim watch out/train --out agent.mp4
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")] = Path("out/train")
    """The folder of a run of pbim train."""
    out: Path = Path("agent.gif")
    """The file to write: .gif, .mp4, or .png (the paths of every skill, for --skills on CliffWalk or DoorKey)."""
    episodes: int = 3
    """The number of episodes; in a .png, of every skill."""
    frames_per_second: int = 8
    """The speed."""
    seed: int = 0
    """The seed of the layouts."""

    def run(self) -> int:
        """Play, write the picture and return the exit code."""
        draws = ("matplotlib",) if self.out.suffix.lower() == PICTURE else ()
        require("pbim watch", "jax", "optax", "safetensors", *draws)
        from pbim.cli import components
        from pbim.training.replay import play, write
        from pbim.training.saved import load_run

        choose("the suffix of out", self.out.suffix.lower(), (*VIDEOS, PICTURE))
        components.check_seed(self.seed)
        for name in ("episodes", "frames_per_second"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, received {getattr(self, name)}: raise it")
        components.import_from_here()
        learner, carry = load_run(self.folder)
        if self.out.suffix.lower() == PICTURE:
            return self._draw(learner, carry.learner.params)
        pictures, steps = play(learner, carry.learner.params, episodes=self.episodes, seed=self.seed)
        write(self.out, pictures, frames_per_second=self.frames_per_second)
        print(f"{self.out}: {self.episodes} episodes, {steps} steps")
        return 0

    def _draw(self, learner: Any, params: Any) -> int:
        from pbim._files import replacing
        from pbim.training.skill_map import skill_map

        figure = skill_map(learner, params, episodes=self.episodes, seed=self.seed)
        with replacing(self.out) as file:
            figure.savefig(file, format="png", dpi=110)
        print(f"{self.out}: {learner.env.count} skills, {self.episodes} episodes each")
        return 0
