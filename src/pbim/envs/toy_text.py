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
    where each leads, and ``start`` (S,) cumulates the distribution of the first state. Every ``max_steps`` steps are
    truncated, also those of a learner that goes on without a reset.
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
        return Timestep(following, cell, reward, over, following.step % self.max_steps == 0)


def river_swim(max_steps: int) -> ToyText:
    """Return RiverSwim (Strehl & Littman 2008): six states in a row, left and right, an endless task.

    Left drifts with the current; right goes .3 forward, .6 nowhere and .1 back, at the ends .3 and .7. Staying pays
    .005 at the left end and 1 at the right one. The first state is the second or the third.
    """
    states, table = np.arange(6), np.zeros((6, 2, 3))
    table[:, 0] = (1.0, 0.0, 0.0)
    table[:, 1] = (0.1, 0.6, 0.3)
    table[0, 1], table[5, 1] = (0.0, 0.7, 0.3), (0.7, 0.3, 0.0)
    arrived = np.clip(states[:, None, None] + np.array([-1, 0, 1]), 0, 5).repeat(2, axis=1).astype(np.int32)
    reward = np.zeros_like(table)
    reward[0, 0, 0], reward[5, 1, 1] = 0.005, 1.0
    return ToyText(
        chance=np.cumsum(table, axis=-1),
        arrived=arrived,
        reward=reward,
        over=np.zeros(table.shape, bool),
        start=np.cumsum([0, 0.5, 0.5, 0, 0, 0]),
        max_steps=max_steps,
    )


def _pick(cumulated: jax.Array, draw: jax.Array) -> jax.Array:
    """Return the first entry whose cumulated probability exceeds the draw; the last where rounding leaves none."""
    return jnp.minimum(jnp.sum(cumulated <= draw), cumulated.shape[0] - 1).astype(jnp.int32)
