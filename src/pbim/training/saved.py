"""A run of ``pbim train`` read back from its folder: to watch it, or to start another one from it."""

import json
from pathlib import Path

import jax

from pbim.agents.ppo import PPO, Carry
from pbim.config import decode
from pbim.errors import InputError
from pbim.training import checkpoint
from pbim.training.run import CHECKPOINT, SETTINGS, shapes_of


def load_run(folder: Path) -> tuple[PPO, Carry]:
    """Return the configuration and the last checkpoint of a run.

    Args:
        folder: Where ``pbim train`` wrote it.

    Raises:
        InputError: If there is no run, or its files cannot be read.

    """
    path = folder / SETTINGS
    if not path.exists():
        raise InputError(f"folder must hold a run of pbim train, received {str(folder)!r}: it has no {SETTINGS}")
    try:
        settings = path.read_text()
        data = json.loads(settings)
        about = ("seed", "total_frames", "init_from")
        config: PPO = decode({name: value for name, value in data.items() if name not in about})
        shapes = shapes_of(config)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise InputError(
            f"{str(path)!r} must hold the settings of a run, it cannot be read ({type(error).__name__}: {error}): "
            "copy it from a backup, or train again"
        ) from None
    return config, checkpoint.load(folder / CHECKPOINT, shapes, config=settings)


def check_start(config: PPO, source: PPO) -> None:
    """Refuse to start a run from one whose network has another form.

    Raises:
        InputError: With the first setting of the network that differs.

    """
    mine, other = vars(config.network), vars(source.network)
    for name, value in mine.items():
        if value != other[name]:
            raise InputError(
                f"init_from must hold a run with the same network, received one with {name} {other[name]} instead of "
                f"{value}: train on the same environment (and --skills), with the same --method, --critics, --memory "
                "and sizes"
            )


def start_from(config: PPO, carry: Carry, source: PPO, found: Carry) -> Carry:
    """Return a new run with the parameters of another one; all else is new, the optimiser's memory too.

    The bonus keeps what it learned there if both runs have the same one and it remembers no episodes.

    Args:
        config: The new run.
        carry: Its first state.
        source: The other run.
        found: The last state of it.

    Raises:
        InputError: If their networks differ.

    """
    check_start(config, source)
    carry = carry._replace(learner=carry.learner._replace(params=found.learner.params))
    same = config.intrinsic is not None and config.intrinsic == source.intrinsic
    if same and not getattr(config.intrinsic, "episodic", False) and _shapes(carry) == _shapes(found):
        carry = carry._replace(world=carry.world._replace(bonus=found.world.bonus))
    return carry


def _shapes(carry: Carry) -> list[tuple[int, ...]]:
    return [leaf.shape for leaf in jax.tree.leaves(carry.world.bonus)]
