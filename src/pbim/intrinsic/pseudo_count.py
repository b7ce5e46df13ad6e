"""Bonus beta / sqrt(n) with n counted over a random hash code of the observation."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.errors import InputError
from pbim.intrinsic._checks import positive
from pbim.intrinsic._core import LearnedBonus
from pbim.intrinsic.array_counts import valid_rows
from pbim.intrinsic.encodings import Encode, flatten, width
from pbim.intrinsic.protocol import Spec, Transition


class PseudoCountState(NamedTuple):
    """The random projection (features, bits) and the counts (2**bits,)."""

    projection: Array
    counts: Array


@dataclass(frozen=True, kw_only=True)
class PseudoCount(LearnedBonus):
    """Pay ``beta / sqrt(n)``, n the visits to all observations with the same SimHash code as the next observation.

    The code is the sign pattern of ``bits`` random projections, so nearby observations share it; fewer bits generalise
    more. Projections go through the origin: centre the observations first (``NormalizedObservations(PseudoCount())``).
    All environments share the table; environments with the same code in one step are paid the same.
    Memory: bounded, 2**bits integers and features x bits floats.

    Tang et al. 2017 (#Exploration), Eq. 1 and 2, the static hash; pseudo-counts after Bellemare et al. 2016.
    Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        beta: What the first visit of a code pays.
        bits: Length of the code, 1 .. 24.
        encode: Turns observations into vectors: ``flatten``, ``concatenate``, ``one_hot(n)``, any pure function.
        seed: Decides all draws at the NumPy edge; compiled loops pass a key instead.

    Raises:
        InputError: If a setting is outside its range.

    >>> import numpy as np
    >>> bonus, no = PseudoCount(bits=8), np.array([False])
    >>> step = Transition(np.zeros((1, 4)), np.array([0]), np.array([[1.0, -2.0, 0.5, 3.0]]), no, no, {})
    >>> bonus.update(step)
    >>> bonus.reward(step).round(3)
    array([0.707])

    """

    beta: float = 1.0
    bits: int = 16
    encode: Encode = flatten

    kind: ClassVar[str] = "pseudo-count"
    stepwise: ClassVar[bool] = True
    added: ClassVar[tuple[str, ...]] = ("counts",)
    reads: ClassVar[tuple[str, ...]] = ("next_obs",)

    def __post_init__(self) -> None:
        positive("PseudoCount", beta=self.beta)
        if not 1 <= self.bits <= 24:
            raise InputError(
                f"PseudoCount: bits must lie in 1 .. 24, received {self.bits!r}: 16 is usual, a table of 2**16 entries"
            )
        super().__post_init__()

    def init(self, key: Array, spec: Spec) -> PseudoCountState:
        """Return a random projection and empty counts."""
        features = width("PseudoCount", self.encode, spec.example.next_obs)
        return PseudoCountState(jax.random.normal(key, (features, self.bits)), jnp.zeros(2**self.bits, dtype=jnp.int32))

    def code(self, state: PseudoCountState, transition: Transition) -> Array:
        """Return the hash code of the next observation as an integer below 2**bits, (num_envs,)."""
        signs = self.encode(transition.next_obs) @ state.projection >= 0  # Eq. 1: sgn(A g(s))
        return signs @ (2 ** jnp.arange(self.bits, dtype=jnp.int32))

    def reward_fn(self, state: PseudoCountState, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        n = state.counts[self.code(state, transition)] + 1
        return self.beta / jnp.sqrt(n)  # Eq. 2

    def update_fn(self, state: PseudoCountState, transition: Transition) -> PseudoCountState:
        """Return the state with this step's codes counted; pure, for jit, scan and vmap."""
        once = valid_rows(transition).astype(jnp.int32)
        return state._replace(counts=state.counts.at[self.code(state, transition)].add(once))
