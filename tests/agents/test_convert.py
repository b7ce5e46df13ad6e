"""What a rollout settles: everything, nothing at truncation, or only what lies inside it."""

import jax.numpy as jnp
import numpy as np
import pytest

import pbim
from pbim.agents.conversion import convert, ledger_ends
from pbim.agents.ppo import PPO
from pbim.envs import DoorKey
from pbim.truncation import ends

GAMMA = 0.9
SMALL = {"env": DoorKey(size=5, max_steps=20), "num_envs": 2, "num_steps": 8, "minibatch_size": 8, "gamma": GAMMA}


def shaped_by(normalize, rollouts):
    config = PPO(shaping=pbim.PBIM(gamma=GAMMA, normalize=normalize), settlement="rollout", **SMALL)
    state = config.shaping.init(2, like=jnp.zeros(0))
    found = []
    for bonus, ended in rollouts:
        state, shaped = convert(config, state, bonus, ledger_ends(config, ended, jnp.zeros_like(ended)))
        found.append(shaped)
    return found


@pytest.mark.parametrize("normalize", [True, False])
def test_settlement_within_a_rollout_cancels_there_and_nowhere_else(normalize):
    rng = np.random.default_rng(0)
    bonus = jnp.asarray(rng.random((2, 8, 2)), jnp.float32)
    ended = jnp.zeros((2, 8, 2), bool).at[:, 5].set(True)
    first, second = shaped_by(normalize, zip(bonus, ended, strict=True))
    centred = bonus[0] - (bonus[0].mean() if normalize else 0)
    powers = GAMMA ** np.arange(6)[:, None]
    np.testing.assert_allclose(first[:5], centred[:5], rtol=1e-5)
    np.testing.assert_allclose((powers * first[:6]).sum(axis=0), 0, atol=1e-5)
    across = np.concatenate([first[6:], second[:6]])
    left = (GAMMA ** np.arange(8)[:, None] * across).sum(axis=0)
    np.testing.assert_allclose(left, (GAMMA ** np.arange(2)[:, None] * first[6:]).sum(axis=0), atol=1e-5)
    assert np.abs(left).min() > 1e-3


def test_a_bonus_that_fades_fades_under_every_settlement():
    no = jnp.zeros((8, 2), bool)
    for settlement in ("episode", "termination", "rollout"):
        config = PPO(shaping=pbim.PIES(decay_steps=16), settlement=settlement, **SMALL)
        state, first = convert(
            config, config.shaping.init(2, like=jnp.zeros(0)), jnp.ones((8, 2)), ends("settle", no, no)
        )
        state, second = convert(config, state, jnp.ones((8, 2)), ends("settle", no, no))
        assert float(first[0, 0]) == 1.0 > float(first[-1, 0])
        assert not second.any()
        assert int(state.transitions) == 32
