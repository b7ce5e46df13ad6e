"""The conversion inside the loop, with the choice of what a truncation settles."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pbim.agents._config import PPO


def convert(config: PPO, state: Any, bonus: Array, terminated: Array, truncated: Array) -> tuple[Any, Array]:
    """Return the conversion's state and F' (T, num_envs) for a rollout of scaled bonuses.

    With ``config.settle_truncated`` an episode is settled wherever it stops. Without, a truncated episode's ledger is
    forgotten unpaid: right only for a learner whose bootstrap value already holds what is still owed. With
    ``config.settlement == "rollout"`` every rollout begins with an empty ledger and the bonus less the rollout's own
    mean, so that neither what earlier rollouts paid is taken back nor is the mean known before the step.
    """
    if config.settlement == "rollout":
        mean = 0 if getattr(config.shaping, "normalize", False) is False else jnp.mean(bonus)
        fresh = config.shaping.frozen()
        _, shaped = fresh.rollout(fresh.init(bonus.shape[1], like=bonus), bonus - mean, terminated | truncated)
        return state, shaped
    if config.settle_truncated:
        return config.shaping.rollout(state, bonus, terminated | truncated)
    empty = config.shaping.init(bonus.shape[1], like=bonus)

    def body(state: Any, row: tuple[Array, Array, Array]) -> tuple[Any, Array]:
        paid, over, cut = row
        state, shaped = config.shaping.step(state, paid, over)
        return _forgotten(empty, state, cut), shaped

    return jax.lax.scan(body, state, (bonus, terminated, truncated & ~terminated))


def abandoned(config: PPO, state: Any) -> Any:
    """Return the conversion's state with every running episode dropped unsettled; statistics shared by all stay."""
    fresh = config.shaping.init(config.num_envs, like=jnp.zeros(0))
    return _forgotten(fresh, state, jnp.ones(config.num_envs, bool))


def _forgotten(fresh: Any, state: Any, where: Array) -> Any:
    def leaf(new: Array, old: Array) -> Array:
        return jnp.where(where, new, old) if new.ndim and new.shape[-1] == where.shape[0] else old

    return jax.tree.map(leaf, fresh, state)
