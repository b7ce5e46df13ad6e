"""Layers with the batch on the last axis, written as matrix products.

Every activation has shape (features, ..., batch): elementwise work then runs along contiguous memory, and products of
64-wide matrices reach most of a core's peak. XLA's CPU backend is several times slower on the same layers written with
``lax.conv`` or with the batch first, and an order of magnitude slower on convolutions inside ``lax.scan``.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import sequential_vmap

MOST_SEPARATE_PLACES = 25


class LayerParams(NamedTuple):
    """Weight (outputs, inputs) and bias (outputs,); a 2x2 kernel's inputs are PyTorch's (channel, y, x), flattened."""

    weight: Array
    bias: Array


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def affine(weight: Array, bias: Array, x: Array, constant: int = 0) -> Array:  # noqa: ARG001
    """Return W x + b, (outputs, batch), for x (inputs, batch), whose last ``constant`` rows get no gradient."""
    return weight @ x + bias[:, None]


def _affine_forward(weight: Array, bias: Array, x: Array, constant: int) -> tuple[Array, tuple[Array, Array]]:
    return affine(weight, bias, x, constant), (weight, x)


def _affine_backward(constant: int, saved: tuple[Array, Array], d: Array) -> tuple[Array, Array, Array]:
    weight, x = saved
    back = weight[:, : x.shape[0] - constant].T
    back = jax.lax.optimization_barrier(back)  # type: ignore[no-untyped-call]  # folded in, it is slower
    return d @ x.T, row_sums(d), jnp.pad(back @ d, ((0, constant), (0, 0)))


affine.defvjp(_affine_forward, _affine_backward)


def row_sums(x: Array) -> Array:
    """Return the sum over the batch, (rows,), as a product: XLA does not vectorise a float sum along memory."""
    return x @ jnp.ones(x.shape[1], x.dtype)


def flat(image: Array) -> Array:
    """Return images (batch, H, W, C) as rows (batch, K), K rounded up to a multiple of four (see ``take_rows``)."""
    rows = image.reshape(image.shape[0], -1)
    return jnp.pad(rows, ((0, 0), (0, -rows.shape[1] % 4)))


def take_rows(rows: Array, index: Array) -> Array:
    """Return ``rows[index]`` (..., K) of rows (n, K); rows of bytes are moved a word at a time."""
    if rows.dtype != jnp.uint8 or rows.shape[-1] % 4:
        return _gather(rows, index)
    words = jax.lax.bitcast_convert_type(rows.reshape(rows.shape[0], -1, 4), jnp.uint32)
    return jax.lax.bitcast_convert_type(_gather(words, index), jnp.uint8).reshape(*index.shape, rows.shape[-1])


def _gather(rows: Array, index: Array) -> Array:
    gathered: Array = rows.at[index].get(mode="promise_in_bounds")
    return gathered


def pooled_conv(layer: LayerParams, image: Array) -> Array:
    """Return max-pool(relu(conv 2x2)), (outputs, height, width, batch), of images (channels, H, W, batch)."""
    height, width = ((length - 1) // 2 for length in image.shape[1:3])
    views = [
        [image[:, y : y + 2 * height - 1 : 2, x : x + 2 * width - 1 : 2].reshape(image.shape[0], -1) for x in range(3)]
        for y in range(3)
    ]
    windows = [
        jnp.concatenate([views[y + dy][x + dx] for dy in (0, 1) for dx in (0, 1)]) for y in (0, 1) for x in (0, 1)
    ]
    largest = _largest_of_four(_by_tap(layer.weight), layer.bias, windows)
    return largest.reshape(-1, height, width, image.shape[-1])


@jax.custom_vjp
def _largest_of_four(weight: Array, bias: Array, windows: list[Array]) -> Array:
    return _largest_forward(weight, bias, windows)[0]


def _largest_forward(weight: Array, bias: Array, windows: list[Array]) -> tuple[Array, tuple[Any, ...]]:
    each = [weight @ window + bias[:, None] for window in windows]
    largest = jax.nn.relu(jnp.maximum(jnp.maximum(each[0], each[1]), jnp.maximum(each[2], each[3])))
    return largest, (each, largest, windows)


def _largest_backward(saved: tuple[Any, ...], d: Array) -> tuple[Array, Array, None]:
    """Pass the gradient to the first of equal maxima, as PyTorch's pooling does."""
    each, largest, windows = saved
    left = jnp.where(largest > 0, d, 0)
    into_bias, into_weight = row_sums(left), []
    for one, window in zip(each, windows, strict=True):
        taken = jnp.where(one == largest, left, 0)
        left = left - taken
        into_weight.append(window @ taken.T)
    return sum(into_weight).T, into_bias, None


_largest_of_four.defvjp(_largest_forward, _largest_backward)


def conv(layer: LayerParams, x: Array) -> Array:
    """Return a 2x2 convolution, (outputs, height - 1, width - 1, batch), of x (inputs, height, width, batch)."""
    _, height, width, batch = x.shape
    one, large = (height, width) == (2, 2), height * width > MOST_SEPARATE_PLACES
    out = affine(*layer, _unfold(x)) if one or large else _small_conv(*layer, x)
    return out.reshape(-1, height - 1, width - 1, batch)


def _unfold(x: Array) -> Array:
    """Return the 2x2 windows of x (C, H, W, batch) as columns: (C * 4, (H - 1) * (W - 1) * batch)."""
    channels, height, width, _ = x.shape
    if (height, width) == (2, 2):
        return x.reshape(channels * 4, -1)
    views = [x[:, dy : height - 1 + dy, dx : width - 1 + dx] for dy in (0, 1) for dx in (0, 1)]
    return jnp.stack(views, axis=1).reshape(channels * 4, -1)


@jax.custom_vjp
def _small_conv(weight: Array, bias: Array, x: Array) -> Array:
    return _small_conv_forward(weight, bias, x)[0]


def _small_conv_forward(weight: Array, bias: Array, x: Array) -> tuple[Array, tuple[Array, list[Array], Array]]:
    """Multiply each place apart: its window lies together in memory, which rows of a larger matrix do not."""
    _, height, width, _ = x.shape
    by_tap = _by_tap(weight)
    windows = [
        jnp.concatenate([x[:, i + dy, j + dx] for dy in (0, 1) for dx in (0, 1)])
        for i in range(height - 1)
        for j in range(width - 1)
    ]
    out = jnp.concatenate([by_tap @ window for window in windows], axis=1)
    return out + bias[:, None], (by_tap, windows, x[:0])


def _small_conv_backward(saved: tuple[Array, list[Array], Array], d: Array) -> tuple[Array, Array, Array]:
    """Send the gradient back place by place, and add it up where windows overlap."""
    by_tap, windows, empty = saved
    _, height, width, batch = empty.shape
    each = jnp.split(d, len(windows), axis=1)
    taken: Any = sum(part @ window.T for part, window in zip(each, windows, strict=True))
    back: Array = jax.lax.optimization_barrier(by_tap.T)  # type: ignore[no-untyped-call]
    parts: dict[tuple[int, int], Any] = {}
    for place, d_place in enumerate(each):
        i, j = divmod(place, width - 1)
        for tap, part in enumerate(jnp.split(back @ d_place, 4)):
            at = (i + tap // 2, j + tap % 2)
            parts[at] = parts.get(at, 0.0) + part
    into = jnp.concatenate([parts[i, j] for i in range(height) for j in range(width)], axis=1)
    return _by_channel(taken), row_sums(d), into.reshape(-1, height, width, batch)


_small_conv.defvjp(_small_conv_forward, _small_conv_backward)


def _by_tap(kernel: Array) -> Array:
    """Reorder a kernel's inputs (channel, tap), PyTorch's, to (tap, channel)."""
    return kernel.reshape(kernel.shape[0], -1, 4).swapaxes(1, 2).reshape(kernel.shape)


def _by_channel(kernel: Array) -> Array:
    """Undo ``_by_tap``."""
    return kernel.reshape(kernel.shape[0], 4, -1).swapaxes(1, 2).reshape(kernel.shape)


def unit_columns(key: Array, outputs: int, inputs: int) -> LayerParams:
    """Draw normal weights scaled to unit norm per output, zero bias (what torch-ac's models start from)."""
    weight = jax.random.normal(key, (outputs, inputs))
    return LayerParams(weight / jnp.linalg.norm(weight, axis=1, keepdims=True), jnp.zeros(outputs))


def uniform(key: Array, shape: tuple[int, ...], fan_in: int) -> Array:
    """Draw from U(-1/sqrt(fan_in), 1/sqrt(fan_in)), PyTorch's default for convolutions, cells and biases."""
    return jax.random.uniform(key, shape, minval=-1.0, maxval=1.0) / jnp.sqrt(float(fan_in))


def orthogonal(key: Array, outputs: int, inputs: int, gain: float) -> LayerParams:
    """Draw an orthogonal weight of the given gain and a zero bias; seeds draw in turn (see ``intrinsic._networks``)."""
    draw = jax.nn.initializers.orthogonal(gain, column_axis=0)
    weight = sequential_vmap(lambda key: draw(key, (outputs, inputs), jnp.float32))(key)  # type: ignore[no-untyped-call]
    return LayerParams(weight, jnp.zeros(outputs))
