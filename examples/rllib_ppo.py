"""PPO from RLlib on the cliff with a count bonus that keeps the task, two env runners: python examples/rllib_ppo.py."""

import argparse

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations

import pbim
from pbim.adapters.rllib import ShapingConnector, certificate

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--iterations", type=int, default=3)
parser.add_argument("--num-env-runners", type=int, default=2, help="0 samples in this process")
args = parser.parse_args()


def connectors(env, spaces, device):  # noqa: ARG001 RLlib passes three
    """Count states as the environment gives them, before they are flattened for the network."""
    bonus, shaping = pbim.LifetimeCount(beta=0.1), pbim.Geometric(gamma=0.99)
    return [ShapingConnector(intrinsic=bonus, shaping=shaping), FlattenObservations()]


ray.init(address="local", num_cpus=max(1, args.num_env_runners), include_dashboard=False, logging_level="ERROR")
config = (
    PPOConfig()
    .environment("CliffWalking-v1", env_config={"max_episode_steps": 50})
    .env_runners(num_env_runners=args.num_env_runners, num_envs_per_env_runner=4, env_to_module_connector=connectors)
    .training(gamma=0.99, train_batch_size_per_learner=800, minibatch_size=200, num_epochs=2)
)
algorithm = config.build_algo()
for _ in range(args.iterations):
    results = algorithm.train()["env_runners"]
logged = {name: float(value) for name, value in results["pbim"].items()}
print(f"PPO took {results['num_env_steps_sampled_lifetime']:.0f} steps on {args.num_env_runners} env runners.")
print(f"Mean returns: task {logged['extrinsic_return']:.1f}, bonus {logged['intrinsic_return']:.2f}")
print(certificate(algorithm))
