"""Environments on the host: the same update as the compiled one, and what a resumed run keeps and drops."""

import json
from dataclasses import dataclass, replace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import pbim
from pbim.agents import ppo
from pbim.cli.train import Train
from pbim.cli.watch import Watch
from pbim.envs import DoorKey, HostEnv
from pbim.envs.gymnasium_host import COUNTERS
from pbim.envs.gymnasium_spaces import plain
from pbim.envs.gymnasium_vector import JaxVectorEnv
from pbim.errors import InputError
from pbim.intrinsic import EpisodicCount
from pbim.training import checkpoint
from pbim.training.host import HostBackend
from pbim.training.run import CHECKPOINT, METRICS

SMALL = {"num_envs": 4, "num_steps": 16, "minibatch_size": 16, "total_frames": 128}


@dataclass(frozen=True, kw_only=True)
class Same(DoorKey):
    """DoorKey with one layout: the compiled loop and Gymnasium draw their layouts differently."""

    def reset(self, key):
        del key
        return DoorKey.reset(self, jax.random.key(7))


def pair():
    """The same run twice: compiled, and on the host."""
    ours = Same(size=5, max_steps=9)
    compiled = ppo.PPO(
        env=ours,
        intrinsic=EpisodicCount(alpha=0.5, key="count_key"),
        shaping=pbim.Geometric(gamma=0.99, rate=0.1),
        truncation="bootstrap",
        recurrence=1,
        epochs=1,
        **SMALL,
    )
    env = HostEnv(id="pbim/DoorKey-5x5-v0")
    assert (env.obs_shape, env.num_actions, env.max_steps) == ((7, 7, 3), 7, 250)
    envs = JaxVectorEnv(ours, num_envs=4, autoreset_mode="SameStep")
    return compiled, HostBackend(replace(compiled, env=env), 3, envs)


def test_the_host_and_the_compiled_loop_learn_the_same_from_the_same_steps():
    config, host = pair()
    here, there = ppo.init(config, jax.random.key(3)), host.start()
    np.testing.assert_array_equal(here.world.obs, there.world.obs)
    here, one = ppo.update_chunk(config, here, 2)
    there, two = host.advance(there, 2)
    for name, value in one._asdict().items():
        if name not in ("gap", "residual"):  # the host does not know shortest paths; a residual is rounding
            np.testing.assert_allclose(value, getattr(two, name), rtol=1e-4, atol=1e-5, err_msg=name)
    for mine, other in zip(jax.tree.leaves(here.learner.params), jax.tree.leaves(there.learner.params), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-4)
    assert two.residual.max() < 1e-5
    assert one.truncations.sum() == 2 * 4 + 4  # 32 steps of 9 or fewer: ends, and final observations, were seen
    assert one.intrinsic_return.min() > 0


def test_a_resumed_run_drops_the_episodes_that_were_cut_and_nothing_else():
    _, host = pair()
    carry = host.start()
    ones = jnp.ones(4)
    used = carry._replace(
        shaping=carry.shaping._replace(ledger=ones),
        certificate=carry.certificate._replace(total=ones, scale=ones, episodes=jnp.float32(5)),
        running=carry.running._replace(length=ones),
        world=carry.world._replace(memory=carry.world.memory + 1, mask=0 * ones, bonus=carry.world.bonus + 1),
        updates=jnp.int32(2),
    )
    resumed = host.resume(used)
    for dropped in (resumed.shaping.ledger, resumed.certificate.total, resumed.running.length, resumed.world.bonus):
        assert not np.any(dropped)
    assert not np.any(resumed.world.memory)
    assert resumed.certificate.episodes == 5
    assert checkpoint.digest(resumed.learner) == checkpoint.digest(used.learner)
    np.testing.assert_array_equal(jax.random.key_data(resumed.key), jax.random.key_data(used.key))


def test_cartpole_trains_cancels_resumes_and_can_be_watched(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("pbim.training.compiled.keep_compiled", lambda: None)
    words = "CartPole-v1 --intrinsic count --shaping pbim --gamma 0.995 --num-envs 4 --num-steps 64"
    words += f" --minibatch-size 64 --chunk 1 --evaluate-every 3 --evaluation-episodes 2 --out {tmp_path / 'run'}"
    arguments = Train.parse([*words.split(), "--frames", "512"])
    assert arguments.run() == 0
    before = checkpoint.about(arguments.out / CHECKPOINT)["about"]
    assert Train.parse([*words.split(), "--frames", "1024", "--resume", "--json"]).run() == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    rows = [json.loads(line) for line in (arguments.out / METRICS).read_text().splitlines()]
    assert before["updates"] == 2
    assert [row["frames"] for row in rows] == [256, 512, 768, 1024]
    assert sum(row["episodes"] for row in rows) > 10
    assert max(row["residual"] for row in rows) < 1e-5
    assert last["evaluation_return"] == last["evaluation_length"] >= 8
    assert last["gap"] is None
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    assert Watch(folder=arguments.out, out=tmp_path / "agent.mp4", episodes=1).run() == 0
    assert (tmp_path / "agent.mp4").read_bytes()[4:8] == b"ftyp"
    with pytest.raises(InputError, match=r"\.gif, \.mp4, \.png, received '\.webm'"):
        Watch(folder=arguments.out, out=tmp_path / "agent.webm").run()


class Odd(gymnasium.Env):
    """Whatever spaces it is told to have."""

    def __init__(self, observation_space, action_space=None):
        self.observation_space = observation_space
        self.action_space = spaces.Discrete(2, start=5) if action_space is None else action_space

    def reset(self, *, seed=None, options=None):
        del options
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.mark.parametrize(
    ("space", "shape"),
    [
        (spaces.Box(0, 255, (9, 8, 3), np.uint8), (9, 8, 3)),
        (spaces.Box(0, 255, (5, 5, 3), np.uint8), (75,)),
        (spaces.Box(-1, 1, (2, 3)), (6,)),
        (spaces.Box(-1, 1, ()), (1,)),
        (spaces.Dict(image=spaces.Box(0, 9, (7, 7, 3), np.uint8), mission=spaces.Text(5)), (7, 7, 3)),
        (spaces.Discrete(6, start=3), ()),
        (spaces.MultiBinary(4), (4,)),
    ],
)
def test_observations_become_indices_vectors_or_images_and_actions_start_at_0(space, shape):
    env = plain(Odd(space))
    obs, _ = env.reset(seed=0)
    assert np.shape(obs) == env.observation_space.shape == shape
    assert env.observation_space.contains(np.asarray(obs) if shape else obs)
    assert env.action_space == spaces.Discrete(2)
    env.step(np.int64(1))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Odd(spaces.Discrete(2), spaces.Box(-1, 1, (1,))), "Discrete action space"),
        (Odd(spaces.Tuple([spaces.Discrete(2)])), "Box, Discrete or a Dict with an image"),
    ],
)
def test_spaces_that_cannot_be_learnt_from_are_refused(env, message):
    with pytest.raises(InputError, match=message) as caught:
        plain(env)
    assert "\n" not in str(caught.value)


def test_counting_keys_are_what_the_environment_reports_or_the_rounded_observation():
    env = HostEnv(id="CartPole-v1")
    obs = np.array([[0.01, 0, 0, 0], [-0.02, 0, 0, 0], [0.2, 0, 0, 0]], np.float32)
    one, same, other = env.count_keys(obs, {})
    assert one == same != other
    np.testing.assert_array_equal(env.count_keys(obs, {"count_key": np.array([1, COUNTERS + 2, 3])}), [1, 2, 3])
