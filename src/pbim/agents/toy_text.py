"""Gymnasium's toy-text environments as arrays, for compiled Q-learning."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pbim.envs import Timestep
from pbim.errors import InputError


class ToyTextState(NamedTuple):
    """The state's number () and the steps taken ()."""

    cell: jax.Array
    step: jax.Array


@dataclass(frozen=True, kw_only=True, eq=False)
class ToyText:
    """A finite environment given by its table of outcomes; ``ToyText.make("FrozenLake-v1")`` reads one of Gymnasium's.

    ``chance`` (S, A, K) cumulates the probabilities of K outcomes, ``arrived``, ``reward`` and ``over`` (S, A, K) say
    where each leads, and ``start`` (S,) cumulates the distribution of the first state.
    """

    chance: Any
    arrived: Any
    reward: Any
    over: Any
    start: Any
    max_steps: int

    @classmethod
    def make(cls, name: str, **options: Any) -> "ToyText":
        """Read a Gymnasium toy-text environment; ``options`` go to ``gymnasium.make``."""
        import gymnasium

        made = gymnasium.make(name, **options)
        env: Any = made.unwrapped
        if not hasattr(env, "P") or not hasattr(env, "initial_state_distrib"):
            raise InputError(
                f"name must be a toy-text environment with a table P, received {name!r}: try FrozenLake-v1"
            )
        limit = made.spec.max_episode_steps if made.spec else None
        states, actions = len(env.P), len(env.P[0])
        width = max(len(outcomes) for row in env.P.values() for outcomes in row.values())
        table = np.zeros((4, states, actions, width))
        for state, row in env.P.items():
            for action, outcomes in row.items():
                padded = [*outcomes, *[(0.0, *outcomes[-1][1:])] * (width - len(outcomes))]
                table[:, state, action] = np.array([tuple(map(float, outcome)) for outcome in padded]).T
        return cls(
            chance=np.cumsum(table[0], axis=-1),
            arrived=table[1].astype(np.int32),
            reward=table[2],
            over=table[3] > 0,
            start=np.cumsum(env.initial_state_distrib),
            max_steps=limit or 10 * states,
        )

    @property
    def num_states(self) -> int:
        """Rows of the table."""
        return int(self.chance.shape[0])

    @property
    def num_actions(self) -> int:
        """Columns of the table."""
        return int(self.chance.shape[1])

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """An index has no axes."""
        return ()

    @property
    def obs_dtype(self) -> Any:
        """Indices are 32-bit integers."""
        return np.int32

    def reset(self, key: jax.Array) -> tuple[ToyTextState, jax.Array]:
        """Draw the first state."""
        cell = _pick(jnp.asarray(self.start, jnp.float32), jax.random.uniform(key))
        state = ToyTextState(cell, jnp.int32(0))
        return state, cell

    def observe(self, state: ToyTextState) -> jax.Array:
        """Return the state's number ()."""
        return state.cell

    def step(self, key: jax.Array, state: ToyTextState, action: jax.Array) -> Timestep[ToyTextState]:
        """Draw one of the outcomes of the action."""
        here = (state.cell, action)
        outcome = _pick(jnp.asarray(self.chance, jnp.float32)[here], jax.random.uniform(key))
        cell = jnp.asarray(self.arrived)[here][outcome]
        following = ToyTextState(cell, state.step + 1)
        reward = jnp.asarray(self.reward, jnp.float32)[here][outcome]
        over = jnp.asarray(self.over)[here][outcome]
        return Timestep(following, cell, reward, over, following.step >= self.max_steps)


def _pick(cumulated: jax.Array, draw: jax.Array) -> jax.Array:
    """Return the first entry whose cumulated probability exceeds the draw; the last where rounding leaves none."""
    return jnp.minimum(jnp.sum(cumulated <= draw), cumulated.shape[0] - 1).astype(jnp.int32)
