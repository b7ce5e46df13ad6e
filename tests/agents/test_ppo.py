"""The PPO update against the same update in PyTorch, and laws of whole runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import pbim
from pbim.agents import BSRS, EIPO, Adops, TwoCritics, _learn, ppo
from pbim.agents._learn import Minibatch
from pbim.envs import CliffWalk, DoorKey
from pbim.errors import InputError
from pbim.intrinsic import RND, EpisodicCount, one_hot
from pbim.training import checkpoint

SMALL = {"num_envs": 4, "num_steps": 16, "minibatch_size": 16, "total_frames": 192}


def small(**changes):
    return ppo.PPO(**({"env": CliffWalk(max_steps=6)} | SMALL | changes))


def counting(**changes):
    return small(**({"intrinsic": EpisodicCount(alpha=0.02), "shaping": pbim.PBIM(gamma=0.99)} | changes))


class Torch(torch.nn.Module):
    """rl-starter-files' recurrent model, rebuilt from our parameters."""

    def __init__(self, params):
        super().__init__()
        nn = torch.nn
        self.convolutions = nn.Sequential(
            nn.Conv2d(3, 16, 2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 2),
            nn.ReLU(),
            nn.Conv2d(32, 64, 2),
            nn.ReLU(),
        )
        self.cell = nn.LSTMCell(64, 64)
        self.actor = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 7))
        self.critic = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        with torch.no_grad():
            for mine, theirs in self.pairs(params):
                theirs.copy_(torch.tensor(np.asarray(mine)).reshape(theirs.shape))

    def pairs(self, p):
        """Our arrays beside their tensors."""
        for ours, theirs in zip(p.embedding, (self.convolutions[i] for i in (0, 3, 5)), strict=True):
            yield from ((ours.weight, theirs.weight), (ours.bias, theirs.bias))
        yield from ((p.cell.weight[:, :64], self.cell.weight_ih), (p.cell.weight[:, 64:], self.cell.weight_hh))
        yield from ((p.cell.bias[0], self.cell.bias_ih), (p.cell.bias[1], self.cell.bias_hh))
        for head, half, last in ((self.actor, slice(0, 64), p.actor), (self.critic, slice(64, 128), p.critic)):
            yield from ((p.hidden.weight[half], head[0].weight), (p.hidden.bias[half], head[0].bias))
            yield from ((last.weight, head[2].weight), (last.bias, head[2].bias))

    def forward(self, image, memory):
        hidden = self.cell(self.convolutions(image.permute(0, 3, 1, 2)).flatten(1), tuple(memory.split(64, dim=1)))
        logits = torch.log_softmax(self.actor(hidden[0]), dim=1)
        return torch.distributions.Categorical(logits=logits), self.critic(hidden[0])[:, 0], torch.cat(hidden, dim=1)


def test_a_gradient_step_equals_pytorchs():
    """The update of torch-ac, written out in PyTorch on the same batch and weights, three steps in a row."""
    config = ppo.PPO(env=DoorKey(size=8), max_gradient_norm=0.05)
    steps, n, rng = config.recurrence, 6, np.random.default_rng(0)
    learner = _learn.start(config, jax.random.key(0))
    theirs = Torch(learner.params)
    optimizer = torch.optim.Adam(theirs.parameters(), config.learning_rate, eps=config.adam_epsilon)
    params, state = learner.params, learner.optimizer
    for _ in range(3):
        image = rng.integers(0, 6, (steps, n, 7, 7, 3)).astype(np.uint8)
        memory, mask = rng.normal(size=(n, 128)), (rng.random((steps, n)) > 0.2) * 1.0
        action = rng.integers(0, 7, (steps, n))
        log_prob, advantage, value = -2 + 0.3 * rng.normal(size=(3, steps, n))
        target = value + advantage
        minibatch = Minibatch(
            config.network.prepare(jnp.asarray(image.reshape(-1, 7, 7, 3))).T,
            *(jnp.asarray(x, jnp.float32) for x in (memory.T, mask)),
            jnp.asarray(action.ravel()),
            *(jnp.asarray(x.ravel(), jnp.float32) for x in (log_prob, advantage)),
            *(jnp.asarray(x.reshape(1, -1), jnp.float32) for x in (value, target)),
            jnp.ones(steps * n),
        )
        params, state, losses, _ = jax.jit(lambda p, s, m: _learn.gradient_step(config, p, s, m))(
            params, state, minibatch
        )

        def tensor(x):
            return torch.tensor(x, dtype=torch.float)

        held, loss = tensor(memory), 0
        for i in range(steps):
            dist, guess, held = theirs(tensor(image[i]), held * tensor(mask[i])[:, None])
            ratio = torch.exp(dist.log_prob(torch.tensor(action[i])) - tensor(log_prob[i]))
            gain = torch.min(ratio * tensor(advantage[i]), ratio.clamp(0.8, 1.2) * tensor(advantage[i])).mean()
            near = tensor(value[i]) + (guess - tensor(value[i])).clamp(-0.2, 0.2)
            error = torch.max((guess - tensor(target[i])) ** 2, (near - tensor(target[i])) ** 2).mean()
            loss = loss + (-gain - 0.01 * dist.entropy().mean() + 0.5 * error) / steps
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(theirs.parameters(), config.max_gradient_norm)
        optimizer.step()
        np.testing.assert_allclose(losses.gradient_norm, norm.item(), rtol=1e-3)
        for mine, tensor_ in theirs.pairs(params):
            np.testing.assert_allclose(np.asarray(mine).ravel(), tensor_.detach().numpy().ravel(), atol=2e-4)


def test_chunks_give_the_same_run_as_one_go():
    config = counting()
    whole, metrics = ppo.train(config, jax.random.key(3))
    carry = ppo.init(config, jax.random.key(3))
    carry, _ = ppo.update_chunk(config, carry, 1)
    carry, rest = ppo.update_chunk(config, carry, config.updates - 1)
    assert checkpoint.digest(whole) == checkpoint.digest(carry)
    np.testing.assert_array_equal(metrics.entropy[1:], rest.entropy)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"env": DoorKey(size=5), "intrinsic": EpisodicCount(alpha=0.02, key="count_key")},
        {
            "intrinsic": RND(encode=one_hot(48), hidden=(8,), features=4),
            "shaping": pbim.Geometric(gamma=0.99, rate=0.1),
        },
        {"method": EIPO()},
        {"truncation": "bootstrap"},
    ],
)
def test_a_run_has_the_types_of_its_start_so_its_program_compiles_once(changes):
    config = counting(**changes)
    before = jax.eval_shape(lambda key: ppo.init(config, key), jax.random.key(0))
    after = jax.eval_shape(lambda carry: ppo.update(config, carry)[0], before)
    assert jax.tree.leaves(before) == jax.tree.leaves(after)  # shape, dtype and weak_type


def test_resuming_from_a_file_is_bit_identical(tmp_path):
    config = small(
        intrinsic=RND(encode=one_hot(48), hidden=(8,), features=4), shaping=pbim.Geometric(gamma=0.99, rate=0.1)
    )
    carry, _ = ppo.update_chunk(config, ppo.init(config, jax.random.key(5)), 2)
    checkpoint.save(tmp_path / "run", carry, config="{}")
    straight, _ = ppo.update_chunk(config, carry, 2)
    again = checkpoint.load(tmp_path / "run", jax.eval_shape(lambda: ppo.init(config, jax.random.key(0))), config="{}")
    resumed, _ = ppo.update_chunk(config, again, 2)
    assert checkpoint.digest(straight) == checkpoint.digest(resumed)


@pytest.mark.learning
def test_seeds_are_a_vmap():
    config = counting(total_frames=64)
    keys = jax.random.split(jax.random.key(0), 2)
    _, both = jax.vmap(lambda key: ppo.train(config, key))(keys)
    _, one = ppo.train(config, keys[1])
    np.testing.assert_allclose(both.entropy[1], one.entropy, rtol=1e-4)


@pytest.mark.learning
@pytest.mark.parametrize(
    "changes",
    [
        {"memory": "gru", "env": DoorKey(size=5), "intrinsic": EpisodicCount(key="count_key")},
        {"memory": "none", "recurrence": 1},
        {"critics": "separate", "truncation": "bootstrap"},
        {"epochs": 3, "normalize_advantages": True, "learning_rate_schedule": "linear", "init_scheme": "orthogonal"},
        {"settlement": "termination"},
        {"truncation": "bootstrap"},
        {"truncation": "continue"},
        {"critics": "separate", "shaping": pbim.Raw(), "method": Adops(rise_frames=100)},
        {"critics": "separate", "shaping": pbim.Raw(), "method": TwoCritics(), "intrinsic_gamma": 0.9},
        {"shaping": pbim.Raw(), "method": EIPO(), "normalize_advantages": True},
        {"method": BSRS()},
    ],
)
def test_every_choice_trains(changes):
    carry, metrics = ppo.train(counting(**changes), jax.random.key(0))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(carry.learner.params))
    assert np.isfinite(metrics.policy_loss).all()
    assert np.isnan(metrics.gap).all() or "env" in changes


def test_finished_episodes_cancel():
    """Short episodes end often; the discounted sum of F' over each is 0 to float32's precision."""
    config = ppo.PPO(
        env=CliffWalk(max_steps=5),
        intrinsic=EpisodicCount(alpha=1.0),
        shaping=pbim.PBIM(gamma=0.9),
        gamma=0.9,
        **(SMALL | {"total_frames": 640}),
    )
    _, metrics = ppo.train(config, jax.random.key(0))
    assert metrics.episodes.sum() > 50
    assert metrics.residual.max() < 1e-5
    assert (metrics.goals + metrics.truncations == metrics.episodes).all()


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"minibatch_size": 24}, ("minibatch_size", "64")),
        ({"recurrence": 3}, ("recurrence", "num_steps")),
        ({"shaping": pbim.PBIM(gamma=0.9)}, ("shaping.gamma", "0.99")),
        ({"memory": "none"}, ("recurrence", "memory")),
        ({"num_envs": 0}, ("num_envs",)),
        ({"intrinsic_gamma": 0.9}, ("critics",)),
    ],
)
def test_bad_settings_are_named(changes, names):
    with pytest.raises(InputError) as caught:
        small(**changes)
    assert all(name in str(caught.value) for name in names)


def test_a_bonus_that_the_environment_cannot_feed():
    with pytest.raises(InputError, match="count_key"):
        ppo.init(small(env=DoorKey(size=5), intrinsic=EpisodicCount()), jax.random.key(0))


@pytest.mark.learning
def test_doorkey_is_learnt_as_the_paper_has_it():
    """No bonus, gamma 0.99: mean length within the paper's region (35.9) in at most 3 M frames."""
    config = ppo.PPO(env=DoorKey(size=8), total_frames=3_000_000)
    carry, length = ppo.init(config, jax.random.key(0)), np.inf
    for _ in range(config.updates // 50):
        carry, metrics = ppo.update_chunk(config, carry, 50)
        length = float(np.nansum(metrics.length * metrics.episodes) / metrics.episodes.sum())
        if length <= 40:
            break
    assert length <= 40
