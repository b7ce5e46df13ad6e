"""Bonus: how many bits of the future the agent could decide from here, exact for finite dynamics."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pbim.errors import InputError, InputTypeError
from pbim.intrinsic._checks import integers, positive
from pbim.intrinsic._shell import PureBonus, Shell
from pbim.intrinsic.protocol import Spec, Transition

if TYPE_CHECKING:
    from jax import Array

_MOST_ENTRIES = 50_000_000


@dataclass(frozen=True, kw_only=True)
class Empowerment(PureBonus):
    """Pay the n-step empowerment of the next state, in bits: the capacity of the channel from actions to outcomes.

    The capacity of the channel (a_1 .. a_n) -> s_n, over open-loop action sequences, is computed once per state by
    Blahut-Arimoto. Observations are integers below S.

    **Outside Assumption 1** (``causal = False``): empowerment weighs a state by what later actions can do. The
    capacity itself is a maximum over them and so a plain function of the state arrived at, but the estimates learners
    use in its place, such as ``hindsight`` here, read the actions actually taken after step t. The conversions prove
    nothing for such a bonus; it is here so that the verifier can show that. Memory: S floats.

    Klyubin et al. 2005; Mohamed & Rezende 2015, Eq. 2; Blahut 1972. Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        transition: p(s' | s, a), an array of shape (S, A, S), kept as nested tuples; ``kernel`` is the array.
        steps: n, how many actions ahead.
        tolerance: How exactly the capacity is known, in bits.
        max_iterations: How long Blahut-Arimoto may take for a state.

    Raises:
        InputError: If these are not probabilities, or n actions ahead are too many sequences to enumerate.

    >>> stay, move = np.eye(2), np.eye(2)[::-1]
    >>> bonus = Empowerment(transition=np.stack([stay, move], axis=1), steps=1)
    >>> bonus.values.round(6)
    array([1., 1.])

    """

    transition: tuple[tuple[tuple[float, ...], ...], ...] | NDArray[np.float64] = field(repr=False)
    steps: int = 1
    tolerance: float = 1e-6
    max_iterations: int = 10_000

    kind: ClassVar[str] = "empowerment"
    causal: ClassVar[bool] = False

    values: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    kernel: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    _sources: NDArray[np.float64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        integers("Empowerment", steps=self.steps, max_iterations=self.max_iterations)
        positive("Empowerment", tolerance=self.tolerance)
        kernel = np.asarray(self.transition, dtype=np.float64)
        if kernel.ndim != 3 or kernel.shape[0] != kernel.shape[2] or not kernel.size:
            raise InputError(
                f"Empowerment: transition must have shape (S, A, S), received {kernel.shape}: pass p(s' | s, a)"
            )
        if not (np.isfinite(kernel).all() and (kernel >= 0).all() and np.allclose(kernel.sum(axis=2), 1)):
            raise InputError(
                f"Empowerment: transition[s, a] must be probabilities that sum to 1, received sums from "
                f"{kernel.sum(axis=2).min():g} to {kernel.sum(axis=2).max():g}: normalise every row"
            )
        states, actions, _ = kernel.shape
        if actions**self.steps * states * states > _MOST_ENTRIES:
            raise InputError(
                f"Empowerment: steps must leave few enough action sequences to enumerate, received {self.steps}, which "
                f"makes {actions}**{self.steps} from each of {states} states: lower steps"
            )
        solved = [blahut_arimoto(row, self.tolerance, self.max_iterations) for row in channels(kernel, self.steps)]
        nested = tuple(tuple(map(tuple, rows)) for rows in kernel.tolist())
        object.__setattr__(self, "transition", nested)
        object.__setattr__(self, "kernel", kernel)
        object.__setattr__(self, "values", np.array([capacity for capacity, _ in solved]))
        object.__setattr__(self, "_sources", np.array([source for _, source in solved]))
        super().__post_init__()

    def make_shell(self) -> Shell:
        """Return a shell that has nothing to hold: the dynamics are given."""
        return Shell(self)

    def reward(self, transition: Transition, /) -> NDArray[np.float64]:
        """Return the empowerment of the next state, shape (num_envs,)."""
        state = np.asarray(transition.next_obs)
        if state.dtype.kind not in "iu" or state.ndim != 1:
            raise InputTypeError(
                f"Empowerment: observations must be integer states of shape (num_envs,), received {state.dtype} of "
                f"shape {state.shape}: number the states first"
            )
        if state.size and not 0 <= state.min() <= state.max() < len(self.values):
            raise InputError(
                f"Empowerment: states must lie in 0 .. {len(self.values) - 1}, received {state.tolist()}: pass the "
                "transition probabilities of this environment"
            )
        paid: NDArray[np.float64] = self.values[state]
        return paid

    def init(self, key: "Array", spec: Spec) -> tuple[()]:
        """Return nothing: there is nothing to learn."""
        del key, spec
        return ()

    def reward_fn(self, state: tuple[()], transition: Transition) -> "Array":
        """Return the empowerment of the next state, (num_envs,); pure, for jit, scan and vmap."""
        import jax.numpy as jnp

        del state
        return jnp.asarray(self.values)[transition.next_obs]

    def update_fn(self, state: tuple[()], transition: Transition) -> tuple[()]:
        """Return nothing."""
        del transition
        return state

    def hindsight(self, states: Sequence[int], actions: Sequence[int]) -> NDArray[np.float64]:
        """Return what each step of a finished episode turned out to decide, in bits, shape (T,); reads later actions.

        For states s_0 .. s_T and actions a_0 .. a_{T-1}: log2 p(s_{t+n} | s_t, a_t .. a_{t+n-1}) / p(s_{t+n} | s_t)
        with the capacity's action distribution, whose mean under it is the empowerment of s_t; 0 where n steps do not
        remain.
        """
        num_actions, n = self.kernel.shape[1], self.steps
        pays = np.zeros(len(actions))
        table = channels(self.kernel, n)
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
        f"Empowerment: the capacity must be known to tolerance={tolerance} bits, received less than that after "
        f"max_iterations={max_iterations}: raise either"
    )


def _divergences(channel: NDArray[np.float64], source: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the relative entropy of each input's outputs to the mixture of all, in bits, (inputs,)."""
    mixture = np.broadcast_to(source @ channel, channel.shape)
    ratio = np.divide(channel, mixture, out=np.ones_like(channel), where=(channel > 0) & (mixture > 0))
    paid: NDArray[np.float64] = (channel * np.log2(ratio)).sum(axis=1)
    return paid
