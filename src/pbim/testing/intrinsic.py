"""A conformance suite for intrinsic rewards."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.errors import InputError
from pbim.intrinsic.protocol import Bonus, Intrinsic, Transition, as_intrinsic
from pbim.testing.errors import ConformanceError

__all__ = ["check_causal", "check_intrinsic", "random_transitions"]

Make = Callable[[], Bonus]
Rollout = Callable[[Sequence[Transition]], Any]


def random_transitions(
    observation_space: Any,
    action_space: Any,
    *,
    num_envs: int = 3,
    steps: int = 24,
    distinct: int = 6,
    seed: int = 0,
    info: Callable[[Any], Mapping[str, Any]] | None = None,
) -> list[Transition]:
    """Return steps of ``num_envs`` environments that wander between ``distinct`` observations of a Gymnasium space.

    Episodes end at random, by termination or truncation; the next step then starts from another observation.

    Args:
        observation_space: Where the observations are drawn from.
        action_space: Where the actions are drawn from.
        num_envs: How many environments run side by side.
        steps: How many steps to return.
        distinct: How many observations there are; few, so that they repeat.
        seed: What decides all draws.
        info: Maps the batched next observation to the step's info; None leaves it empty.

    >>> from gymnasium.spaces import Discrete
    >>> steps = random_transitions(Discrete(9), Discrete(4), num_envs=2, steps=5)
    >>> len(steps), steps[0].next_obs.shape
    (5, (2,))

    """
    observation_space, action_space = copy.deepcopy(observation_space), copy.deepcopy(action_space)
    observation_space.seed(seed)
    action_space.seed(seed)
    rng = np.random.default_rng(seed)
    pool = _stack([observation_space.sample() for _ in range(distinct)])
    here, result = rng.integers(distinct, size=num_envs), []
    for _ in range(steps):
        there = rng.integers(distinct, size=num_envs)
        terminated, truncated = rng.random((2, num_envs)) < 0.1
        action = _stack([action_space.sample() for _ in range(num_envs)])
        obs, next_obs = _take(pool, here), _take(pool, there)
        result.append(Transition(obs, action, next_obs, terminated, truncated, dict(info(next_obs)) if info else {}))
        here = np.where(terminated | truncated, rng.integers(distinct, size=num_envs), there)
    return result


def check_intrinsic(
    make_bonus: Make, transitions: Sequence[Transition], *, episodic: bool | None = None, causal: bool = True
) -> None:
    """Raise ``ConformanceError``, one sentence, at the first law of intrinsic rewards that the bonus breaks.

    The laws, by name: *shape*, *dtype*, *finite*, *determinism*,
    *reward-learns* (``reward`` must not), *inputs-edited*, *causality* (Assumption 1: the bonus of step t does not
    depend on later steps; skipped with ``causal=False``), *save-load* (if the bonus saves) and *episode-reset* (if
    ``episodic``: the memory of an environment, and of no other, ends with its episode).

    Args:
        make_bonus: Returns a fresh bonus, with the same seed each time.
        transitions: At least 6 consecutive steps; ``random_transitions`` makes some.
        episodic: Whether the bonus has a memory of the episode; None asks the bonus.
        causal: False for a bonus that is known to look ahead.

    Raises:
        ConformanceError: At the first law that does not hold.
        InputError: If there are fewer than 6 transitions.

    >>> from gymnasium.spaces import Discrete
    >>> from pbim.intrinsic import EpisodicCount
    >>> check_intrinsic(EpisodicCount, random_transitions(Discrete(9), Discrete(4)))

    """
    if len(transitions) < 6:
        raise InputError(
            f"check_intrinsic: transitions must hold at least 6 steps, received {len(transitions)}: pass more"
        )
    bonus = _fresh(make_bonus)
    if causal and not getattr(bonus, "causal", True):
        raise ConformanceError(
            "causality",
            f"{type(bonus).__name__} declares causal = False, so no conversion is proved for it; pass causal=False to "
            f"check the other laws",
        )
    _check_values(make_bonus, transitions)
    _check_reward_only_computes(make_bonus, transitions)
    _check_determinism(make_bonus, transitions)
    if causal:
        check_causal(lambda steps: _replay(_fresh(make_bonus), steps), transitions)
    _check_save_load(make_bonus, transitions)
    if getattr(bonus, "episodic", False) if episodic is None else episodic:
        _check_episode_reset(make_bonus, transitions)


def check_causal(rollout_bonus: Rollout, transitions: Sequence[Transition]) -> None:
    """Raise ``ConformanceError`` if the bonus of a step changes when only later steps do (Assumption 1).

    Args:
        rollout_bonus: Maps a list of T transitions to an array (T, num_envs): the form of bonuses that are computed
            for a whole rollout, such as nearest-neighbour distances within it.
        transitions: Consecutive steps.

    Raises:
        ConformanceError: If Assumption 1 does not hold.

    >>> from gymnasium.spaces import Discrete
    >>> steps = random_transitions(Discrete(9), Discrete(4))
    >>> check_causal(lambda steps: [step.next_obs * 1.0 for step in steps], steps)

    """
    whole = np.array(rollout_bonus(transitions), dtype=np.float64)
    for known in (1, len(transitions) // 2, len(transitions) - 1):
        future = list(transitions[known:])
        for name, other in {"later steps reversed": future[::-1], "no later steps": []}.items():
            replayed = np.array(rollout_bonus([*transitions[:known], *other]), dtype=np.float64)
            changed = np.flatnonzero(np.any(replayed[:known] != whole[:known], axis=1))
            if len(changed):
                raise ConformanceError(
                    "causality",
                    f"the bonus of step {changed[0]} depends on steps after {known - 1} ({name} change it), which "
                    f"Assumption 1 forbids; compute it from this step and earlier ones only",
                )


def _check_values(make_bonus: Make, transitions: Sequence[Transition]) -> None:
    bonus = _fresh(make_bonus)
    for index, step in enumerate(transitions):
        given = copy.deepcopy(step)
        paid = np.asarray(bonus.reward(step))
        shape = (len(step.terminated),)
        if paid.shape != shape:
            raise ConformanceError("shape", f"reward must have shape {shape}, received {paid.shape}")
        if paid.dtype.kind != "f":
            raise ConformanceError("dtype", f"reward must be floating point, received {paid.dtype}: return floats")
        if not np.isfinite(paid).all():
            raise ConformanceError("finite", f"reward of step {index} holds NaN or infinity: {paid.tolist()}")
        bonus.update(step)
        edited = [name for name in step._fields if not _equal(getattr(step, name), getattr(given, name))]
        if edited:
            raise ConformanceError("inputs-edited", f"the bonus edits transition.{edited[0]} in place; copy it first")


def _check_reward_only_computes(make_bonus: Make, transitions: Sequence[Transition]) -> None:
    bonus = _fresh(make_bonus)
    for index, step in enumerate(transitions):
        first = np.array(bonus.reward(step))
        before = _state(bonus)
        bonus.reward(transitions[index - 1])
        if not np.array_equal(first, bonus.reward(step)):
            raise ConformanceError(
                "reward-learns", f"reward of step {index} changes when it is computed again; learn in update only"
            )
        if not _equal(before, _state(bonus)):
            raise ConformanceError(
                "reward-learns", f"reward of step {index} changes state_dict(); learn in update only"
            )
        bonus.update(step)


def _check_determinism(make_bonus: Make, transitions: Sequence[Transition]) -> None:
    one, other = (np.array(_replay(_fresh(make_bonus), transitions)) for _ in range(2))
    differing = np.flatnonzero(np.any(one != other, axis=1))
    if len(differing):
        raise ConformanceError(
            "determinism",
            f"two fresh bonuses pay differently from step {differing[0]} on; draw all randomness from a seed argument",
        )


def _check_save_load(make_bonus: Make, transitions: Sequence[Transition]) -> None:
    kept, restored, half = _fresh(make_bonus), _fresh(make_bonus), len(transitions) // 2
    saves, loads = hasattr(kept, "state_dict"), hasattr(kept, "load_state_dict")
    if saves != loads:
        raise ConformanceError("save-load", "state_dict and load_state_dict go together, only one is there")
    if not saves:
        return
    _replay(kept, transitions[:half])
    saved = _state(kept)
    for name, value in saved.items():
        if not isinstance(value, np.ndarray) or value.dtype == object:
            raise ConformanceError(
                "save-load",
                f"state_dict()[{name!r}] must be a NumPy array that needs no pickle, received {type(value).__name__}",
            )
    restored.load_state_dict(copy.deepcopy(saved))  # type: ignore[attr-defined]
    if not _equal(saved, _state(restored)):
        raise ConformanceError("save-load", "state_dict() after load_state_dict() differs from what was loaded")
    pays, again = (np.array(_replay(bonus, transitions[half:])) for bonus in (kept, restored))
    if not np.array_equal(pays, again):
        raise ConformanceError("save-load", "a bonus restored by load_state_dict() pays differently from the saved one")


def _check_episode_reset(make_bonus: Make, transitions: Sequence[Transition]) -> None:
    num_envs = len(transitions[0].terminated)
    for flag in ("terminated", "truncated"):
        forgot = False
        for step in transitions[:6]:
            never = _after_repeats(make_bonus, step, flag, None)
            pays = [_after_repeats(make_bonus, step, flag, env) for env in range(num_envs)]
            forgot = forgot or pays[0][0] > never[0]
            for env in range(1, num_envs):
                own, foreign = pays[env][env] - never[env], pays[0][env] - never[env]
                if abs(foreign) > 0.5 * abs(own):
                    raise ConformanceError(
                        "episode-reset",
                        f"the end of environment 0 ({flag}) changes the bonus of environment {env}; keep a memory each",
                    )
        if not forgot:
            raise ConformanceError(
                "episode-reset",
                f"environment 0 pays no more for a repeated step after its episode ended ({flag}); reset its memory",
            )


def _after_repeats(make_bonus: Make, step: Transition, flag: str, env: int | None) -> NDArray[np.float64]:
    """Return the bonus of a step repeated three times before, the third time with ``flag`` up in ``env``."""
    num_envs = len(step.terminated)
    down = np.zeros(num_envs, dtype=bool)
    running = step._replace(terminated=down, truncated=down)
    last = running._replace(**{flag: np.arange(num_envs) == env})
    bonus = _fresh(make_bonus)
    return np.asarray(_replay(bonus, [running, running, last, running])[-1], dtype=np.float64)


def _fresh(make_bonus: Make) -> Intrinsic:
    return as_intrinsic(make_bonus())


def _replay(bonus: Intrinsic, transitions: Sequence[Transition]) -> list[Any]:
    """Return the arrays the bonus returned, as they are when the replay is over."""
    paid = []
    for step in transitions:
        paid.append(bonus.reward(step))
        bonus.update(step)
    return paid


def _state(bonus: Intrinsic) -> dict[str, Any]:
    return copy.deepcopy(bonus.state_dict()) if hasattr(bonus, "state_dict") else {}


def _take(tree: Any, rows: NDArray[np.integer[Any]]) -> Any:
    if isinstance(tree, dict):
        return {name: _take(leaf, rows) for name, leaf in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_take(leaf, rows) for leaf in tree)
    return tree[rows]


def _stack(samples: Sequence[Any]) -> Any:
    if isinstance(samples[0], dict):
        return {name: _stack([sample[name] for sample in samples]) for name in samples[0]}
    if isinstance(samples[0], tuple):
        return tuple(map(_stack, zip(*samples, strict=True)))
    return np.stack(samples)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(np.array_equal(one, other))
