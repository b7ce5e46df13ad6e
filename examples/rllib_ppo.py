"""PPO from RLlib on the cliff with a count bonus that keeps the task, two env runners: python examples/rllib_ppo.py."""

import ray
import tyro
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations

import pbim
from pbim.adapters.rllib import ShapingConnector, certificate


def connectors(*_: object) -> list:
    """Count states as the environment gives them, before they are flattened for the network."""
    bonus, shaping = pbim.LifetimeCount(beta=0.1), pbim.Geometric(gamma=0.99)
    return [ShapingConnector(intrinsic=bonus, shaping=shaping), FlattenObservations()]


def main(iterations: int = 3, num_env_runners: int = 2) -> None:
    """Train for so many iterations and print what the task and the certificate say."""
    ray.init(address="local", num_cpus=max(1, num_env_runners), include_dashboard=False, logging_level="ERROR")
    config = PPOConfig().environment("CliffWalking-v1", env_config={"max_episode_steps": 50})
    config.env_runners(num_env_runners=num_env_runners, num_envs_per_env_runner=4, env_to_module_connector=connectors)
    config.training(gamma=0.99, train_batch_size_per_learner=800, minibatch_size=200, num_epochs=2)
    algorithm = config.build_algo()
    results = [algorithm.train()["env_runners"] for _ in range(iterations)][-1]
    task, bonus = (float(results["pbim"][f"{name}_return"]) for name in ("extrinsic", "intrinsic"))
    print(f"PPO took {results['num_env_steps_sampled_lifetime']:.0f} steps on {num_env_runners} env runners.")
    print(f"Mean returns: task {task:.1f}, bonus {bonus:.2f}")
    print(certificate(algorithm))


if __name__ == "__main__":
    tyro.cli(main)
