"""PPO from Stable-Baselines3 on MiniGrid with a count bonus that keeps the task: python examples/sb3_ppo.py."""

import argparse

import gymnasium
import minigrid
import numpy as np
from minigrid.wrappers import ImgObsWrapper
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import pbim
from pbim.adapters import sb3

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--env-id", default="MiniGrid-Empty-5x5-v0")
parser.add_argument("--total-timesteps", type=int, default=4096)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--log-dir", default=None, help="where TensorBoard finds the returns and the certificate")
parser.add_argument("--save-path", default=None, help="where the model and the wrapper's state are saved together")
args = parser.parse_args()

gymnasium.register_envs(minigrid)


def flat_view(env: gymnasium.Env) -> gymnasium.Env:
    """Return the environment with its 7x7 view as one vector."""
    return gymnasium.wrappers.FlattenObservation(ImgObsWrapper(env))


def view(step: pbim.intrinsic.Transition) -> np.ndarray:
    """Count what the agent sees, as integers."""
    return step.next_obs.astype(np.uint8)


venv = make_vec_env(args.env_id, n_envs=8, seed=args.seed, wrapper_class=flat_view)
bonus = pbim.intrinsic.EpisodicCount(alpha=0.02, key=view)
shaping = pbim.Geometric(gamma=args.gamma, rate=0.02)
venv = sb3.wrap(venv, intrinsic=bonus, shaping=shaping, truncation="settle")  # PPO stops at time limits

model = PPO(
    "MlpPolicy", venv, gamma=args.gamma, n_steps=128, seed=args.seed, tensorboard_log=args.log_dir, device="cpu"
)
model.learn(args.total_timesteps, callback=sb3.PBIMCallback(save_path=args.save_path))
returns = [episode["r"] for episode in model.ep_info_buffer]
print(f"PPO took {model.num_timesteps} steps in {args.env_id} with a count bonus, converted by {shaping.label}.")
print(f"Mean return of the task alone over the last {len(returns)} episodes: {np.mean(returns):.2f}")
print(venv.certificate())
