"""Transitions of a Gymnasium environment with the pay of a reward term, recorded for an audit."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pbim._files import in_words
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Bonus, Intrinsic, Transition, as_intrinsic
from pbim.verification.episodes import Policy, random_policy, transition_of

LONGEST = 10_000
"""Steps after which an episode is cut off where the environment has no time limit and none is given."""

USUAL_EPISODES, ENOUGH = 200, 50_000
"""How many episodes are played where their number is not given, and after how many transitions no further one."""


def record(
    env: Any,
    *,
    term: Bonus,
    episodes: int | None = None,
    policy: Policy | None = None,
    seed: int = 0,
    max_steps: int | None = None,
) -> dict[str, Any]:
    """Play episodes and return their transitions as :func:`pbim.audit` takes them.

    Args:
        env: A single ``gymnasium.Env``.
        term: The reward term: a function of a transition, such as ``lambda t: t.info["dense"]``, or a bonus.
        episodes: How many to play; None plays 200, and no further one after 50,000 transitions.
        policy: ``policy(obs, rng) -> action``; None chooses uniformly at random.
        seed: Episode k starts from ``seed + k``.
        max_steps: Where to cut episodes off; None leaves that to the environment, up to 10,000 steps.

    Returns:
        obs, next_obs, action, term, terminated, truncated, extrinsic and episode, one entry per transition.

    Raises:
        InputError: If an argument breaks a rule, or the term is no number.

    >>> import gymnasium, pbim
    >>> log = record(gymnasium.make("FrozenLake-v1"), term=lambda t: t.next_obs * 0.1, episodes=3)
    >>> len(log["term"]) == len(log["obs"]), sorted(set(log["episode"]))
    (True, [0, 1, 2])

    """
    if hasattr(env, "num_envs") or not hasattr(env, "step") or not hasattr(env, "action_space"):
        raise InputTypeError(
            f"env must be a single gymnasium.Env, received {type(env).__name__}: pass one environment, not a vector"
        )
    most, longest = USUAL_EPISODES if episodes is None else episodes, LONGEST if max_steps is None else max_steps
    for name, value in (("episodes", most), ("max_steps", longest)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, received {value!r}: correct it")
    bonus, rng = as_intrinsic(term), np.random.default_rng(seed)
    act = policy or random_policy(env, seed)
    names = ("obs", "action", "next_obs", "term", "terminated", "truncated", "extrinsic", "episode")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for number in range(most):
        _play(env, bonus, lambda obs: act(obs, rng), seed + number, longest, columns)
        columns["episode"] += [number] * (len(columns["term"]) - len(columns["episode"]))
        if episodes is None and len(columns["term"]) >= ENOUGH:
            break
    return dict(columns)


def _play(
    env: Any, bonus: Intrinsic, act: Callable[[Any], Any], seed: int, max_steps: int, columns: dict[str, list[Any]]
) -> None:
    """Add one episode to the columns."""
    obs, _ = env.reset(seed=seed)
    obs = copy.deepcopy(obs)  # environments may write into the arrays they handed out
    for step in range(max_steps):
        action = act(obs)
        try:
            found, reward, terminated, truncated, info = env.step(action)
        except Exception as error:
            raise InputError(
                f"env must step with every action of the policy, received {action!r}, which raised {in_words(error)}: "
                "correct the policy or the environment"
            ) from error
        found = copy.deepcopy(found)
        truncated = bool(truncated) or step + 1 == max_steps
        transition = transition_of(obs, action, found, terminated, truncated, {})._replace(info=_Batched(info))
        row = (obs, action, found, _pay(bonus, transition), bool(terminated), truncated, float(reward))
        for name, value in zip(columns, row, strict=False):
            columns[name].append(value)
        bonus.update(transition)
        if terminated or truncated:
            return
        obs = found


class _Batched(dict[str, Any]):
    """The info of one environment as a batch of 1; an entry that is not there is named with those that are."""

    def __init__(self, info: Mapping[str, Any]) -> None:
        super().__init__({name: _one(value) for name, value in info.items()})

    def __missing__(self, name: str) -> Any:
        known = ", ".join(sorted(map(repr, self))) or "nothing"
        raise InputError(
            f"term must read an entry of info that is there, received {name!r} where info has {known}: name one"
        )


def _one(value: Any) -> Any:
    if isinstance(value, int | float | np.generic | np.ndarray):
        return np.asarray(value)[None]
    batch = np.empty(1, dtype=object)
    batch[0] = value
    return batch


def _pay(bonus: Intrinsic, transition: Transition) -> float:
    paid = np.asarray(bonus.reward(transition))
    if paid.size != 1 or paid.dtype.kind not in "biuf":
        raise InputTypeError(
            f"term must return one number per transition, received shape {paid.shape} of {paid.dtype}: return the "
            "reward term alone"
        )
    return float(paid.reshape(()))
