"""Multi-layer perceptrons as plain lists of arrays, and one pass of minibatch training."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]
from jax import Array
from jax.custom_batching import sequential_vmap


class Layer(NamedTuple):
    """Weight (inputs, outputs) and bias (outputs,)."""

    weight: Array
    bias: Array


MLP: TypeAlias = list[Layer]
Loss: TypeAlias = Callable[[Any, Any, Array], Array]
Optimizer: TypeAlias = Callable[[float], Any]
"""A learning rate in, an optax.GradientTransformation out: ``optax.adam``, ``optax.sgd``, ..."""

adam: Optimizer = optax.adam


Init: TypeAlias = Literal["orthogonal", "torch"]
"""How first weights are drawn: orthogonal with gain sqrt 2 and no biases, or as PyTorch's ``torch.nn.Linear`` does."""


def mlp_init(key: Array, sizes: tuple[int, ...], init: Init) -> MLP:
    """Return random layers for the sizes (inputs, hidden..., outputs)."""
    keys = jax.random.split(key, len(sizes) - 1)
    pairs = zip(keys, sizes[:-1], sizes[1:], strict=True)
    if init == "torch":
        return [_torch_layer(k, inputs, outputs) for k, inputs, outputs in pairs]
    gain = math.sqrt(2.0)
    return [Layer(_orthogonal(k, (inputs, outputs), gain), jnp.zeros(outputs)) for k, inputs, outputs in pairs]


def _torch_layer(key: Array, inputs: int, outputs: int) -> Layer:
    """Draw weights and biases uniformly in +-1 / sqrt(inputs), the default of ``torch.nn.Linear``."""
    weight_key, bias_key = jax.random.split(key)
    bound = inputs**-0.5
    draw = partial(jax.random.uniform, minval=-bound, maxval=bound)
    return Layer(draw(weight_key, (inputs, outputs)), draw(bias_key, (outputs,)))


def _orthogonal(key: Array, shape: tuple[int, int], gain: float) -> Array:
    """Draw an orthogonal weight; under ``vmap`` one after another.

    Batched QR decompositions share out their batch among threads, and two of them at once can wait for each other's
    for ever (jaxlib 0.10 on two cores).
    """
    draw = jax.nn.initializers.orthogonal(gain)
    return sequential_vmap(lambda key: draw(key, shape, jnp.float32))(key)  # type: ignore[no-any-return, no-untyped-call]


def mlp(layers: MLP, x: Any) -> Any:
    """Return the output (rows, outputs) for inputs (rows, inputs), of JAX or of NumPy; ReLU between the layers."""
    for layer in layers[:-1]:
        x = x @ layer.weight + layer.bias
        x = np.maximum(x, 0) if isinstance(x, np.ndarray) else jax.nn.relu(x)
    return x @ layers[-1].weight + layers[-1].bias


def weighted_mean(values: Array, weights: Array) -> Array:
    """Return the mean of the values of weight 1, and 0 if there are none."""
    return (values * weights).sum() / jnp.maximum(weights.sum(), 1.0)


class Fitted(NamedTuple):
    """What is trained and the optimiser's memory of it."""

    params: Any
    opt_state: Any


def minibatches(
    key: Array, weights: Array, batch_size: int | None = None, proportion: float = 1.0
) -> tuple[Array, Array]:
    """Return which rows make up each minibatch of one pass, (batches, size), and their weights.

    ``batch_size=None`` makes one batch of all rows; ``proportion`` draws that share of them. A last, smaller batch is
    filled up with rows of weight 0.
    """
    rows = weights.shape[0]
    used = max(1, round(rows * proportion))
    size = min(batch_size or used, used)
    if size == rows:
        return jnp.arange(rows)[None], weights[None]
    batches = -(-used // size)
    order = jnp.argsort(jax.random.bits(key, (rows,)))
    index = jnp.resize(order[:used], (batches * size,))
    real = (jnp.arange(batches * size) < used) * weights[index]
    return index.reshape(batches, size), real.reshape(batches, size)


def fit(
    loss: Loss, optimizer: optax.GradientTransformation, fitted: Fitted, data: Any, index: Array, weights: Array
) -> Fitted:
    """Return ``fitted`` after a step of gradient descent on each minibatch (``minibatches``) of the rows of ``data``.

    ``loss(params, rows, weights)`` is a scalar.
    """

    def step(fitted: Fitted, batch: tuple[Array, Array]) -> tuple[Fitted, None]:
        chosen, importance = batch
        rows = jax.tree.map(lambda x: x[chosen], data)
        gradient = jax.grad(loss)(fitted.params, rows, importance)
        updates, opt_state = optimizer.update(gradient, fitted.opt_state, fitted.params)
        return Fitted(optax.apply_updates(fitted.params, updates), opt_state), None

    return jax.lax.scan(step, fitted, (index, weights))[0]
