"""A dense term without changing the task: swing up a pendulum that is paid for standing only. SAC or PPO."""

import argparse

import gymnasium
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_util import make_vec_env

import pbim
from pbim.adapters import sb3

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--learner", choices=["PPO", "SAC"], default="PPO")
parser.add_argument("--total-timesteps", type=int, default=4096)
args = parser.parse_args()


class Standing(gymnasium.Wrapper):
    """The task is to stand (reward 1); the usual reward of Pendulum, a penalty of angle and effort, is in the info."""

    def step(self, action):
        """Step; the dense term goes into the info."""
        obs, dense, terminated, truncated, info = super().step(action)
        return obs, float(obs[0] > 0.95), terminated, truncated, {**info, "dense": dense}


venv = make_vec_env("Pendulum-v1", n_envs=4, seed=0, wrapper_class=Standing)
shaping = pbim.Geometric(gamma=0.99, rate=0.02)
venv = sb3.wrap(venv, intrinsic=lambda t: 0.1 * t.info["dense"], shaping=shaping, truncation="settle")
more = {"n_steps": 256} if args.learner == "PPO" else {"learning_starts": 200}
model = {"PPO": PPO, "SAC": SAC}[args.learner]("MlpPolicy", venv, gamma=0.99, seed=0, device="cpu", **more)
model.learn(args.total_timesteps, callback=sb3.PBIMCallback())
print(f"{args.learner} took {model.num_timesteps} steps with a dense term, converted by {shaping.label}.")
print(venv.certificate())
