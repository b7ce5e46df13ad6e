"""Bonus: how many bits of the future the agent could decide from here, exact for finite dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pbim.errors import InputError, InputTypeError
from pbim.intrinsic._checks import integers, positive
from pbim.intrinsic.protocol import Transition

_MOST_ENTRIES = 50_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Empowerment:
    """Pay the n-step empowerment of the next state, in bits: the capacity of the channel from actions to outcomes.

    ``transition`` is p(s' | s, a), shape (S, A, S); observations are integers below S. The capacity of the channel
    (a_1 .. a_n) -> s_n, over open-loop action sequences, is computed once per state by Blahut-Arimoto.

    **Outside Assumption 1** (``causal = False``): empowerment weighs a state by what later actions can do. The
    capacity itself is a maximum over them and so a plain function of the state arrived at, but the estimates learners
    use in its place, such as ``hindsight`` here, read the actions actually taken after step t. The conversions prove
    nothing for such a bonus; it is here so that the verifier can show that. Memory: S floats.

    Klyubin et al. 2005; Mohamed & Rezende 2015, Eq. 2; Blahut 1972. Shapes: transition (num_envs, ...) -> (num_envs,).

    >>> stay, move = np.eye(2), np.eye(2)[::-1]
    >>> bonus = Empowerment(transition=np.stack([stay, move], axis=1), steps=1)
    >>> bonus.values.round(6)
    array([1., 1.])
    """

    transition: NDArray[np.float64] = field(repr=False)
    steps: int = 1
    tolerance: float = 1e-6
    max_iterations: int = 10_000

    causal: ClassVar[bool] = False
    episodic: ClassVar[bool] = False

    values: NDArray[np.float64] = field(init=False, repr=False)
    _sources: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        integers("Empowerment", steps=self.steps, max_iterations=self.max_iterations)
        positive("Empowerment", tolerance=self.tolerance)
        kernel = np.asarray(self.transition, dtype=np.float64)
        if kernel.ndim != 3 or kernel.shape[0] != kernel.shape[2] or not kernel.size:
            raise InputError(f"Empowerment: transition must have shape (S, A, S), got {kernel.shape}.")
        if not (np.isfinite(kernel).all() and (kernel >= 0).all() and np.allclose(kernel.sum(axis=2), 1)):
            raise InputError("Empowerment: transition[s, a] must be probabilities that sum to 1 for every s and a.")
        states, actions, _ = kernel.shape
        if actions**self.steps * states * states > _MOST_ENTRIES:
            raise InputError(
                f"Empowerment: {actions}**{self.steps} action sequences from {states} states are more than the exact "
                f"method can hold; lower steps."
            )
        solved = [blahut_arimoto(row, self.tolerance, self.max_iterations) for row in channels(kernel, self.steps)]
        object.__setattr__(self, "transition", kernel)
        object.__setattr__(self, "values", np.array([capacity for capacity, _ in solved]))
        object.__setattr__(self, "_sources", np.array([source for _, source in solved]))

    def reward(self, transition: Transition, /) -> NDArray[np.float64]:
        """Return the empowerment of the next state, shape (num_envs,)."""
        state = np.asarray(transition.next_obs)
        if state.dtype.kind not in "iu" or state.ndim != 1:
            raise InputTypeError(
                f"Empowerment: observations must be integer states of shape (num_envs,), got {state.dtype} of shape "
                f"{state.shape}; number the states first."
            )
        if state.size and not 0 <= state.min() <= state.max() < len(self.values):
            raise InputError(f"Empowerment: states must lie in 0 .. {len(self.values) - 1}, got {state.tolist()}.")
        paid: NDArray[np.float64] = self.values[state]
        return paid

    def update(self, transition: Transition, /) -> None:
        """Learn nothing: the dynamics are given."""

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """Return nothing: there is nothing learnt."""
        return {}

    def load_state_dict(self, arrays: Any, /) -> None:
        """Load nothing."""

    def hindsight(self, states: Sequence[int], actions: Sequence[int]) -> NDArray[np.float64]:
        """Return what each step of a finished episode turned out to decide, in bits, shape (T,); reads later actions.

        For states s_0 .. s_T and actions a_0 .. a_{T-1}: log2 p(s_{t+n} | s_t, a_t .. a_{t+n-1}) / p(s_{t+n} | s_t)
        with the capacity's action distribution, whose mean under it is the empowerment of s_t; 0 where n steps do not
        remain.
        """
        num_actions, n = self.transition.shape[1], self.steps
        pays = np.zeros(len(actions))
        table = channels(self.transition, n)
        for t in range(len(actions) - n + 1):
            sequence = np.ravel_multi_index(tuple(actions[t : t + n]), (num_actions,) * n)
            channel, source = table[states[t]], self._sources[states[t]]
            reached = states[t + n]
            pays[t] = np.log2(channel[sequence, reached] / (source @ channel[:, reached]))
        return pays


def channels(kernel: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """Return p(s_n | s, a_1 .. a_n), shape (S, A**n, S), the first action varying slowest."""
    columns = []
    for sequence in product(range(kernel.shape[1]), repeat=steps):
        reach = kernel[:, sequence[0]]
        for action in sequence[1:]:
            reach = reach @ kernel[:, action]
        columns.append(reach)
    return np.stack(columns, axis=1)


def blahut_arimoto(
    channel: NDArray[np.float64], tolerance: float, max_iterations: int
) -> tuple[float, NDArray[np.float64]]:
    """Return the capacity in bits of a channel p(output | input), (inputs, outputs), and the inputs' distribution.

    Stops when the capacity is known to ``tolerance``, by the bounds of Blahut 1972, Theorem 2. The exponent of the
    multiplicative step grows while the information does and falls back to Blahut's 1 when it does not, which keeps
    convergence and is much faster where inputs are nearly alike (Matz & Duhamel 2004).
    """
    source = best = np.full(len(channel), 1 / len(channel))
    exponent, reached = 1.0, -np.inf
    for _ in range(max_iterations):
        divergence = _divergences(channel, source)  # D(p(.|a) || p)
        information = float(source @ divergence)
        if information < reached and exponent > 1:
            source, exponent, reached = best, 1.0, -np.inf
            continue
        best, reached, upper = source, information, float(divergence.max())
        if upper - information < tolerance:
            return max(information, 0.0), source
        source = np.maximum(source * 2 ** (exponent * (divergence - upper)), 1e-300)  # an input at 0 never returns
        source, exponent = source / source.sum(), 1.5 * exponent
    raise InputError(
        f"Empowerment: the capacity did not settle to {tolerance} bits in {max_iterations} iterations; raise either."
    )


def _divergences(channel: NDArray[np.float64], source: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the relative entropy of each input's outputs to the mixture of all, in bits, (inputs,)."""
    mixture = np.broadcast_to(source @ channel, channel.shape)
    ratio = np.divide(channel, mixture, out=np.ones_like(channel), where=(channel > 0) & (mixture > 0))
    paid: NDArray[np.float64] = (channel * np.log2(ratio)).sum(axis=1)
    return paid
