"""First weights: PyTorch's own where asked for, and what they do to the size of a bonus."""

import re
from functools import partial
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from scipy.stats import ks_2samp

from pbim.config import components
from pbim.errors import InputError
from pbim.intrinsic import DIAYN, E3B, ICM, NGU, RE3, RIDE, RND, Disagreement, NovelD, Spec, Transition, one_hot
from pbim.intrinsic._networks import Layer, mlp, mlp_init

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


def without(name, settings):
    return {other: value for other, value in settings.items() if other != name}


BONUSES = {
    "rnd": lambda **settings: RND(normalize=False, **settings),
    "icm": lambda **settings: ICM(num_actions=4, **settings),
    "ride": lambda **settings: RIDE(num_actions=4, key="cell", **settings),
    "noveld": lambda **settings: NovelD(rnd=RND(normalize=False, **settings), key="cell"),
    "e3b": lambda **settings: E3B(num_actions=4, **settings),
    "disagreement": lambda **settings: Disagreement(num_actions=4, **settings),
    "re3": lambda **settings: RE3(**without("optimizer", settings)),
    "ngu": lambda **settings: NGU(num_actions=4, rnd=RND(normalize=False, **settings), **settings),
    "diayn": lambda **settings: DIAYN(count=4, **without("features", settings)),
}
STATES = np.eye(48, 52, dtype=np.float32) + np.eye(4, 52, 48, dtype=np.float32)[np.arange(48) % 4]
"""One-hot cells of the cliff walk, and a skill for DIAYN."""
EVERY = Transition(
    STATES, np.arange(48) % 4, np.roll(STATES, 1, axis=0), *np.zeros((2, 48), bool), {"cell": np.arange(48)}
)
SPEC = Spec(example=EVERY, num_keys=48, num_actions=4)


def layers_of(state):
    """Return every layer of a bonus's networks; those of an ensemble have one more axis."""
    leaves = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, Layer))
    return [leaf for leaf in leaves if isinstance(leaf, Layer)]


def test_every_bonus_with_networks_is_here():
    drawn = {cls.kind for cls in components("intrinsic") if {"init_scheme", "rnd"} & set(cls.__dataclass_fields__)}
    assert drawn == set(BONUSES)


@pytest.mark.parametrize("kind", BONUSES)
def test_all_networks_of_a_bonus_are_drawn_as_pytorch_draws_its_layers(kind):
    """Weights and biases in units of 1 / sqrt(inputs), of all layers, beside those of torch.nn.Linear: same law."""
    torch.manual_seed(0)
    small = {"hidden": (8,), "features": 4, "optimizer": optax.sgd}  # sgd keeps no copies of layers
    bonus = BONUSES[kind](init_scheme="torch", **small)
    drawn = layers_of(jax.vmap(lambda key: bonus.init(key, SPEC))(jax.random.split(jax.random.key(0), 20)))
    assert len(drawn) >= 2
    for part in ("weight", "bias"):
        ours, theirs = [], []
        for layer in drawn:
            inputs, outputs = layer.weight.shape[-2:]
            ours.append(np.asarray(getattr(layer, part)).ravel() * inputs**0.5)
            linear = [getattr(torch.nn.Linear(inputs, outputs), part).detach().numpy().ravel() for _ in range(20)]
            theirs.append(np.concatenate(linear) * inputs**0.5)
            assert np.abs(ours[-1]).max() <= 1 + 1e-6
        assert ks_2samp(np.concatenate(ours), np.concatenate(theirs)).pvalue > 1e-3
    even = BONUSES[kind](init_scheme="orthogonal", **small)
    for layer in layers_of(even.init(jax.random.key(0), SPEC)):
        assert not layer.bias.any()
        weight = np.asarray(layer.weight if layer.weight.ndim == 3 else layer.weight[None])
        narrow = weight if weight.shape[1] >= weight.shape[2] else weight.swapaxes(1, 2)
        gram = narrow.swapaxes(1, 2) @ narrow
        np.testing.assert_allclose(gram, np.broadcast_to(2 * np.eye(gram.shape[1]), gram.shape), atol=1e-5)


def first_bonus(kind, scheme):
    """Return the size of the bonus of 48 steps before anything is learned; RE3 and NGU remember one arrival each."""
    bonus = BONUSES[kind](init_scheme=scheme)
    state = bonus.init(jax.random.key(0), SPEC)
    if kind in ("re3", "ngu"):
        state = bonus.update_fn(state, EVERY._replace(next_obs=EVERY.obs))
    return np.abs(np.asarray(bonus.reward_fn(state, EVERY), np.float64))


PAGE = Path(__file__).parents[2] / "docs" / "api" / "bonuses" / "index.md"
SIZE = re.compile(r"^\| \[(\w+)\]\(\w+\.md\) \| ([\d.]+) ± ([\d.]+) \| ([\d.]+) ± ([\d.]+) \|$", re.M)


def test_the_page_says_the_size_of_every_first_bonus():
    told = {name.lower().replace("-", ""): list(map(float, sizes)) for name, *sizes in SIZE.findall(PAGE.read_text())}
    measured = {
        kind: [
            size(first)
            for first in map(partial(first_bonus, kind), ("orthogonal", "torch"))
            for size in (np.mean, np.std)
        ]
        for kind in BONUSES
    }
    assert told == {kind: pytest.approx(sizes, rel=0.06, abs=2e-6) for kind, sizes in measured.items()}, measured


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
