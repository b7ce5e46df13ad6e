"""First weights: PyTorch's own where asked for, and what they do to the size of a bonus."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from pbim.errors import InputError
from pbim.intrinsic import E3B, ICM, RIDE, RND, Disagreement, Spec, Transition, one_hot
from pbim.intrinsic._networks import mlp, mlp_init

SIZES = (48, 64, 64, 32)


def torch_network():
    layers = []
    for inputs, outputs in pairwise(SIZES):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def copied(network):
    """Return PyTorch's weights as our layers."""
    linear = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
    ours = mlp_init(jax.random.key(0), SIZES, "torch")
    assert [layer.weight.shape for layer in ours] == [layer.weight.T.shape for layer in linear]
    return [
        type(own)(jnp.asarray(theirs.weight.detach().T.numpy()), jnp.asarray(theirs.bias.detach().numpy()))
        for own, theirs in zip(ours, linear, strict=True)
    ]


def test_with_pytorchs_weights_the_outputs_are_pytorchs():
    torch.manual_seed(0)
    network, x = torch_network(), np.random.default_rng(0).normal(size=(20, 48)).astype(np.float32)
    expected = network(torch.asarray(x)).detach().numpy()
    np.testing.assert_allclose(mlp(copied(network), jnp.asarray(x)), expected, rtol=2e-5, atol=2e-6)


def test_layers_are_drawn_from_the_distribution_of_pytorchs():
    """Moments and range of every layer's weights and biases over many networks, ours beside torch.nn.Linear's."""
    torch.manual_seed(0)
    ours = [mlp_init(key, SIZES, "torch") for key in jax.random.split(jax.random.key(1), 40)]
    theirs = [copied(torch_network()) for _ in range(40)]
    for layer, inputs in enumerate(SIZES[:-1]):
        bound = inputs**-0.5
        for part in ("weight", "bias"):
            one, other = (
                np.concatenate([np.asarray(getattr(net[layer], part)).ravel() for net in nets])
                for nets in (ours, theirs)
            )
            for drawn in (one, other):
                assert np.abs(drawn).max() <= bound * (1 + 1e-6)
                assert np.abs(drawn).max() >= bound * 0.99
                assert abs(drawn.mean()) < bound * 5 * (3 * len(drawn)) ** -0.5
            shares = np.quantile(one, [0.1, 0.5, 0.9]) - np.quantile(other, [0.1, 0.5, 0.9])
            assert np.abs(shares).max() < 0.1 * bound


@pytest.mark.parametrize("scheme", ["orthogonal", "torch"])
@pytest.mark.parametrize("kind", [RND, ICM, RIDE, E3B, Disagreement])
def test_every_learned_bonus_draws_all_its_networks_by_the_scheme(kind, scheme):
    """Biases tell: orthogonal ones start at 0, PyTorch's do not."""
    settings = {"hidden": (8,), "features": 4, "init_scheme": scheme, "optimizer": optax.sgd}  # sgd remembers no biases
    settings |= {} if kind is RND else {"num_actions": 3}
    settings |= {"key": "cell"} if kind is RIDE else {}
    bonus, no = kind(**settings), jnp.zeros(2, bool)
    example = Transition(jnp.zeros((2, 5)), jnp.zeros(2, int), jnp.zeros((2, 5)), no, no, {"cell": jnp.zeros(2, int)})
    state = bonus.init(jax.random.key(0), Spec(example=example, num_actions=3, num_keys=4))
    paths, _ = jax.tree_util.tree_flatten_with_path(state)
    biases = [leaf for path, leaf in paths if "bias" in str(path[-1])]
    assert len(biases) >= 4
    for bias in biases:
        assert bool(jnp.any(bias != 0)) is (scheme == "torch")


def test_pytorchs_layers_make_a_far_smaller_and_more_even_error():
    """Of one-hot states, as on the cliff walk: the factor 1000 then gives a bonus of about 12, even to 1."""
    states, no = jnp.arange(48), jnp.zeros(48, bool)
    every = Transition(states, states * 0, states, no, no, {})
    errors = {}
    for scheme in ("orthogonal", "torch"):
        bonus = RND(encode=one_hot(48), hidden=(64, 64), features=64, normalize=False, init_scheme=scheme)
        errors[scheme] = 1000 * bonus.reward_fn(bonus.init(jax.random.key(0), Spec(example=every)), every)
    assert 5 < float(errors["torch"].mean()) < 25
    assert float(errors["torch"].std()) < 1
    assert float(errors["orthogonal"].std()) > 10


def test_other_schemes_are_refused():
    with pytest.raises(InputError, match="init_scheme must be one of orthogonal, torch"):
        RND(init_scheme="xavier")
