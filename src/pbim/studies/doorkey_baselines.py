"""DoorKey-8x8 without PBIM: what could make the raw bonus end at 60 steps, and no bonus fail at gamma .995.

The paper's Table 1 has both; under our base reading neither happens. One thing is varied at a time:

- recurrence, which the paper leaves open, and the learning rate and epsilon of other code bases' PPO (7e-4, 1e-5);
- MiniGrid's own reward, which falls with the steps taken;
- counts that live in each process and are never reset, and counts of the steps that change the cell alone;
- an environment that restarts at the goal only. torch-ac's first port to Gymnasium reset its processes where
  ``terminated``, not where ``truncated`` (torch_ac/utils/penv.py at commit 8239320; both at version 1.4), while it
  masked memory and values at both. MiniGrid then truncates every further step, so an agent goes on in its layout with
  an empty memory, and each of these steps enters the log as an episode of one step. Cells that fail at 635 steps, as
  the paper's do, cannot come from it, and lengths of one step would look like success: these cells have no claims.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pbim.config import Component
from pbim.intrinsic import Spec, Transition
from pbim.shaping import NoBonus, Raw
from pbim.studies.doorkey import ENV, GROUPS, SETTINGS, cell, early_claims
from pbim.studies.study import Cell, Study

FRAMES = 3_000_000
PLACES = ("005-99", "025-995")


@dataclass(frozen=True, kw_only=True)
class CellCount(Component):
    """The count bonus alpha / n of :class:`pbim.EpisodicCount`, as other wrappers might keep it; compiled loops only.

    Attributes:
        alpha: What the first arrival at a cell pays.
        resets: Whether the counts of an environment start anew with its episodes.
        stays: Whether a step that leaves the agent in its cell, with or without the key as before, counts and pays.

    """

    alpha: float
    resets: bool = True
    stays: bool = True
    stepwise = True

    def init(self, key: Array, spec: Spec) -> tuple[Array, Array]:
        """Return empty counts (num_envs, num_keys) and the last cells (num_envs,), -1 before the first step."""
        del key
        assert spec.num_keys is not None
        return jnp.zeros((spec.num_envs, spec.num_keys), jnp.int32), jnp.full(spec.num_envs, -1)

    def reward_fn(self, state: tuple[Array, Array], transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,)."""
        counts, last = state
        cells = transition.info["count_key"]
        visits = jnp.take_along_axis(counts, cells[:, None], axis=1)[:, 0] + 1
        return jnp.where(self.stays | (cells != last), self.alpha / visits, 0.0)

    def update_fn(self, state: tuple[Array, Array], transition: Transition) -> tuple[Array, Array]:
        """Return the counts after this step."""
        counts, last = state
        cells = transition.info["count_key"]
        arrived = jax.nn.one_hot(cells, counts.shape[1], dtype=counts.dtype)
        counts = counts + jnp.where((self.stays | (cells != last))[:, None], arrived, 0)
        over = transition.terminated | transition.truncated
        if self.resets:
            counts = jnp.where(over[:, None], 0, counts)
        return counts, jnp.where(over, -1, cells)


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "base": ("base reading (recurrence 4)", {}),
    "recurrence-1": ("recurrence 1", {"recurrence": 1}),
    "recurrence-8": ("recurrence 8", {"recurrence": 8}),
    "recurrence-16": ("recurrence 16", {"recurrence": 16}),
    "recurrence-32": ("recurrence 32", {"recurrence": 32}),
    "rate-7e-4": ("learning rate 7e-4, epsilon 1e-5", {"learning_rate": 7e-4, "adam_epsilon": 1e-5}),
    "decayed": ("MiniGrid's decayed reward", {"env": replace(ENV, reward="minigrid")}),
    "goal-reset": ("reset at the goal only", {"resets": "terminations"}),
}
"""What is varied with and without the bonus."""

COUNTS: dict[str, tuple[str, dict[str, Any]]] = {
    "lifelong": ("counts never reset", {"resets": False}),
    "moves": ("counts of changes of the cell", {"stays": False}),
}
"""What is varied of the bonus."""

SCHEMES = {"im": ("IM, no PBIM", Raw()), "none": ("No IM", NoBonus())}


def _cells(group: str) -> list[Cell]:
    found = [
        cell(f"{scheme}-{name}", f"{label}, {words}", shaping, group, **_common(name), **changes)
        for scheme, (label, shaping) in SCHEMES.items()
        for name, (words, changes) in VARIANTS.items()
    ]
    alpha, _ = SETTINGS[group]
    for name, (words, changes) in COUNTS.items():
        counted = cell(f"im-{name}", f"IM, no PBIM, {words}", Raw(), group, **_common(name))
        bonus = CellCount(alpha=alpha, **changes)
        found.append(replace(counted, learner=replace(counted.learner, intrinsic=bonus)))
    return found


def _common(variant: str) -> Mapping[str, Any]:
    return {"params": {"variant": variant}, "total_frames": FRAMES}


_CELLS = tuple(variant for group in PLACES for variant in _cells(group))

DOORKEY_BASELINES = Study(
    name="doorkey-baselines",
    title="DoorKey-8x8: the raw bonus and no bonus, varied",
    summary="What could make the raw bonus end at 60 steps and no bonus fail at gamma .995, one thing at a time.",
    cells=_CELLS,
    seeds=3,
    claims=tuple(
        claim
        for variant in _CELLS
        if variant.params["variant"] != "goal-reset"
        for claim in early_claims("doorkey-baselines", variant, variant.scheme.partition("-")[0], variant.group, FRAMES)
    ),
    groups=tuple(group for group in GROUPS if group.name in PLACES),
)
