"""PPO of TorchRL on CartPole, with a bonus for new places that cancels: python examples/torchrl_ppo.py."""

import tyro
from torch import nn, optim
from torchrl.collectors import Collector
from torchrl.envs import Compose, GymEnv, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor, SafeModule, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import pbim
from pbim.adapters.torchrl import ShapingTransform


def main(frames: int = 4096, gamma: float = 0.99) -> None:
    """Train for so many frames and print what the task and the certificate say."""
    bonus = pbim.LifetimeCount(beta=0.1, key=lambda step: (4 * step.next_obs).round().astype(int))
    shaping = ShapingTransform(intrinsic=bonus, shaping=pbim.Geometric(gamma=gamma, rate=0.02))
    env = TransformedEnv(SerialEnv(8, lambda: GymEnv("CartPole-v1")), Compose(StepCounter(200), shaping))
    network = SafeModule(MLP(4, 2, num_cells=[64], activation_class=nn.Tanh), ["observation"], ["logits"])
    actor = ProbabilisticActor(network, ["logits"], distribution_class=OneHotCategorical, return_log_prob=True)
    critic = ValueOperator(MLP(4, 1, num_cells=[64], activation_class=nn.Tanh))
    advantage, loss = GAE(gamma=gamma, lmbda=0.95, value_network=critic), ClipPPOLoss(actor, critic)
    shaping.check_learner(advantage)
    optimizer = optim.Adam(loss.parameters(), lr=1e-3)
    collector = Collector(env, actor, frames_per_batch=1024, total_frames=frames, auto_register_policy_transforms=True)
    for batch in collector:
        for _ in range(4):
            losses = loss(advantage(batch).reshape(-1))
            optimizer.zero_grad()
            sum(losses[name] for name in ("loss_objective", "loss_critic", "loss_entropy")).backward()
            optimizer.step()
    print(f"{frames} frames, mean length of the last episodes {1024 / int(batch['next', 'done'].sum()):.0f} steps")
    print(shaping.certificate())


tyro.cli(main)
