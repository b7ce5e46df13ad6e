"""Streams of bonuses for the laws: hypothesis strategies, the three array libraries, and an exact reference."""

from collections.abc import Sequence
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from operator import mul
from typing import Any, NamedTuple

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
from hypothesis.extra import numpy as hnp

from pbim import shaping as sh

LIBRARIES = {"numpy": np.asarray, "jax": jnp.asarray}
if find_spec("torch"):  # not in every environment of make matrix
    LIBRARIES["torch"] = import_module("torch").asarray


class Stream(NamedTuple):
    """Bonuses and episode ends of a batch of environments, both (T, num_envs)."""

    bonus: np.ndarray
    ended: np.ndarray


SHAPES = st.sampled_from([(1, 1), (2, 1), (6, 1), (9, 2), (17, 3)])
DISCOUNTS = st.one_of(st.sampled_from([1.0, 0.99, 0.5]), st.floats(0.3, 1.0))


@st.composite
def streams(draw: st.DrawFn, dtype: str = "float64", shapes: st.SearchStrategy[Any] = SHAPES) -> Stream:
    shape = draw(shapes)
    bonus = draw(hnp.arrays(dtype, shape, elements=st.floats(-8, 8, width=32)))
    ended = draw(hnp.arrays(bool, shape, elements=st.booleans()))
    return Stream(bonus, ended)


@st.composite
def ledgers(draw: st.DrawFn, gamma: Any = None, normalize: Any = None, mixing: bool = True) -> Any:
    """Any member of the ledger family, with any centring, and mixtures of them."""
    gamma = draw(DISCOUNTS) if gamma is None else gamma
    if normalize is None:
        normalize = draw(
            st.sampled_from(
                [True, False, sh.ExponentialMean(rate=0.3), sh.PreviousRollout(steps=3), sh.FixedMean(mean=0.25)]
            )
        )
    kinds = ["pbim", "grm", "geometric", "bounded", *(["custom", "mixture"] if mixing else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "mixture":
        share = draw(st.floats(0.1, 0.9))
        parts = tuple(draw(ledgers(gamma=gamma, normalize=normalize, mixing=False)) for _ in range(2))
        return sh.Mixture(members=parts, weights=(share, 1 - share))
    if kind == "bounded":
        limit, rate = draw(st.sampled_from([0.0, 0.25, 2.0, 10.0])), draw(st.sampled_from([0.0, 0.3, 1.0]))
        return sh.Bounded(gamma=gamma, normalize=normalize, limit=limit, rate=rate)
    if kind == "grm":
        return sh.GRM(gamma=gamma, normalize=normalize, delay=draw(st.integers(1, 5)))
    if kind == "geometric":
        return sh.Geometric(gamma=gamma, normalize=normalize, rate=draw(st.floats(0.01, 1.0)))
    if kind == "custom":
        return sh.Custom(gamma=gamma, normalize=normalize, repay=every_other_step, recall=counter)
    return sh.PBIM(gamma=gamma, normalize=normalize)


def counter(zeros: Any) -> tuple[Any, ...]:
    return (zeros,)


def every_other_step(memory: tuple[Any, ...], ledger: Any, earned: Any) -> tuple[tuple[Any, ...], Any]:
    """A repayment with a memory: a third of the ledger and half of this bonus, at odd steps."""
    (age,) = memory
    return (age + 1,), (age % 2) * (ledger / 3 + earned / 2)


def convert(
    conversion: sh.Shaping, stream: Stream, cuts: Sequence[int] = (), library: str = "numpy", **kwargs: Any
) -> Any:
    """Convert a stream cut into rollouts at the given rows; returns the shaped rewards as NumPy."""
    to = LIBRARIES[library]
    state = conversion.init(stream.bonus.shape[1], like=to(stream.bonus))
    pieces = []
    edges = [0, *sorted(cuts), stream.bonus.shape[0]]
    for start, stop in pairwise(edges):
        part = {name: to(value[start:stop]) for name, value in kwargs.items()}
        state, shaped = conversion.rollout(state, to(stream.bonus[start:stop]), to(stream.ended[start:stop]), **part)
        pieces.append(np.asarray(shaped))
    return np.concatenate(pieces)


def episodes(ended: np.ndarray) -> list[tuple[int, int, int]]:
    """Every finished episode as (environment, first row, row after the last)."""
    found = []
    for env in range(ended.shape[1]):
        start = 0
        for row in np.flatnonzero(ended[:, env]):
            found.append((env, start, int(row) + 1))
            start = int(row) + 1
    return found


def discounted(values: Sequence[Fraction], gamma: Fraction) -> Fraction:
    return sum((gamma**t * value for t, value in enumerate(values)), Fraction(0))


def reference(conversion: Any, stream: Stream) -> list[list[Fraction]]:
    """The definitions, spelled out with powers of gamma in rational arithmetic; (T, num_envs).

    Written from the papers' sums, on purpose unlike the library: no ledger, no recursion, no rounding.
    """
    if isinstance(conversion, sh.Mixture):
        parts = [reference(member, stream) for member in conversion.members]
        weights = [Fraction(weight) for weight in conversion.weights]
        return [
            [sum(map(mul, weights, values)) for values in zip(*row, strict=True)] for row in zip(*parts, strict=True)
        ]
    gamma = Fraction(conversion.gamma)
    rows, width = stream.bonus.shape
    bonus = [[Fraction(float(value)) for value in row] for row in stream.bonus]
    centred = [[value - _mean_before(conversion, bonus, t) for value in bonus[t]] for t in range(rows)]
    shaped = [[Fraction(0)] * width for _ in range(rows)]
    for env in range(width):
        start = 0
        for t in range(rows):
            past = [shaped[n][env] for n in range(start, t)]
            owed = sum((_weight(conversion, gamma, n, len(past)) * value for n, value in enumerate(past)), Fraction(0))
            if stream.ended[t, env]:
                shaped[t][env] = -owed
                start = t + 1
            else:
                shaped[t][env] = centred[t][env] - _payment(conversion, gamma, centred, env, start, t, owed)
    return shaped


def _weight(conversion: sh.Ledger, gamma: Fraction, n: int, t: int) -> Fraction:
    if isinstance(conversion, sh.InexactPBIM):
        return gamma ** {"start": n, "end": t - n, "none": 0}[conversion.discount]
    return gamma ** (n - t)


def _payment(
    conversion: sh.Ledger, gamma: Fraction, centred: Any, env: int, start: int, t: int, owed: Fraction
) -> Fraction:
    if isinstance(conversion, sh.GRM):
        earned = t - conversion.delay
        return gamma**-conversion.delay * centred[earned][env] if earned >= start else Fraction(0)
    if isinstance(conversion, sh.Geometric):
        return Fraction(conversion.rate) * owed
    if isinstance(conversion, sh.Bounded):
        within = min(max(owed, -Fraction(conversion.limit)), Fraction(conversion.limit))
        return owed - (1 - Fraction(conversion.rate)) * within
    if isinstance(conversion, sh.Custom):
        return (t - start) % 2 * (owed / 3 + centred[t][env] / 2)
    return Fraction(0)


def _mean_before(conversion: sh.Ledger, bonus: list[list[Fraction]], t: int) -> Fraction:
    rule = conversion.normalize
    if rule is False:
        return Fraction(0)
    if rule is True:
        seen = [value for row in bonus[:t] for value in row]
        return sum(seen, Fraction(0)) / max(1, len(seen))
    if isinstance(rule, sh.FixedMean):
        return Fraction(rule.mean)
    if isinstance(rule, sh.PreviousRollout):
        last = t // rule.steps * rule.steps
        block = [value for row in bonus[max(0, last - rule.steps) : last] for value in row]
        return sum(block, Fraction(0)) / max(1, len(block))
    mean = Fraction(0)
    for index, row in enumerate(bonus[:t], start=1):
        mean += max(Fraction(rule.rate), Fraction(1, index)) * (sum(row) / len(row) - mean)
    return mean
