"""Intrinsic rewards: transition -> F. Each name is loaded on first use; counting needs no JAX, learning does."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pbim.intrinsic.action_recency import ActionRecency as ActionRecency
    from pbim.intrinsic.bridge import from_watch_compute_update as from_watch_compute_update
    from pbim.intrinsic.compose import (
        NormalizedObservations as NormalizedObservations,
        RunningStdScaled as RunningStdScaled,
        Scaled as Scaled,
        Sum as Sum,
        WarmUp as WarmUp,
    )
    from pbim.intrinsic.disagreement import Disagreement as Disagreement
    from pbim.intrinsic.e3b import E3B as E3B
    from pbim.intrinsic.empowerment import Empowerment as Empowerment
    from pbim.intrinsic.encodings import concatenate as concatenate, flatten as flatten, one_hot as one_hot
    from pbim.intrinsic.episodic_count import EpisodicCount as EpisodicCount
    from pbim.intrinsic.icm import ICM as ICM
    from pbim.intrinsic.lifetime_count import LifetimeCount as LifetimeCount
    from pbim.intrinsic.noveld import NovelD as NovelD
    from pbim.intrinsic.protocol import (
        Bonus as Bonus,
        Intrinsic as Intrinsic,
        Transition as Transition,
        as_intrinsic as as_intrinsic,
    )
    from pbim.intrinsic.pseudo_count import PseudoCount as PseudoCount
    from pbim.intrinsic.ride import RIDE as RIDE
    from pbim.intrinsic.rnd import RND as RND

_HOME = {
    "ActionRecency": "action_recency",
    "Bonus": "protocol",
    "Disagreement": "disagreement",
    "E3B": "e3b",
    "Empowerment": "empowerment",
    "EpisodicCount": "episodic_count",
    "ICM": "icm",
    "Intrinsic": "protocol",
    "LifetimeCount": "lifetime_count",
    "NormalizedObservations": "compose",
    "NovelD": "noveld",
    "PseudoCount": "pseudo_count",
    "RIDE": "ride",
    "RND": "rnd",
    "RunningStdScaled": "compose",
    "Scaled": "compose",
    "Sum": "compose",
    "Transition": "protocol",
    "WarmUp": "compose",
    "as_intrinsic": "protocol",
    "concatenate": "encodings",
    "flatten": "encodings",
    "from_watch_compute_update": "bridge",
    "one_hot": "encodings",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'pbim.intrinsic' has no attribute {name!r}")
    value = getattr(import_module(f"pbim.intrinsic.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
