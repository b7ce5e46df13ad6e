"""PPO from Stable-Baselines3 on MiniGrid with a count bonus that keeps the task: python examples/sb3_ppo.py."""

import minigrid  # noqa: F401 registers its environments
import numpy as np
import tyro
from gymnasium.wrappers import FlattenObservation
from minigrid.wrappers import ImgObsWrapper
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import pbim
from pbim.adapters import sb3


def main(total_timesteps: int = 4096, seed: int = 0, log_dir: str | None = None, save_path: str | None = None) -> None:
    """Train for so many steps, log returns and certificate for TensorBoard, and save model and wrapper together."""
    env_id, gamma = "MiniGrid-Empty-5x5-v0", 0.99
    venv = make_vec_env(env_id, n_envs=8, seed=seed, wrapper_class=lambda env: FlattenObservation(ImgObsWrapper(env)))
    bonus = pbim.EpisodicCount(alpha=0.02, key=lambda step: step.next_obs.astype(np.uint8))  # what the agent sees
    shaping = pbim.Geometric(gamma=gamma, rate=0.02)
    venv = sb3.wrap(venv, intrinsic=bonus, shaping=shaping, truncation="settle")  # PPO stops at time limits
    model = PPO("MlpPolicy", venv, gamma=gamma, n_steps=128, seed=seed, tensorboard_log=log_dir, device="cpu")
    model.learn(total_timesteps, callback=sb3.PBIMCallback(save_path=save_path))
    returns = [episode["r"] for episode in model.ep_info_buffer]
    print(f"PPO took {model.num_timesteps} steps in {env_id} with a count bonus, converted by {shaping.label}.")
    print(f"Mean return of the task alone over the last {len(returns)} episodes: {np.mean(returns):.2f}")
    print(venv.certificate())


if __name__ == "__main__":
    tyro.cli(main)
