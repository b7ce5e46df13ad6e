"""Every learned bonus against an independent PyTorch reference on the same fixed weights; RND and ICM learn, too."""

import jax
import numpy as np
import pytest
import torch
from torch import nn

from pbim.config import components
from pbim.intrinsic import DIAYN, E3B, ICM, NGU, RE3, RIDE, RND, Disagreement, NovelD, Spec, Transition
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


SMALL = {"hidden": (7, 6), "features": 4, "init_scheme": "torch"}
PREDICTOR = RND(normalize=False, **SMALL)


def distance(one, other):
    return (one - other).pow(2).sum(1).sqrt()


def rnd_error(state, obs):
    return (as_torch(state.predictor.params)(obs) - as_torch(state.target)(obs)).pow(2).mean(1)


def rnd(state, obs, action, next_obs):
    return rnd_error(state, next_obs)


def noveld(state, obs, action, next_obs):
    there, here = ((4 * rnd_error(state.learned, x)).sqrt() for x in (next_obs, obs))
    return torch.relu(there - 0.5 * here)


def ride(state, obs, action, next_obs):
    phi = as_torch(state.learned.models.params.encoder)
    return distance(phi(next_obs), phi(obs))


def e3b(state, obs, action, next_obs):
    return as_torch(state.dynamics.models.params.encoder)(next_obs).pow(2).sum(1) / 0.1


def disagreement(state, obs, action, next_obs):
    x = torch.cat([as_torch(state.encoder)(obs), action], 1)
    members = [as_torch(jax.tree.map(lambda leaf, i=i: leaf[i], state.ensemble.params)) for i in range(3)]
    return torch.stack([member(x) for member in members]).var(0, correction=0).mean(1)


def re3(state, obs, action, next_obs):
    """The observations are what is remembered, so distances to all of them, the second nearest."""
    phi = as_torch(state.encoder)
    return torch.log1p(
        torch.cdist(phi(next_obs), phi(obs), compute_mode="donot_use_mm_for_euclid_dist").sort(1)[0][:, 1]
    )


def ngu(state, obs, action, next_obs):
    """Each episode remembers its observation alone; the mean of d^2 is that of the features' lengths."""
    phi = as_torch(state.dynamics.models.params.encoder)
    relative = distance(phi(next_obs), phi(obs)).pow(2) / phi(obs).pow(2).sum(1).mean()
    similarity = (1e-4 / (torch.relu(relative - 0.008) + 1e-4)).sqrt() + 0.001
    errors = rnd_error(state.rnd, obs)
    surprise = (rnd_error(state.rnd, next_obs) - errors.mean()) / (errors.var(correction=0) + 1e-8).sqrt()
    return (1 + surprise).clamp(1, 5) / similarity


def diayn(state, obs, action, next_obs):
    """The skill is the end of the observation: here the last two of five entries."""
    guess = as_torch(state.classifier.params)(next_obs[:, :-2]).log_softmax(1)
    return np.log(2) + (guess * next_obs[:, -2:]).sum(1)


PAYS = {
    "rnd": (PREDICTOR, rnd),
    "noveld": (NovelD(rnd=PREDICTOR, key="cell"), noveld),
    "ride": (RIDE(num_actions=ACTIONS, key="cell", **SMALL), ride),
    "e3b": (E3B(num_actions=ACTIONS, **SMALL), e3b),
    "disagreement": (Disagreement(num_actions=ACTIONS, members=3, **SMALL), disagreement),
    "re3": (RE3(k=2, **SMALL), re3),
    "ngu": (NGU(num_actions=ACTIONS, rnd=PREDICTOR, k=1, **SMALL), ngu),
    "diayn": (DIAYN(count=2, hidden=(7, 6)), diayn),
}


def test_no_learned_bonus_is_without_a_reference():
    drawn = {cls.kind for cls in components("intrinsic") if {"init_scheme", "rnd"} & set(cls.__dataclass_fields__)}
    assert drawn == set(PAYS) | {"icm"}


@pytest.mark.parametrize("kind", PAYS)
def test_a_bonus_pays_what_pytorch_computes_from_the_same_weights(kind):
    (bonus, formula), step = PAYS[kind], batch()
    if kind == "diayn":
        skills = np.eye(2, dtype=np.float32)[np.arange(ROWS) % 2]
        step = step._replace(next_obs=np.concatenate([step.next_obs[:, :-2], skills], 1))
    no = np.zeros(ROWS, dtype=bool)
    step = step._replace(info={"cell": np.arange(ROWS)}, valid=~no)
    state = bonus.init(jax.random.PRNGKey(0), Spec(example=step, num_keys=ROWS))
    if kind in ("re3", "ngu"):  # what they compare with: the observations, as arrivals of a step before
        seen = bonus.update_fn(state, step._replace(obs=step.obs + 1, next_obs=step.obs))
        keep = {"encoder": state.encoder} if kind == "re3" else {"dynamics": state.dynamics, "rnd": state.rnd}
        state = seen._replace(**keep)  # not yet trained on it
    action = nn.functional.one_hot(torch.tensor(step.action), ACTIONS).float()
    expected = formula(state, torch.tensor(step.obs), action, torch.tensor(step.next_obs)).detach().numpy()
    assert np.ptp(expected) > 0
    np.testing.assert_allclose(bonus.reward_fn(state, step), expected, rtol=2e-4, atol=1e-6)
