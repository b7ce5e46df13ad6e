"""What type checkers see of the public interface: mypy and pyright read this file, nobody runs it."""

from typing import assert_type

import gymnasium
import jax
import numpy as np
import torch
from numpy.typing import NDArray

import pbim
from pbim.adapters.gymnasium import ShapedEnv, ShapedVectorEnv
from pbim.agents.ppo import PPO, Carry, Metrics, train
from pbim.agents.q_learning import QLearning, Result, train as train_tables
from pbim.envs import CliffWalk, DoorKey
from pbim.shaping import LedgerState
from pbim.verification import CertificateReport, Report


def revealed() -> None:
    """Use the public names as a reader of the README would."""
    bonus: NDArray[np.float64] = np.random.default_rng(0).random((128, 16))
    ended: NDArray[np.bool_] = np.random.default_rng(1).random((128, 16)) < 0.02
    shaping = pbim.Geometric(gamma=0.99, rate=0.02)
    state, shaped = shaping.rollout(shaping.init(num_envs=16), bonus, ended)
    certificate = pbim.Certificate(gamma=0.99)
    assert_type(state, LedgerState)
    assert_type(shaped, NDArray[np.float64])
    assert_type(certificate.report(certificate.update(certificate.init(16), shaped, ended)), CertificateReport)

    tensor = torch.zeros((8, 2))
    grm = pbim.GRM(gamma=0.9, delay=2)
    assert_type(grm.rollout(grm.init(2, like=tensor), tensor, tensor > 0)[1], torch.Tensor)
    traced = jax.numpy.zeros((8, 2))
    plain = pbim.PBIM(gamma=0.9)
    assert_type(plain.rollout(plain.init(2, like=traced), traced, traced > 0)[1], jax.Array)

    env = gymnasium.make("FrozenLake-v1")
    wrapped = pbim.wrap(env, pbim.EpisodicCount(alpha=0.1), shaping)
    assert_type(wrapped.training, bool)
    assert_type(isinstance(wrapped, ShapedEnv), bool)
    vector = pbim.wrap(gymnasium.make_vec("FrozenLake-v1", num_envs=2), pbim.EpisodicCount(), shaping)
    assert_type(vector, ShapedVectorEnv)

    carry, metrics = train(PPO(env=DoorKey(size=5)), jax.random.key(0))
    assert_type(carry, Carry)
    assert_type(metrics, Metrics)
    assert_type(train_tables(QLearning(env=CliffWalk()), jax.random.split(jax.random.key(0), 3)), Result)

    mdp = pbim.FiniteMDP.from_toy_text(env, gamma=0.9)
    assert_type(pbim.verify(mdp, intrinsic=pbim.EpisodicCount(), shaping=shaping, horizon=2), Report)
