"""EIPO learns how much a bonus may count: its course for a helpful and a harmful bonus, over five seeds each.

python examples/eipo.py [frames] [picture]

The task is a corridor of eight cells: left, right or stay; its right end pays 1. The helpful bonus is 0.05 / n for the
n-th visit of a cell. The harmful one pays 0.3 for every step that does not move the agent, so it outweighs the goal.
"""

import sys
from dataclasses import dataclass, replace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from pbim.agents import EIPO
from pbim.agents.ppo import PPO, train
from pbim.config import Component
from pbim.envs import ToyText
from pbim.intrinsic import EpisodicCount
from pbim.shaping import Raw

frames = int(sys.argv[1]) if len(sys.argv) > 1 else 40_000
picture = sys.argv[2] if len(sys.argv) > 2 else "eipo.png"


@dataclass(frozen=True, kw_only=True)
class Standing(Component):
    """A bonus for staying where one is."""

    size: float = 0.3
    stepwise = True

    def init(self, key, spec):
        """Return nothing: it learns nothing."""
        del key, spec
        return ()

    def reward_fn(self, state, transition):
        """Return the size where the step led nowhere, (num_envs,)."""
        del state
        return self.size * (transition.next_obs == transition.obs)

    def update_fn(self, state, transition):
        """Learn nothing."""
        del transition
        return state


class Corridor(gymnasium.Env):
    """Outcomes by cell and action, as Gymnasium's toy-text environments have them; episodes start in any cell."""

    def __init__(self, cells=8):
        moves = {cell: [min(max(cell + step, 0), cells - 1) for step in (-1, 1, 0)] for cell in range(cells)}
        goal = cells - 1
        self.P = {
            cell: {action: [(1.0, to, float(to == goal), to == goal)] for action, to in enumerate(after)}
            for cell, after in moves.items()
        }
        self.initial_state_distrib = np.full(cells, 1 / cells)


gymnasium.register("Corridor-v0", entry_point=Corridor, disable_env_checker=True)
helpful = PPO(
    env=ToyText(id="Corridor-v0", max_steps=20),
    intrinsic=EpisodicCount(alpha=0.05),
    shaping=Raw(),
    method=EIPO(alpha_rate=0.5),  # 25 times the usual: this training is short
    num_envs=8,
    num_steps=32,
    minibatch_size=64,
    memory="none",
    recurrence=1,
    hidden_size=16,
    head_size=16,
    total_frames=frames,
)
figure = Figure(figsize=(8, 3.2), layout="constrained")
weight_axes, return_axes = figure.subplots(1, 2)
for name, colour, config in (
    ("helpful", "#4c72b0", helpful),
    ("harmful", "#c44e52", replace(helpful, intrinsic=Standing())),
):
    seeds = jax.vmap(jax.random.key)(jnp.arange(5))
    metrics = jax.jit(jax.vmap(lambda key, config=config: train(config, key)[1]))(seeds)
    weight, paid = np.asarray(metrics.bonus_weight), np.asarray(metrics.extrinsic_return)
    ends = " ".join(f"{value:.2f}" for value in weight[:, -1])
    print(f"{name}: the bonus counts {weight[0, 0]:.2f} at first, at the end of the five seeds {ends}")
    for axes, rows in ((weight_axes, weight), (return_axes, paid)):
        steps = np.asarray(metrics.frames[0]) / 1000
        axes.plot(steps, rows.T, color=colour, lw=0.6, alpha=0.4)
        axes.plot(steps, np.nanmean(rows, axis=0), color=colour, lw=2, label=f"{name} bonus")
weight_axes.set_ylabel("weight of the bonus")
return_axes.set_ylabel("return of the task")
for axes in (weight_axes, return_axes):
    axes.set_xlabel("thousand frames")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
figure.savefig(picture, dpi=110)
print(f"{picture}: five seeds per bonus, thick their mean")
