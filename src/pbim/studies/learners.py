"""A configuration (plain data) as the learner it describes."""

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pbim import shaping
from pbim.agents.ppo import PPO
from pbim.agents.q_learning import QLearning
from pbim.envs import CliffWalk, DoorKey
from pbim.errors import RepaymentWarning
from pbim.results import canonical
from pbim.studies.study import Config

BLOCK = 128
"""Steps of F-bar's block: a rollout of PPO, and as many steps of Q-learning."""

_ABOUT = ("schema", "learner", "seed", "exact", "lanes")
_CENTRINGS: dict[str, Callable[[], Any]] = {
    "none": lambda: False,
    "running": lambda: True,
    "moving": lambda: shaping.ExponentialMean(rate=0.01),
    "previous": lambda: shaping.PreviousRollout(steps=BLOCK),
}


@dataclass(frozen=True)
class Coordinates:
    """Cells of a grid as (column, row): (num_envs,) -> (num_envs, 2)."""

    width: int

    def __call__(self, cells: Any) -> Array:
        """Return one pair a cell."""
        cells = jnp.asarray(cells)
        return jnp.stack([cells % self.width, cells // self.width], axis=1).astype(jnp.float32)


def learner_of(config: Config) -> QLearning | PPO:
    """Return the learner of a run's configuration, the same object for all seeds, so that JAX compiles it once."""
    return _learner(canonical({name: value for name, value in config.items() if name != "seed"}))


@lru_cache(maxsize=8)
def _learner(text: str) -> QLearning | PPO:
    config = json.loads(text)
    with warnings.catch_warnings():  # the repayment's size is the study's subject, not a surprise
        warnings.simplefilter("ignore", RepaymentWarning)
        return _q_learning(config) if config["learner"] == "q_learning" else _ppo(config)


def _q_learning(config: Config) -> QLearning:
    env, bonus = _table(config["env"]), config["intrinsic"]
    return QLearning(
        env=env,
        intrinsic=None if bonus is None else _tabular_bonus(bonus, env),
        intrinsic_scale=1.0 if bonus is None else bonus["scale"],
        shaping=_shaping(config["shaping"], config["gamma"]),
        **_numbers(config),
    )


def _ppo(config: Config) -> PPO:
    from pbim.intrinsic import EpisodicCount

    bonus = config["intrinsic"]
    return PPO(
        env=DoorKey(**config["env"]),
        intrinsic=None if bonus is None else EpisodicCount(alpha=bonus["alpha"], key="count_key"),
        shaping=_shaping(config["shaping"], config["gamma"]),
        **_numbers(config),
    )


def _numbers(config: Config) -> dict[str, Any]:
    return {k: v for k, v in config.items() if k not in (*_ABOUT, "env", "intrinsic", "shaping")}


def _table(env: Config) -> Any:
    """Return our cliff walk, RiverSwim, or a toy-text environment of Gymnasium's."""
    from pbim.envs.toy_text import ToyText, river_swim

    if "name" not in env:
        return CliffWalk(**env)
    if env["name"] == "RiverSwim":
        return river_swim(env["max_steps"])
    return ToyText.make(env["name"], max_episode_steps=env["max_steps"])


def _tabular_bonus(bonus: Config, env: Any) -> Any:
    import optax  # type: ignore[import-untyped]

    from pbim.intrinsic import RND, EpisodicCount, LifetimeCount, one_hot

    if bonus["kind"] == "count":
        return EpisodicCount(alpha=bonus["alpha"])
    if bonus["kind"] == "lifetime-count":
        return LifetimeCount(beta=bonus["alpha"])
    return RND(
        encode=one_hot(env.num_states) if bonus["encoding"] == "one-hot" else Coordinates(env.width),
        hidden=tuple(bonus["hidden"]),
        features=bonus["features"],
        learning_rate=bonus["learning_rate"],
        optimizer={"adam": optax.adam, "sgd": optax.sgd}[bonus["optimizer"]],
        normalize=False,
    )


def _shaping(data: Config, gamma: float) -> shaping.Shaping:
    if data["kind"] == "none":
        return shaping.NoBonus()
    if data["kind"] == "raw":
        return shaping.Raw()
    if data["kind"] == "mixture":
        members: Any = tuple(_shaping(member, gamma) for member in data["members"])
        return shaping.Mixture(members=members, weights=tuple(data["weights"]))
    more = {name: data[name] for name in ("delay", "rate", "limit") if name in data}
    kind: Any = shaping.CONVERSIONS[data["kind"]]
    return kind(gamma=gamma, normalize=_CENTRINGS[data["centring"]](), **more)  # type: ignore[no-any-return]


def seed_key(config: Config) -> Array:
    """Return the random key of a run: its seed and nothing else."""
    return jax.random.key(config["seed"])
