"""Layers written as matrix products equal the layers they stand for, gradients included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from pbim.agents import _layers as layers
from pbim.agents._layers import LayerParams
from pbim.agents._memory import RecurrentCell, gru_step, lstm_step
from pbim.agents.networks import Network, num_parameters


def random(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def plain_embedding(params, image):
    """The same embedding with lax.conv and reduce_window, channels last."""
    x = image.astype(jnp.float32)
    for index, layer in enumerate(params):
        kernel = layer.weight.reshape(layer.weight.shape[0], -1, 2, 2).transpose(2, 3, 1, 0)
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + layer.bias)
        if index == 0:
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.transpose(3, 1, 2, 0).reshape(-1, image.shape[0])


@pytest.mark.parametrize("size", [(7, 7, 3), (8, 9, 3), (14, 13, 1)])
def test_convolutions_as_products_equal_lax_conv(size):
    network = Network(obs_shape=size, num_actions=3)
    params = network.init(jax.random.key(0))
    image = jnp.asarray(np.random.default_rng(0).uniform(0, 5, (5, *size)), jnp.float32)
    weight = random(network.embedding_size, 5)

    def ours(embedding):
        return jnp.vdot(weight, network.embed(params._replace(embedding=embedding), network.prepare(image)))

    def plain(embedding):
        return jnp.vdot(weight, plain_embedding(embedding, image))

    got, got_gradient = jax.value_and_grad(ours)(params.embedding)
    expected, expected_gradient = jax.value_and_grad(plain)(params.embedding)
    np.testing.assert_allclose(got, expected, rtol=1e-4)
    for a, b in zip(jax.tree.leaves(got_gradient), jax.tree.leaves(expected_gradient), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-3)


def test_images_of_bytes_travel_as_words():
    image = jnp.asarray(np.random.default_rng(0).integers(0, 255, (6, 7, 7, 3)), jnp.uint8)
    rows = layers.flat(image)
    assert rows.shape == (6, 148)
    assert rows.dtype == jnp.uint8
    np.testing.assert_array_equal(rows[:, :147], image.reshape(6, 147))
    index = jnp.array([[3, 1], [0, 5]])
    np.testing.assert_array_equal(layers.take_rows(rows, index), rows[index])


def test_equal_maxima_pass_the_gradient_once():
    """Four equal windows: one of them gets the gradient, as in PyTorch, not all four."""
    layer = LayerParams(random(2, 4), jnp.ones(2))
    image = jnp.ones((1, 3, 3, 1))

    def total(layer):
        return jnp.sum(layers.pooled_conv(layer, image))

    gradient = jax.grad(total)(layer)
    alive = np.asarray(layers.pooled_conv(layer, image)).ravel() > 0
    np.testing.assert_allclose(gradient.bias, alive.astype(float))


def test_lstm_cell_equals_pytorch():
    theirs = torch.nn.LSTMCell(5, 4)
    cell = RecurrentCell(
        jnp.concatenate([theirs.weight_ih.detach().numpy(), theirs.weight_hh.detach().numpy()], axis=1),
        jnp.stack([theirs.bias_ih.detach().numpy(), theirs.bias_hh.detach().numpy()]),
    )
    x, h, c = random(5, 3), random(4, 3, seed=1), random(4, 3, seed=2)
    expected = theirs(torch.tensor(np.asarray(x).T), tuple(torch.tensor(np.asarray(part).T) for part in (h, c)))
    got = lstm_step(cell, x, jnp.concatenate([h, c]))
    np.testing.assert_allclose(got, np.concatenate([e.detach().numpy().T for e in expected]), atol=1e-6)


def test_gru_cell_equals_pytorch():
    theirs = torch.nn.GRUCell(5, 4)
    cell = RecurrentCell(
        jnp.concatenate([theirs.weight_ih.detach().numpy(), theirs.weight_hh.detach().numpy()], axis=1),
        jnp.stack([theirs.bias_ih.detach().numpy(), theirs.bias_hh.detach().numpy()]),
    )
    x, h = random(5, 3), random(4, 3, seed=1)
    expected = theirs(torch.tensor(np.asarray(x).T), torch.tensor(np.asarray(h).T)).detach().numpy().T
    np.testing.assert_allclose(gru_step(cell, x, h), expected, atol=1e-6)


def test_the_reference_network_has_the_reference_size():
    network = Network(obs_shape=(7, 7, 3), num_actions=7)
    assert num_parameters(network.init(jax.random.key(0))) == 52_664


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_a_mask_empties_the_memory(memory):
    """After a mask of 0 the outputs do not depend on anything before it."""
    network = Network(obs_shape=(6,), num_actions=3, memory=memory)
    params = network.init(jax.random.key(0))
    rows, mask = random(4 * 2, 6), jnp.ones((4, 2)).at[2, 0].set(0)

    def second_half(memory):
        output, _ = network.unroll(params, rows, memory, mask)
        return output.logits.reshape(3, 4, 2)[:, 2:]

    one = second_half(random(network.memory_size, 2))
    two = second_half(random(network.memory_size, 2, seed=1))
    np.testing.assert_array_equal(one[:, :, 0], two[:, :, 0])
    assert not np.allclose(one[:, :, 1], two[:, :, 1])


def test_unrolling_equals_stepping():
    network = Network(obs_shape=(7, 7, 3), num_actions=7)
    params = network.init(jax.random.key(1))
    images = jnp.asarray(np.random.default_rng(0).integers(0, 6, (3 * 2, 7, 7, 3)), jnp.uint8)
    rows, memory, mask = network.prepare(images), random(128, 2), jnp.ones((3, 2)).at[1, 1].set(0)
    output, memories = network.unroll(params, rows, memory, mask)
    for step in range(3):
        here = slice(2 * step, 2 * step + 2)
        memory, core = network.step(params, network.embed(params, rows[here]), memory * mask[step])
        np.testing.assert_allclose(memories[step + 1], memory, atol=1e-5)
        np.testing.assert_allclose(output.logits[:, here], network.logits(params, core), atol=1e-5)
        np.testing.assert_allclose(output.values[:, here], network.values(params, core), atol=1e-5)
