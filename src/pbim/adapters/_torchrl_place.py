"""TorchRL: what stands around the transform in its environment, and would break the cancellation."""

from collections.abc import Iterator
from typing import Any

from torchrl.envs.transforms import Compose, StepCounter, Transform

from pbim.adapters._torch import Key
from pbim.errors import InputError

_CHANGERS = {"BinarizeReward", "RewardClipping", "SignTransform", "VecNorm", "VecNormV2"}


def later_changer(transform: Transform, reward_key: Key) -> str:
    """Return the name of a later transform that changes rewards, "" without one; refuse one that ends episodes."""
    for later in _later(transform):
        if isinstance(later, StepCounter) and later.max_steps is not None:
            raise InputError(
                "StepCounter(max_steps=...) must stand before ShapingTransform, received it after: the conversion "
                "would not see the time limit, append ShapingTransform last"
            )
        if type(later).__name__ in _CHANGERS and reward_key in later.in_keys:
            return type(later).__name__
    return ""


def refuse_native_autoreset(env: Any) -> None:
    """Refuse an environment that shows the next episode at an end."""
    if vars(env).get("_torchrl_native_autoreset", False):
        raise InputError(
            "native_autoreset=True makes the environment return the next episode's first observation at an end, which "
            "no bonus may see: leave it out, so that TorchRL resets the environments"
        )


def _later(transform: Transform) -> Iterator[Transform]:
    """Yield the transforms of the environment that come after this one."""
    inner, container = transform, transform.__dict__["_container"]
    while container is not None and isinstance(container(), Compose):
        outer = container()
        found = list(outer.transforms)
        yield from found[next(index for index, each in enumerate(found) if each is inner) + 1 :]
        inner, container = outer, outer.__dict__["_container"]
