"""EnvPool, asynchronous: each environment answers when it is ready and has its own ledger. pip install envpool."""

import envpool
import numpy as np

import pbim

env = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=16, batch_size=4, seed=0, max_episode_steps=100)
bonus = pbim.LifetimeCount(beta=0.1, key=lambda step: np.int64(10 * step.next_obs))  # new places, in tenths
env = pbim.adapters.envpool.wrap(env, intrinsic=bonus, shaping=pbim.Geometric(gamma=0.99, rate=0.02))

rng = np.random.default_rng(0)
returns, finished = np.zeros(16), []
env.async_reset()
for _ in range(5000):
    obs, reward, terminated, truncated, info = env.recv()  # reward: what the learner gets, extrinsic + shaping
    numbers = info["env_id"]
    returns[numbers] += info["extrinsic_reward"]
    over = numbers[terminated | truncated]
    finished.extend(returns[over])
    returns[over] = 0
    env.send(rng.integers(2, size=len(numbers)), numbers)

print(f"{len(finished)} episodes in 16 environments, 4 answers at a time; mean return {np.mean(finished):.1f}")
print(env.certificate())
env.close()
