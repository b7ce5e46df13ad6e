"""Recurrent cells on (features, batch); a ``constant`` memory gets no gradient."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.agents._layers import affine


class RecurrentCell(NamedTuple):
    """Weight (gates * hidden, inputs + hidden), and the two biases that PyTorch keeps, (2, gates * hidden)."""

    weight: Array
    bias: Array


def lstm_step(cell: RecurrentCell, x: Array, memory: Array, *, constant: bool = False) -> Array:
    """Return the memory (2 * hidden, batch) = (h, c) after one step on x (inputs, batch).

    Hochreiter & Schmidhuber 1997, with PyTorch's order of gates: i, f, g, o.
    """
    h, c = jnp.split(memory, 2)
    still = h.shape[0] if constant else 0
    i, f, g, o = jnp.split(affine(cell.weight, cell.bias.sum(0), jnp.concatenate([x, h]), still), 4)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jnp.concatenate([jax.nn.sigmoid(o) * jnp.tanh(c), c])


def gru_step(cell: RecurrentCell, x: Array, memory: Array, *, constant: bool = False) -> Array:
    """Return the memory (hidden, batch) after one step on x (inputs, batch); gates r, z, n.

    Cho et al. 2014, as PyTorch computes it: the candidate's second bias stays inside the reset gate.
    """
    inputs = x.shape[0]
    r, z, n = jnp.split(affine(cell.weight[:, :inputs], cell.bias[0], x), 3)
    still = memory.shape[0] if constant else 0
    hidden_r, hidden_z, hidden_n = jnp.split(affine(cell.weight[:, inputs:], cell.bias[1], memory, still), 3)
    update = jax.nn.sigmoid(z + hidden_z)
    candidate = jnp.tanh(n + jax.nn.sigmoid(r + hidden_r) * hidden_n)
    return (1 - update) * candidate + update * memory
