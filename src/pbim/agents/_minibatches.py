"""Minibatches of subsequences, drawn as torch-ac draws them.

A rollout of T steps in N environments is cut into T / R subsequences of R steps per environment, numbered
``piece * N + environment``. In every other epoch the cuts are shifted by R // 2 steps, the last piece of each
environment is left out, and the last minibatch is smaller: its missing places have weight 0.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """How a rollout is cut: ``num_steps`` and ``recurrence`` per environment, ``size`` frames per minibatch."""

    num_envs: int
    num_steps: int
    recurrence: int
    size: int

    @property
    def shift(self) -> int:
        """Steps by which every other epoch's cuts are moved."""
        return self.recurrence // 2

    @property
    def pieces(self) -> int:
        """Subsequences per environment."""
        return self.num_steps // self.recurrence

    @property
    def sequences(self) -> int:
        """Subsequences in all."""
        return self.pieces * self.num_envs

    @property
    def per_minibatch(self) -> int:
        """Subsequences per minibatch."""
        return self.size // self.recurrence

    def draw(self, key: Array, shifted: Array) -> tuple[Array, Array]:
        """Return subsequences and their weights, both (minibatches, per_minibatch), for one epoch."""
        numbers = jnp.arange(self.sequences)
        left_out = shifted & (numbers >= self.sequences - self.num_envs) & (self.shift > 0)
        order = jnp.argsort(jax.random.uniform(key, numbers.shape) + 2.0 * left_out)
        weights = 1.0 - left_out[order]
        return order.reshape(-1, self.per_minibatch), weights.reshape(-1, self.per_minibatch)

    def frames(self, sequences: Array, shifted: Array) -> Array:
        """Return the frames ``step * num_envs + environment`` of subsequences (n,), as (recurrence, n)."""
        start = sequences // self.num_envs * self.recurrence + self.shift * shifted
        step = jnp.minimum(start + jnp.arange(self.recurrence)[:, None], self.num_steps - 1)
        return step * self.num_envs + sequences % self.num_envs

    def starts(self, memories: Array, shifted: Array) -> Array:
        """Return the memories (num_steps, rows, num_envs) at the subsequences' starts, as (sequences, rows)."""
        frames = self.frames(jnp.arange(self.sequences), shifted)[0]
        return memories.swapaxes(1, 2).reshape(self.num_steps * self.num_envs, -1)[frames]

    def refresh(self, order: Array, passed: Array, first: Array, shifted: Array) -> Array:
        """Return the next epoch's starts (sequences, rows): the memories where this epoch passed them.

        ``passed`` (minibatches, rows, per_minibatch) is the memory at the next epoch's cut inside each subsequence,
        ``first`` (sequences, rows) the rollout's own, still valid for the first piece of each environment.
        """
        by_number = passed.swapaxes(1, 2).reshape(self.sequences, -1)[jnp.argsort(order.reshape(-1))]
        moved = jnp.concatenate([first[: self.num_envs], by_number[: -self.num_envs]])
        return jnp.where(shifted, moved, by_number)
