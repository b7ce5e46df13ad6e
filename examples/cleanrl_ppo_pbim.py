"""PPO in one file, CleanRL style, with a count bonus converted by pbim: python examples/cleanrl_ppo_pbim.py.

What differs from a PPO without a bonus is marked [pbim]: five lines. The rollout's tensors go through the conversion as
they are. Gymnasium's vector environments reset in the step after an end (NEXT_STEP), so that step is a dummy: it is no
transition, gets no bonus and is masked out of every loss.
"""

import argparse
import time

import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim
from torch.distributions.categorical import Categorical

import pbim

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--env-id", default="CliffWalking-v1")
parser.add_argument("--total-timesteps", type=int, default=16_384)
parser.add_argument("--max-episode-steps", type=int, default=100)
parser.add_argument("--num-envs", type=int, default=8)
parser.add_argument("--num-steps", type=int, default=128)
parser.add_argument("--learning-rate", type=float, default=2.5e-3)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--gae-lambda", type=float, default=0.95)
parser.add_argument("--alpha", type=float, default=0.5, help="size of the count bonus")
parser.add_argument("--shaping", choices=("geometric", "pbim", "raw", "none"), default="geometric")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

CONVERSIONS = {
    "geometric": pbim.Geometric(gamma=args.gamma, rate=0.02),
    "pbim": pbim.PBIM(gamma=args.gamma),
    "raw": pbim.Raw(),
    "none": pbim.NoBonus(),
}

torch.manual_seed(args.seed)
torch.set_num_threads(1)
envs = gym.vector.SyncVectorEnv(
    [lambda: gym.make(args.env_id, max_episode_steps=args.max_episode_steps) for _ in range(args.num_envs)]
)
envs = gym.wrappers.vector.RecordEpisodeStatistics(envs)
num_states, num_actions = envs.single_observation_space.n, envs.single_action_space.n


def layer(size_in: int, size_out: int, std: float = 2**0.5) -> nn.Linear:
    """Return a linear layer, initialised orthogonally."""
    linear = nn.Linear(size_in, size_out)
    nn.init.orthogonal_(linear.weight, std)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    """An actor and a critic on one-hot states."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(layer(num_states, 64), nn.Tanh(), layer(64, 1, std=1.0))
        self.actor = nn.Sequential(layer(num_states, 64), nn.Tanh(), layer(64, num_actions, std=0.01))

    def value(self, state: torch.Tensor) -> torch.Tensor:
        """Return V of integer states (...)."""
        return self.critic(nn.functional.one_hot(state, num_states).float()).squeeze(-1)

    def act(self, state: torch.Tensor, action: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        """Return action, its log-probability, the entropy and V."""
        policy = Categorical(logits=self.actor(nn.functional.one_hot(state, num_states).float()))
        action = policy.sample() if action is None else action
        return action, policy.log_prob(action), policy.entropy(), self.value(state)


agent = Agent()
optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
shape = (args.num_steps, args.num_envs)
states, actions = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
logprobs, rewards, bonuses, values = (torch.zeros(shape) for _ in range(4))
ended, valid = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.bool)

counts = pbim.intrinsic.EpisodicCount(alpha=args.alpha)  # [pbim] the bonus
shaping = CONVERSIONS[args.shaping]
ledger = shaping.init(args.num_envs, like=rewards)  # [pbim] the conversion's state, carried across rollouts
certificate = pbim.Certificate(gamma=args.gamma)  # [pbim] the evidence that it cancelled
evidence = certificate.init(args.num_envs, like=rewards)

state, _ = envs.reset(seed=args.seed)
over, start = np.zeros(args.num_envs, bool), time.time()
for iteration in range(1, args.total_timesteps // (args.num_steps * args.num_envs) + 1):
    for t in range(args.num_steps):
        states[t], valid[t] = torch.as_tensor(state), torch.as_tensor(~over)
        with torch.no_grad():
            actions[t], logprobs[t], _, values[t] = agent.act(states[t])
        following, reward, terminated, truncated, info = envs.step(actions[t].numpy())
        rewards[t] = torch.as_tensor(reward, dtype=torch.float32)
        step = pbim.intrinsic.Transition(state, actions[t].numpy(), following, terminated, truncated, info, ~over)
        bonuses[t] = torch.as_tensor(counts.reward(step))
        counts.update(step)
        # This PPO does not bootstrap at a time limit, so it stops accumulating at either end.
        ended[t] = torch.as_tensor(terminated | truncated)
        state, over = following, terminated | truncated

    ledger, shaped = shaping.rollout(ledger, bonuses, ended, valid=valid)  # [pbim] F -> F', tensors in and out
    evidence = certificate.update(evidence, shaped, ended, valid=valid)
    learned = rewards + shaped  # [pbim] what the learner learns from

    with torch.no_grad():
        advantages, carried, ahead = torch.zeros(shape), torch.zeros(args.num_envs), agent.value(torch.as_tensor(state))
        for t in reversed(range(args.num_steps)):
            goes_on = 1.0 - ended[t].float()
            delta = learned[t] + args.gamma * ahead * goes_on - values[t]
            carried = torch.where(valid[t], delta + args.gamma * args.gae_lambda * goes_on * carried, 0.0)
            advantages[t], ahead = carried, values[t]
        returns = advantages + values

    flat = [part[valid] for part in (states, actions, logprobs, advantages, returns)]  # dummy steps teach nothing
    for _ in range(4):
        for batch in torch.randperm(len(flat[0])).split(256):
            b_states, b_actions, b_logprobs, b_advantages, b_returns = (part[batch] for part in flat)
            _, logprob, entropy, value = agent.act(b_states, b_actions)
            b_advantages = (b_advantages - b_advantages.mean()) / (b_advantages.std() + 1e-8)
            ratio = (logprob - b_logprobs).exp()
            policy_loss = -torch.min(b_advantages * ratio, b_advantages * ratio.clamp(0.8, 1.2)).mean()
            loss = policy_loss - 0.01 * entropy.mean() + 0.5 * (value - b_returns).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()

    steps = iteration * args.num_steps * args.num_envs
    if iteration % 4 == 0:
        recent = np.mean(envs.return_queue) if envs.return_queue else float("nan")
        print(f"{steps} steps, extrinsic return {recent:.1f}, {steps / (time.time() - start):.0f} steps/s")

print(certificate.report(evidence, like=rewards))
envs.close()
