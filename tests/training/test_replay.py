"""Pictures of an agent: as many as asked for."""

import jax

from pbim.agents import ppo
from pbim.envs import DoorKey
from pbim.training.replay import play


def test_an_agent_that_is_stuck_does_not_fill_the_memory_with_pictures():
    config = ppo.PPO(env=DoorKey(size=5, max_steps=20), num_envs=2, num_steps=8, minibatch_size=8)
    params = ppo.init(config, jax.random.key(0)).learner.params
    pictures, steps = play(config, params, episodes=2, most=3)
    assert (len(pictures), steps) == (2 * (1 + 3), 2 * 3)
    pictures, steps = play(config, params, episodes=1)
    assert len(pictures) == 1 + steps <= 21
