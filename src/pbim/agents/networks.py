"""The actor-critic: an embedding of the observation, an optional memory, and two heads."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.agents import _layers as layers
from pbim.agents._layers import LayerParams
from pbim.agents._memory import RecurrentCell, gru_step, lstm_step
from pbim.agents._views import spread
from pbim.envs.protocol import SMALLEST_IMAGE
from pbim.errors import InputError

MemoryKind = Literal["lstm", "gru", "none"]
InitScheme = Literal["torch-ac", "orthogonal"]

FILTERS = (16, 32, 64)


class Params(NamedTuple):
    """Embedding, recurrent cell (None without memory) and heads; ``hidden`` is the first layer of both heads.

    ``ledger`` (num_values,) is what the critics add to their values per unit of L_t; None where they do not see it.
    """

    embedding: tuple[LayerParams, ...]
    cell: RecurrentCell | None
    hidden: LayerParams
    actor: LayerParams
    critic: LayerParams
    ledger: Array | None = None


class Output(NamedTuple):
    """Action preferences (num_policies * num_actions, batch) and values (num_values, batch)."""

    logits: Array
    values: Array


@dataclass(frozen=True, kw_only=True)
class Network:
    """Shapes and kinds of an actor-critic; ``obs_shape`` picks the embedding.

    Images (H, W, C) go through torch-ac's three 2x2 convolutions (16, 32, 64 filters, one 2x2 maximum after the
    first), vectors (n,) through one tanh layer, indices () below ``num_indices`` through a row of a table.
    """

    obs_shape: tuple[int, ...]
    num_actions: int
    num_values: int = 1
    num_policies: int = 1
    num_indices: int = 0
    sees_ledger: bool = False
    memory: MemoryKind = "lstm"
    hidden_size: int = 64
    head_size: int = 64
    init_scheme: InitScheme = "torch-ac"

    def __post_init__(self) -> None:
        if len(self.obs_shape) == 3 and min(self.obs_shape[:2]) < SMALLEST_IMAGE:
            raise InputError(
                f"obs_shape must be at least {SMALLEST_IMAGE}x{SMALLEST_IMAGE} for images, received {self.obs_shape}: "
                "flatten smaller images to vectors"
            )
        if len(self.obs_shape) == 2 or len(self.obs_shape) > 3:
            raise InputError(f"obs_shape must be (), (n,) or (H, W, C), received {self.obs_shape}: reshape it")
        if self.obs_shape == () and self.num_indices < 1:
            raise InputError("obs_shape () needs num_indices, the number of states: pass env.num_states")

    @property
    def memory_size(self) -> int:
        """Rows of the memory: (h, c) of an LSTM, h of a GRU, none without memory."""
        return {"lstm": 2, "gru": 1, "none": 0}[self.memory] * self.hidden_size

    @property
    def embedding_size(self) -> int:
        """Rows of the embedding."""
        if len(self.obs_shape) < 3:
            return self.hidden_size
        height, width = ((length - 1) // 2 - 2 for length in self.obs_shape[:2])
        return height * width * FILTERS[-1]

    def init(self, key: Array) -> Params:
        """Draw the first parameters."""
        keys = jax.random.split(key, 5)
        core = self.hidden_size if self.memory != "none" else self.embedding_size
        return Params(
            embedding=self._init_embedding(keys[0]),
            cell=None if self.memory == "none" else self._init_cell(keys[1]),
            hidden=self._init_dense(keys[2], 2 * self.head_size, core, math.sqrt(2)),
            actor=self._init_dense(keys[3], self.num_policies * self.num_actions, self.head_size, 0.01),
            critic=self._init_dense(keys[4], self.num_values, self.head_size, 1.0),
            ledger=jnp.zeros(self.num_values) if self.sees_ledger else None,
        )

    def prepare(self, obs: Array) -> Array:
        """Turn observations (batch, ...) into rows (batch, K) to store and to train on; dtype is kept."""
        if len(self.obs_shape) == 3:
            return layers.flat(obs)
        if self.obs_shape == ():
            return (obs[:, None] == jnp.arange(self.num_indices)).astype(jnp.float32)
        return obs.astype(jnp.float32)

    def embed(self, params: Params, rows: Array) -> Array:
        """Return the embedding (embedding_size, batch) of prepared observations."""
        x = rows.T.astype(jnp.float32)
        first, *others = params.embedding
        if len(self.obs_shape) < 3:
            return jnp.tanh(layers.affine(*first, x))
        x = x[: math.prod(self.obs_shape)].reshape(*self.obs_shape, -1)
        x = layers.pooled_conv(first, x.transpose(2, 0, 1, 3))
        for layer in others:
            x = jax.nn.relu(layers.conv(layer, x))
        return x.reshape(-1, rows.shape[0])

    def step(self, params: Params, embedding: Array, memory: Array, *, constant: bool = False) -> tuple[Array, Array]:
        """Return the memory after one step and what the heads read, (rows, batch) each."""
        if params.cell is None:
            return memory, embedding
        cell_step = lstm_step if self.memory == "lstm" else gru_step
        memory = cell_step(params.cell, embedding, memory, constant=constant)
        return memory, memory[: self.hidden_size]

    def heads(self, params: Params, core: Array) -> Output:
        """Return action preferences and values of what the memory holds, core (rows, batch)."""
        actor, critic = jnp.split(jnp.tanh(layers.affine(*params.hidden, core)), 2)
        return Output(layers.affine(*params.actor, actor), layers.affine(*params.critic, critic))

    def logits(self, params: Params, core: Array, policy: Array | None = None) -> Array:
        """Return a policy's rows of the actor's half of ``heads``, (num_actions, batch); by default the first's."""
        weight, bias = params.hidden.weight[: self.head_size], params.hidden.bias[: self.head_size]
        found = layers.affine(*params.actor, jnp.tanh(layers.affine(weight, bias, core)))
        if self.num_policies == 1:
            return found
        return found.reshape(self.num_policies, self.num_actions, -1)[0 if policy is None else policy]

    def values(self, params: Params, core: Array) -> Array:
        """Return the critic's half of ``heads``, (num_values, batch)."""
        weight, bias = params.hidden.weight[self.head_size :], params.hidden.bias[self.head_size :]
        return layers.affine(*params.critic, jnp.tanh(layers.affine(weight, bias, core)))

    def unroll(
        self, params: Params, rows: Array, memory: Array, mask: Array, which: Array | None = None
    ) -> tuple[Output, list[Array]]:
        """Run subsequences: rows (steps * batch, K), memory (rows, batch) before them, mask (steps, batch).

        ``mask`` is 0 where an episode starts, which empties the memory; with ``which`` (steps * batch,) the rows are
        ``rows[which]``, each embedded once. Returns outputs over steps * batch (all of step 0 first) and the memory
        before the first step, which gets no gradient, and after each.
        """
        steps, batch = mask.shape
        embedding = self.embed(params, rows)
        if which is not None:
            embedding = spread(embedding, which)
        embedding = embedding.reshape(-1, steps, batch)
        memory = jax.lax.stop_gradient(memory)
        memories, cores = [memory], []
        for index in range(steps):
            memory, core = self.step(params, embedding[:, index], memory * mask[index], constant=index == 0)
            memories.append(memory)
            cores.append(core)
        return self.heads(params, jnp.stack(cores, axis=1).reshape(-1, steps * batch)), memories

    def _init_embedding(self, key: Array) -> tuple[LayerParams, ...]:
        if len(self.obs_shape) < 3:
            inputs = self.obs_shape[0] if self.obs_shape else self.num_indices
            return (self._init_dense(key, self.hidden_size, inputs, math.sqrt(2)),)
        found = []
        for outputs, inputs, k in zip(FILTERS, (self.obs_shape[2], *FILTERS), jax.random.split(key, 3), strict=False):
            fan_in = 4 * inputs
            if self.init_scheme == "orthogonal":
                found.append(layers.orthogonal(k, outputs, fan_in, math.sqrt(2)))
            else:
                weight, bias = jax.random.split(k)
                found.append(
                    LayerParams(
                        layers.uniform(weight, (outputs, fan_in), fan_in), layers.uniform(bias, (outputs,), fan_in)
                    )
                )
        return tuple(found)

    def _init_cell(self, key: Array) -> RecurrentCell:
        gates, size = (4 if self.memory == "lstm" else 3) * self.hidden_size, self.hidden_size
        shape = (gates, self.embedding_size + size)
        if self.init_scheme == "orthogonal":
            return RecurrentCell(layers.orthogonal(key, *shape, 1.0).weight, jnp.zeros((2, gates)))
        weight, bias = jax.random.split(key)
        return RecurrentCell(layers.uniform(weight, shape, size), layers.uniform(bias, (2, gates), size))

    def _init_dense(self, key: Array, outputs: int, inputs: int, gain: float) -> LayerParams:
        if self.init_scheme == "orthogonal":
            return layers.orthogonal(key, outputs, inputs, gain)
        return layers.unit_columns(key, outputs, inputs)


def num_parameters(params: Any) -> int:
    """Count the numbers in a pytree of parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
