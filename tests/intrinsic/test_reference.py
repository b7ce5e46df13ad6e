"""RND and ICM against an independent PyTorch reference on the same fixed weights."""

import jax
import numpy as np
import pytest
import torch
from torch import nn

from pbim.intrinsic import ICM, RND, Spec, Transition
from pbim.intrinsic._dynamics import dynamics_loss
from pbim.intrinsic.rnd import rnd_loss

RNG = np.random.default_rng(1)
ROWS, INPUTS, ACTIONS = 12, 5, 3


def batch(discrete=True):
    obs, next_obs = RNG.normal(size=(2, ROWS, INPUTS)).astype(np.float32)
    action = RNG.integers(ACTIONS, size=ROWS) if discrete else RNG.normal(size=(ROWS, ACTIONS)).astype(np.float32)
    no = np.zeros(ROWS, dtype=bool)
    return Transition(obs, action, next_obs, no, no, {}, np.arange(ROWS) != 4)


def as_torch(layers):
    """A torch network with the same weights."""
    modules = []
    for layer in layers:
        linear = nn.Linear(*layer.weight.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(np.array(layer.weight.T)))
            linear.bias.copy_(torch.tensor(np.array(layer.bias)))
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def assert_same_layers(layers, network, attribute=None):
    linears = [module for module in network if isinstance(module, nn.Linear)]
    for layer, linear in zip(layers, linears, strict=True):
        for ours, theirs in ((layer.weight.T, linear.weight), (layer.bias, linear.bias)):
            theirs = theirs if attribute is None else getattr(theirs, attribute)
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=2e-4, atol=1e-6)


def jittered(layers):
    """The same layers with biases that are not zero, so that a lost bias shows."""
    return [
        layer._replace(bias=layer.bias + 0.1 * RNG.normal(size=layer.bias.shape).astype(np.float32)) for layer in layers
    ]


def torch_features(network, array):
    return network(torch.tensor(array))


def test_rnd_reward_loss_gradient_and_adam_step():
    bonus, step = RND(hidden=(7, 6), features=4, normalize=False, learning_rate=0.01), batch()
    state = bonus.init(jax.random.PRNGKey(0), Spec(example=step))
    params = jittered(state.predictor.params)
    state = state._replace(predictor=state.predictor._replace(params=params), target=jittered(state.target))
    predictor, target = as_torch(params), as_torch(state.target)

    error = ((torch_features(predictor, step.next_obs) - torch_features(target, step.next_obs).detach()) ** 2).mean(1)
    np.testing.assert_allclose(bonus.reward_fn(state, step), error.detach().numpy(), rtol=1e-5)

    valid = torch.tensor(step.valid)
    loss = error[valid].mean()
    adam = torch.optim.Adam(predictor.parameters(), lr=0.01)
    loss.backward()
    data = (step.next_obs, torch_features(target, step.next_obs).detach().numpy())
    value, gradient = jax.value_and_grad(rnd_loss)(params, data, step.valid.astype(np.float32))
    np.testing.assert_allclose(value, loss.item(), rtol=1e-5)
    assert_same_layers(gradient, predictor, "grad")

    adam.step()
    assert_same_layers(jax.jit(bonus.update_fn)(state, step).predictor.params, predictor)


@pytest.mark.parametrize("discrete", [True, False])
def test_icm_reward_loss_gradient_and_adam_step(discrete):
    num_actions = ACTIONS if discrete else None
    bonus = ICM(num_actions=num_actions, hidden=(7,), features=4, beta=0.3, eta=0.5, learning_rate=0.01)
    step = batch(discrete)
    state = bonus.init(jax.random.PRNGKey(0), Spec(example=step))
    models = type(state.models.params)(*map(jittered, state.models.params))
    state = state._replace(models=state.models._replace(params=models))
    encoder, inverse, forward = networks = nn.ModuleList(map(as_torch, models))

    phi, next_phi = torch_features(encoder, step.obs), torch_features(encoder, step.next_obs)
    action = torch.tensor(step.action)
    vectors = nn.functional.one_hot(action, ACTIONS).float() if discrete else action
    forward_error = 0.5 * (forward(torch.cat([phi, vectors], 1)) - next_phi).pow(2).sum(1)
    guess = inverse(torch.cat([phi, next_phi], 1))
    if discrete:
        inverse_error = nn.functional.cross_entropy(guess, action, reduction="none")
    else:
        inverse_error = 0.5 * (guess - action).pow(2).sum(1)
    np.testing.assert_allclose(bonus.reward_fn(state, step), 0.5 * forward_error.detach().numpy(), rtol=1e-5)

    valid = torch.tensor(step.valid)
    loss = 0.7 * inverse_error[valid].mean() + 0.3 * forward_error[valid].mean()
    adam = torch.optim.Adam(networks.parameters(), lr=0.01)
    loss.backward()
    weights = step.valid.astype(np.float32)
    value, gradient = jax.value_and_grad(dynamics_loss)(models, bonus.rows(step), weights, 0.3, discrete)
    np.testing.assert_allclose(value, loss.item(), rtol=1e-5)
    for part, network in zip(gradient, networks, strict=True):
        assert_same_layers(part, network, "grad")

    adam.step()
    for part, network in zip(jax.jit(bonus.update_fn)(state, step).models.params, networks, strict=True):
        assert_same_layers(part, network)
