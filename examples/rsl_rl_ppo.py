"""RSL-RL's PPO in a corridor, with its own RND converted so that it cancels: python examples/rsl_rl_ppo.py."""

import torch
import tyro
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict


class Corridor(VecEnv):
    """Walk three metres to the goal within 50 steps; all walkers are one tensor, as in Isaac Lab."""

    num_envs, num_actions, max_episode_length, device, step_dt, cfg = 256, 1, 50, "cpu", 1.0, {}

    def __init__(self) -> None:
        self.unwrapped, self.place = self, torch.zeros(self.num_envs)
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)

    def get_observations(self) -> TensorDict:
        """Return where the walkers are."""
        return TensorDict({"policy": self.place[:, None].clone()}, [self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """Walk, and begin anew at the goal or when time is over."""
        self.place += 0.2 * actions[:, 0].clamp(-1, 1)
        self.episode_length_buf += 1
        arrived, late = self.place > 3, self.episode_length_buf >= self.max_episode_length
        self.place[arrived | late] = 0
        self.episode_length_buf[arrived | late] = 0
        return self.get_observations(), arrived.float(), arrived | late, {"time_outs": late & ~arrived}


def main(iterations: int = 20) -> None:
    """Train for so many iterations and print what the task and the certificate say."""
    model = {"class_name": "MLPModel", "hidden_dims": [32], "activation": "elu"}
    rnd = {"weight": 0.1, "num_outputs": 8, "predictor_hidden_dims": [32], "target_hidden_dims": [32]}
    shaping = {"kind": "geometric", "rate": 0.02}  # gamma is PPO's
    algorithm = {"class_name": "pbim.adapters.rsl_rl:ShapedPPO", "gamma": 0.99, "rnd_cfg": rnd, "shaping": shaping}
    config = {
        "algorithm": algorithm,
        "actor": {**model, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
        "critic": model,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"], "rnd_state": ["policy"]},
        "num_steps_per_env": 24,
        "save_interval": 100,
    }
    runner = OnPolicyRunner(Corridor(), config)
    runner.learn(iterations)
    report = runner.alg.certificate()
    print(f"{iterations} iterations, {report.episodes} walkers arrived, {report.bootstrapped} ran out of time")
    print(report)


if __name__ == "__main__":
    tyro.cli(main)
