"""Skills without a task: train DIAYN on Gymnasium's cliff walk, compiled, and draw where each skill goes.

python examples/skills.py [frames] [picture]     a minute on one core for the 800,000 frames of the published picture
"""

import math
import sys

import jax

from pbim.agents.ppo import PPO, train
from pbim.envs import Skills, ToyText
from pbim.intrinsic import DIAYN
from pbim.shaping import Raw
from pbim.training.skill_map import skill_map

frames = int(sys.argv[1]) if len(sys.argv) > 1 else 800_000
picture = sys.argv[2] if len(sys.argv) > 2 else "skills.png"

env = Skills(env=ToyText(id="CliffWalking-v1", max_steps=30), count=8)
config = PPO(
    env=env,
    intrinsic=DIAYN(count=env.count),
    intrinsic_scale=0.1,
    shaping=Raw(),  # the bonus is the task, so nothing is converted
    task_reward="none",  # -1 per step and -100 per fall are reported, not learned from
    total_frames=frames,
)
carry, metrics = train(config, jax.random.key(0))
paid = float(metrics.intrinsic_return[-1] / metrics.length[-1]) / config.intrinsic_scale
print(
    f"bonus per step {paid:.2f} of at most {math.log(env.count):.2f}, the task paid {metrics.extrinsic_return[-1]:.0f}"
)
skill_map(config, carry.learner.params).savefig(picture, dpi=110)
print(f"{picture}: {env.count} skills, three episodes each")
