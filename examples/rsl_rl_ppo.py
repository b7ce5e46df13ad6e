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
        self.unwrapped, self.place, self.episode_length_buf = self, torch.zeros(256), torch.zeros(256, dtype=torch.long)

    def get_observations(self) -> TensorDict:  # noqa: D102
        return TensorDict({"policy": self.place[:, None].clone()}, [self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:  # noqa: D102
        place, steps = self.place + 0.2 * actions[:, 0].clamp(-1, 1), self.episode_length_buf + 1
        arrived, late = place > 3, steps >= self.max_episode_length
        self.place, self.episode_length_buf = (part * ~(arrived | late) for part in (place, steps))
        return self.get_observations(), arrived.float(), arrived | late, {"time_outs": late & ~arrived}


def main(iterations: int = 10) -> None:
    """Train for so many iterations and print what the task and the certificate say."""
    rnd = {"weight": 0.05, "num_outputs": 8, "predictor_hidden_dims": [32], "target_hidden_dims": [32]}
    ppo = {"class_name": "pbim.adapters.rsl_rl:ShapedPPO", "gamma": 0.99, "rnd_cfg": rnd}  # all that changes, and
    ppo["shaping"] = {"kind": "geometric", "rate": 0.02}  # the conversion, whose gamma is PPO's
    critic = {"class_name": "MLPModel", "hidden_dims": [32], "activation": "elu"}
    actor = {**critic, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}}
    config = {"algorithm": ppo, "actor": actor, "critic": critic, "num_steps_per_env": 24, "save_interval": 100}
    config["obs_groups"] = {"actor": ["policy"], "critic": ["policy"], "rnd_state": ["policy"]}
    torch.manual_seed(0)
    runner = OnPolicyRunner(Corridor(), config)
    runner.learn(iterations)
    report = runner.alg.certificate()
    print(f"{iterations} iterations, {report.episodes} arrived, {report.bootstrapped} ran out of time\n{report}")


tyro.cli(main)
