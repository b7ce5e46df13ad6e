"""Recurrent cells on (features, batch), and their unrolling over a few masked steps."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Cell(NamedTuple):
    """Weights (gates * hidden, inputs) and (gates * hidden, hidden), and the two biases PyTorch keeps, (2, gates * hidden)."""

    inputs: Array
    hidden: Array
    bias: Array


def lstm_step(cell: Cell, projected: Array, memory: Array) -> Array:
    """Return the memory (2 * hidden, batch) = (h, c) after one step; ``projected`` is W_x x + b, gates i, f, g, o.

    Hochreiter & Schmidhuber 1997, with PyTorch's order of gates.
    """
    h, c = jnp.split(memory, 2)
    i, f, g, o = jnp.split(projected + cell.hidden @ h, 4)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jnp.concatenate([jax.nn.sigmoid(o) * jnp.tanh(c), c])


def gru_step(cell: Cell, projected: Array, memory: Array) -> Array:
    """Return the memory (hidden, batch) after one step; ``projected`` is W_x x + b_x, gates r, z, n.

    Cho et al. 2014, as PyTorch computes it: the candidate's own bias stays inside the reset gate.
    """
    r, z, n = jnp.split(projected, 3)
    hidden_r, hidden_z, hidden_n = jnp.split(cell.hidden @ memory + cell.bias[1][:, None], 3)
    update = jax.nn.sigmoid(z + hidden_z)
    candidate = jnp.tanh(n + jax.nn.sigmoid(r + hidden_r) * hidden_n)
    return (1 - update) * candidate + update * memory
