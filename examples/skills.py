"""Skills without a task: train DIAYN on Gymnasium's cliff walk, and draw where each skill goes.

python examples/skills.py [frames] [picture] [seeds]     a minute for the 800,000 frames of the published picture

With a number of seeds, the cliff walk itself is learned afterwards, in a quarter of the frames: from the skills and
from scratch, with the skills' bonus converted and without a bonus.
"""

import math
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from pbim.agents.ppo import PPO, init, train, update_chunk
from pbim.envs import Skills, ToyText
from pbim.intrinsic import DIAYN
from pbim.shaping import Geometric, NoBonus, Raw
from pbim.training.saved import start_from
from pbim.training.skill_map import skill_map

frames = int(sys.argv[1]) if len(sys.argv) > 1 else 800_000
picture = sys.argv[2] if len(sys.argv) > 2 else "skills.png"
seeds = int(sys.argv[3]) if len(sys.argv) > 3 else 0

env = Skills(env=ToyText(id="CliffWalking-v1", max_steps=30), count=8)
config = PPO(
    env=env,
    intrinsic=DIAYN(count=env.count),
    intrinsic_scale=0.1,
    shaping=Raw(),  # the bonus is the task, so nothing is converted
    task_reward="none",  # -1 per step and -100 per fall are reported, not learned from
    total_frames=frames,
)
skilled, metrics = train(config, jax.random.key(0))
paid = float(metrics.intrinsic_return[-1] / metrics.length[-1]) / config.intrinsic_scale
print(
    f"bonus per step {paid:.2f} of at most {math.log(env.count):.2f}, the task paid {metrics.extrinsic_return[-1]:.0f}"
)
skill_map(config, skilled.learner.params).savefig(picture, dpi=110)
print(f"{picture}: {env.count} skills, three episodes each")

converted = replace(config, shaping=Geometric(gamma=config.gamma), task_reward="full", total_frames=frames // 4)
alone = replace(converted, intrinsic=None, intrinsic_scale=1.0, shaping=NoBonus())
for name, task in (("the bonus converted", converted), ("no bonus", alone)) if seeds else ():
    fresh = [init(task, jax.random.key(seed)) for seed in range(seeds)]
    program = update_chunk.lower(task, fresh[0], task.updates).compile()
    for start in ("from scratch", "from the skills"):
        carries = fresh if start == "from scratch" else [start_from(task, carry, config, skilled) for carry in fresh]
        returns = np.array([program(jax.tree.map(jnp.copy, carry))[1].extrinsic_return for carry in carries])
        late = np.nanmean(returns[:, -max(1, task.updates // 10) :], axis=1)
        print(
            f"{start}, {name}: return {np.nanmean(returns):.1f} over training, {late.mean():.1f} over its last tenth",
            end="",
        )
        print(f" (seeds {late.min():.1f} to {late.max():.1f}; the best is -13)")
