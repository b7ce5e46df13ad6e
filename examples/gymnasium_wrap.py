"""Add a count bonus to CliffWalking without changing what is optimal: ten lines."""

import gymnasium

import pbim

env = gymnasium.make("CliffWalking-v1", max_episode_steps=100)
env = pbim.wrap(env, intrinsic=pbim.intrinsic.EpisodicCount(alpha=0.1), shaping=pbim.Geometric(gamma=0.99, rate=0.02))

env.action_space.seed(0)
env.reset(seed=0)
for _ in range(1000):
    _, reward, terminated, truncated, info = env.step(env.action_space.sample())
    if terminated or truncated:
        env.reset()
parts = ", ".join(f"{name} {info[name]:.3f}" for name in ("extrinsic_reward", "intrinsic_reward", "shaping_reward"))
print(f"1000 random steps on the cliff; the last one: {parts}")
print(env.certificate())
