"""``pbim watch``: a moving picture of a trained agent."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pbim.errors import InputError, choose

VIDEOS = (".gif", ".mp4")


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Write a GIF or MP4 of a trained agent on layouts it has not been trained on.

    Example: pbim watch out/train --out agent.mp4
    """

    folder: Annotated[Path, tyro.conf.Positional] = Path("out/train")
    """The folder of a run of pbim train."""
    out: Path = Path("agent.gif")
    """What to write; the suffix, .gif or .mp4, says in which format."""
    episodes: int = 3
    """How many episodes to show."""
    frames_per_second: int = 8
    seed: int = 0
    """Which layouts."""

    def run(self) -> int:
        """Play, write the picture and return the exit code."""
        from pbim.cli import components
        from pbim.config import decode
        from pbim.training import checkpoint
        from pbim.training.replay import play, write
        from pbim.training.run import CHECKPOINT, SETTINGS, backend_of

        choose("the suffix of out", self.out.suffix.lower(), VIDEOS)
        components.check_seed(self.seed)
        for name in ("episodes", "frames_per_second"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, received {getattr(self, name)}: raise it")
        path = self.folder / SETTINGS
        if not path.exists():
            raise InputError(
                f"folder must hold a run of pbim train, received {str(self.folder)!r}: it has no {SETTINGS}"
            )
        components.import_from_here()
        try:
            settings = path.read_text()
            data = json.loads(settings)
            seed = int(data.pop("seed"))
            learner = decode({name: value for name, value in data.items() if name != "total_frames"})
            backend = backend_of(learner, seed)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise InputError(
                f"{str(path)!r} must hold the settings of a run, it cannot be read ({type(error).__name__}: {error}): "
                "copy it from a backup, or train again"
            ) from None
        carry = checkpoint.load(self.folder / CHECKPOINT, backend.shapes(), config=settings)
        backend.close()
        pictures, steps = play(learner, carry.learner.params, episodes=self.episodes, seed=self.seed)
        write(self.out, pictures, frames_per_second=self.frames_per_second)
        print(f"{self.out}: {self.episodes} episodes, {steps} steps")
        return 0
