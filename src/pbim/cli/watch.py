"""``pbim watch``: a moving picture of a trained agent."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pbim.cli.train import CHECKPOINT, SETTINGS, Train, config_of
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
        return _watch(self)


def _watch(arguments: Watch) -> int:
    from pbim.training import checkpoint
    from pbim.training.replay import play, write
    from pbim.training.run import engine_of

    choose("the suffix of out", arguments.out.suffix.lower(), VIDEOS)
    settings = arguments.folder / SETTINGS
    if not settings.exists():
        raise InputError(
            f"folder must hold a run of pbim train, received {str(arguments.folder)!r}: it has no {SETTINGS}"
        )
    trained = Train(**json.loads(settings.read_text()))
    config = config_of(trained)
    engine = engine_of(config, trained.seed)
    carry = checkpoint.load(arguments.folder / CHECKPOINT, engine.like(), config=trained.settings())
    engine.close()
    pictures, steps = play(config, carry.learner.params, episodes=arguments.episodes, seed=arguments.seed)
    write(arguments.out, pictures, frames_per_second=arguments.frames_per_second)
    print(f"{arguments.out}: {arguments.episodes} episodes, {steps} steps")
    return 0
