"""A conformance suite for conversions F -> F'."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.shaping import Level, Shaping, State, load_arrays, state_arrays
from pbim.testing.errors import ConformanceError
from pbim.verification import residuals

__all__ = ["check_shaping"]

Stream = tuple[NDArray[Any], NDArray[np.bool_]]
_TOLERANCE = {"float32": 1e-3, "float64": 1e-9}


def check_shaping(
    shaping: Shaping[Any], *, num_envs: int = 3, steps: int = 40, seed: int = 0, gamma: float | None = None
) -> None:
    """Check a conversion against the laws that all conversions keep.

    It runs on random bonuses of float32 and float64 with episodes of every length from 1 on. The laws, by name:
    *shape*, *dtype* (that of the bonus), *finite*, *inputs-edited* (neither arrays nor state may be), *determinism*,
    *rollout* (equals steps, and may be cut anywhere), *causality* (F'_t does not depend on later bonuses),
    *permutation* (environments have no order), *valid* (a masked step pays 0 and changes nothing), *discard* (touches
    the chosen environments alone), *save-load*, and, if ``shaping.guarantee`` is exact, *one-step* and *residual*
    (every episode sums to zero, after a discard too).

    Args:
        shaping: The conversion.
        num_envs: How many environments to run, at least 2.
        steps: How many steps to run, at least 8.
        seed: What the bonuses and episode ends are drawn from.
        gamma: The discount of the sums; by default the conversion's own, or 1 if it has none.

    Raises:
        ConformanceError: At the first law that is broken, with its name and one sentence.
        ValueError: If there are too few environments or steps to check anything.

    >>> import pbim
    >>> check_shaping(pbim.Geometric(gamma=0.9, rate=0.2))

    """
    if num_envs < 2 or steps < 8:
        raise ValueError(
            f"check_shaping: num_envs must be at least 2 and steps at least 8, got {num_envs} and {steps}."
        )
    discount = gamma if gamma is not None else 1.0 if shaping.gamma is None else float(shaping.gamma)
    for dtype in ("float64", "float32"):
        stream = _stream(num_envs, steps, seed, dtype)
        _check_values(shaping, stream)
        _check_purity(shaping, stream)
        _check_rollout(shaping, stream)
        _check_causality(shaping, stream)
        _check_permutation(shaping, stream)
        _check_valid(shaping, stream)
        _check_discard(shaping, stream)
        if shaping.guarantee.level is Level.EXACT:
            _check_exact(shaping, stream, discount)
            _check_exact_after_discard(shaping, stream, discount)
        _check_save_load(shaping, stream)


def _stream(num_envs: int, steps: int, seed: int, dtype: str) -> Stream:
    """Return bonuses of a mean that is not zero, and ends that leave one-step and longer episodes in each row."""
    rng = np.random.default_rng(seed)
    bonus = rng.normal(0.5, 1.0, (steps, num_envs)).astype(dtype)
    ended = rng.random((steps, num_envs)) < 0.2
    ended[0, 0] = ended[3, 1] = ended[4, 1] = True
    return bonus, ended


def _run(shaping: Shaping[Any], stream: Stream, state: State = None, valid: Any = None) -> tuple[State, NDArray[Any]]:
    """Return the state after a stream taken step by step, and F' of shape (T, num_envs)."""
    bonus, ended = stream
    state = shaping.init(bonus.shape[1], like=bonus) if state is None else state
    rows = []
    for index in range(len(bonus)):
        masks = {} if valid is None else {"valid": valid[index].copy()}
        state, shaped = shaping.step(state, bonus[index].copy(), ended[index].copy(), **masks)
        rows.append(shaped)
    return state, np.array(rows)


def _check_values(shaping: Shaping[Any], stream: Stream) -> None:
    bonus, ended = stream
    state = shaping.init(bonus.shape[1], like=bonus)
    for name, (_, shaped), shape in (
        ("step", shaping.step(state, bonus[0].copy(), ended[0].copy()), bonus[0].shape),
        ("rollout", shaping.rollout(state, bonus.copy(), ended.copy()), bonus.shape),
    ):
        if np.shape(shaped) != shape:
            raise ConformanceError("shape", f"{name} must return shape {shape} like the bonus, got {np.shape(shaped)}")
        if shaped.dtype != bonus.dtype:
            raise ConformanceError(
                "dtype", f"{name} must return {bonus.dtype} like the bonus, got {shaped.dtype}; convert it at the end"
            )
        if not np.isfinite(shaped).all():
            raise ConformanceError("finite", f"{name} must return finite numbers for finite bonuses")


def _check_purity(shaping: Shaping[Any], stream: Stream) -> None:
    bonus, ended = stream
    state, _ = _run(shaping, (bonus[:5], ended[:5]))
    before = {name: array.copy() for name, array in state_arrays(state).items()}
    for call in (shaping.step, shaping.rollout):
        given = (bonus[5].copy(), ended[5].copy()) if call == shaping.step else (bonus[5:].copy(), ended[5:].copy())
        copies = [array.copy() for array in given]
        _, first = call(state, *given)
        for name, array, old in zip(("bonus", "ended"), given, copies, strict=True):
            if not np.array_equal(array, old):
                raise ConformanceError("inputs-edited", f"{call.__name__} edits {name} in place; copy it first")
        for name, array in state_arrays(state).items():
            if not np.array_equal(array, before[name]):
                raise ConformanceError(
                    "inputs-edited", f"{call.__name__} edits the state's {name} in place; return a new state"
                )
        if not np.array_equal(first, call(state, *given)[1]):
            raise ConformanceError(
                "determinism", f"{call.__name__} gives two results for one state and one bonus; keep all state in state"
            )


def _check_rollout(shaping: Shaping[Any], stream: Stream) -> None:
    bonus, ended = stream
    last, stepped = _run(shaping, stream)
    for name, cuts in {"one rollout": (), "two rollouts": (7,)}.items():
        state, parts = shaping.init(bonus.shape[1], like=bonus), []
        for rows, ends in zip(np.split(bonus, cuts), np.split(ended, cuts), strict=True):
            state, shaped = shaping.rollout(state, rows, ends)
            parts.append(shaped)
        _require("rollout", f"{name} must give what single steps give", np.concatenate(parts), stepped)
        _require_states("rollout", f"{name} must end in the state that single steps end in", state, last)


def _check_causality(shaping: Shaping[Any], stream: Stream) -> None:
    bonus, ended = stream
    known = len(bonus) // 2
    other = bonus.copy()
    other[known:] = -other[known:] - 1
    for call in (_run, _rolled):
        before, after = call(shaping, stream)[1], call(shaping, (other, ended))[1]
        if not np.allclose(before[:known], after[:known], rtol=1e-6, atol=1e-6):
            raise ConformanceError(
                "causality",
                f"the shaping rewards of the first {known} steps change with later bonuses; compute F'_t from the past "
                "and from statistics gathered before step t",
            )


def _rolled(shaping: Shaping[Any], stream: Stream) -> tuple[State, NDArray[Any]]:
    return shaping.rollout(shaping.init(stream[0].shape[1], like=stream[0]), *stream)


def _check_permutation(shaping: Shaping[Any], stream: Stream) -> None:
    bonus, ended = stream
    order = np.roll(np.arange(bonus.shape[1]), 1)
    _, shaped = _run(shaping, stream)
    _, moved = _run(shaping, (bonus[:, order], ended[:, order]))
    _require("permutation", "environments in another order must get the same rewards", moved, shaped[:, order])


def _check_valid(shaping: Shaping[Any], stream: Stream) -> None:
    """Compare a stream that has masked rows of nonsense in between with the stream without them."""
    bonus, ended = stream
    wide = np.repeat(bonus, 2, axis=0)
    wide[1::2] = 1e3
    ends, valid = np.repeat(ended, 2, axis=0), np.zeros((2 * len(bonus), bonus.shape[1]), np.bool_)
    ends[1::2], valid[::2] = True, True
    _, expected = _run(shaping, stream)
    for name, (_, shaped) in {
        "step": _run(shaping, (wide, ends), valid=valid),
        "rollout": shaping.rollout(shaping.init(bonus.shape[1], like=bonus), wide, ends, valid=valid),
    }.items():
        if np.any(shaped[1::2] != 0):
            raise ConformanceError("valid", f"{name} must pay 0 where valid is false, got {np.max(shaped[1::2])}")
        _require("valid", f"{name} must not let masked steps change later rewards", shaped[::2], expected)


def _discarded(shaping: Shaping[Any], stream: Stream) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return which environments dropped their running episode after 3 steps, and F' of all from there on."""
    bonus, ended = stream
    where = np.arange(bonus.shape[1]) % 2 == 0
    state, _ = _run(shaping, (bonus[:3], np.zeros_like(ended[:3])))
    return where, _run(shaping, (bonus[3:], ended[3:]), shaping.discard(state, where))[1]


def _check_discard(shaping: Shaping[Any], stream: Stream) -> None:
    bonus, ended = stream
    where, shaped = _discarded(shaping, stream)
    _, expected = _run(shaping, (bonus, np.concatenate([np.zeros_like(ended[:3]), ended[3:]])))
    sentence = "discard must leave the environments alone whose episode goes on"
    _require("discard", sentence, shaped[:, ~where], expected[3:, ~where])


def _check_exact_after_discard(shaping: Shaping[Any], stream: Stream, gamma: float) -> None:
    where, shaped = _discarded(shaping, stream)
    left = residuals(shaped[:, where].astype(np.float64), stream[1][3:, where], gamma)
    if np.max(np.abs(left), initial=0) > _tolerance(shaped) * max(1.0, float(np.abs(shaped).max())):
        raise ConformanceError(
            "discard",
            f"an episode that begins after discard must sum to zero by itself, got {np.max(np.abs(left)):.3g}; name in "
            "`shared` only the fields of the state that all environments share",
        )


def _check_exact(shaping: Shaping[Any], stream: Stream, gamma: float) -> None:
    bonus, ended = stream
    everywhere = np.ones_like(ended)
    _, alone = _run(shaping, (bonus, everywhere))
    if np.any(np.abs(alone) > _tolerance(bonus)):
        raise ConformanceError(
            "one-step", f"a one-step episode must get 0 from an exact conversion, got {np.max(np.abs(alone)):.3g}"
        )
    _, shaped = _run(shaping, stream)
    left = residuals(shaped.astype(np.float64), ended, gamma)
    if np.max(np.abs(left)) > _tolerance(bonus) * max(1.0, float(np.abs(shaped).max())):
        raise ConformanceError(
            "residual",
            f"the guarantee is exact, but an episode keeps a discounted sum of {np.max(np.abs(left)):.3g} at "
            f"gamma={gamma}; repay at the last step what was paid, or declare another guarantee",
        )


def _check_save_load(shaping: Shaping[Any], stream: Stream) -> None:
    bonus, ended = stream
    state, _ = _run(shaping, (bonus[:9], ended[:9]))
    loaded = load_arrays(shaping.init(bonus.shape[1], like=bonus), state_arrays(state))
    rest = (bonus[9:], ended[9:])
    if not np.array_equal(_run(shaping, rest, state)[1], _run(shaping, rest, loaded)[1]):
        raise ConformanceError(
            "save-load", "a saved and loaded state must continue identically; keep everything in the state's arrays"
        )


def _require(check: str, sentence: str, received: NDArray[Any], expected: NDArray[Any]) -> None:
    difference = np.max(np.abs(np.asarray(received, np.float64) - expected))
    if not difference <= _tolerance(expected) * max(1.0, float(np.max(np.abs(expected)))):
        raise ConformanceError(check, f"{sentence}, they differ by {difference:.3g}")


def _require_states(check: str, sentence: str, received: State, expected: State) -> None:
    wanted = state_arrays(expected)
    for name, array in state_arrays(received).items():
        if array.dtype.kind == "f" and not np.allclose(array, wanted[name], rtol=1e-4, atol=1e-4):
            raise ConformanceError(check, f"{sentence}, {name} differs")


def _tolerance(values: NDArray[Any]) -> float:
    return _TOLERANCE[str(values.dtype)]
