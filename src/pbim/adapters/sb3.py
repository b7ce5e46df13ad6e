"""Stable-Baselines3: ``wrap(venv, intrinsic, shaping)``, and a callback that checks, logs and saves.

Works for PPO, A2C, DQN and the other algorithms of Stable-Baselines3, RecurrentPPO and MaskablePPO. Off-policy
algorithms replay the shaping reward of the time a step was collected: the ledger, F-bar and the bonus move on, stored
rewards do not, and each stored episode cancels by itself.
"""

# ruff: noqa: E402 one sentence for a missing extra comes before the import that needs it
from pbim._extras import require

require("pbim.adapters.sb3", "stable_baselines3")

from typing import Any

from stable_baselines3.common.vec_env import VecEnv

from pbim.adapters._evidence import TrainingReport as TrainingReport
from pbim.adapters._sb3_callback import PBIMCallback as PBIMCallback, load as load, save as save
from pbim.adapters._sb3_vec_env import ShapedVecEnv as ShapedVecEnv
from pbim.intrinsic.protocol import Bonus
from pbim.shaping import Shaping
from pbim.truncation import Truncation

__all__ = ["PBIMCallback", "ShapedVecEnv", "TrainingReport", "load", "save", "wrap"]


def wrap(
    venv: VecEnv,
    intrinsic: Bonus,
    shaping: Shaping[Any],
    truncation: Truncation | None = None,
    *,
    update_every: int = 1,
    max_episode_steps: int | None = None,
) -> ShapedVecEnv:
    """Return ``venv`` with the converted bonus added to its reward; each info carries the three rewards.

    Train with :class:`PBIMCallback`, which refuses what would break the cancellation. ``VecNormalize`` with
    ``norm_reward=False`` may stand outside the wrapper, and for on-policy algorithms inside. For ``EvalCallback`` wrap
    the evaluation environment alike and set ``training = False`` on it. To compare with a learner without a bonus, wrap
    its environments too, with ``shaping=pbim.NoBonus()``: then both stop at time limits, or both bootstrap.

    Args:
        venv: The environments, which a VecEnv resets itself.
        intrinsic: Any callable ``transition -> array (num_envs,)``, or an object with ``reward(transition)`` and
            ``update(transition)``.
        shaping: The conversion, with the learner's gamma.
        truncation: ``"settle"``, the default of every adapter, settles the ledger at a time limit and takes
            ``TimeLimit.truncated`` back (the info says ``truncated`` instead), so that the algorithm stops there too:
            the time limit is part of the task, as in the paper, and every episode is certified. ``"bootstrap"`` leaves
            ``TimeLimit.truncated`` as it is: the algorithms then add gamma * V(terminal observation) to the target,
            and the open ledger is left to V. Choose it where a time limit is only a convenience of training.
            ``"continue"`` is refused. None is ``"settle"``, with a warning where there is a time limit: on an unwrapped
            VecEnv the algorithms bootstrap there.
        update_every: The bonus learns once from this many vector steps, as one batch of update_every * num_envs rows
            without info. A bonus with ``stepwise = True`` (counts, memories of an episode) still learns every step.
        max_episode_steps: The longest episode, read from the environments' specs unless given; a conversion that
            would have to repay too much in that time warns.

    Returns:
        A VecEnvWrapper with ``certificate()``, ``training``, ``state_dict()`` and ``load_state_dict(arrays)``.

    Raises:
        InputError: If an argument breaks a rule, or ``venv`` is wrapped by pbim already.

    >>> import pbim
    >>> from stable_baselines3 import PPO
    >>> from stable_baselines3.common.env_util import make_vec_env
    >>> shaping = pbim.Geometric(gamma=0.99, rate=0.02)
    >>> venv = wrap(make_vec_env("CliffWalking-v1", n_envs=2), lambda step: step.next_obs / 47, shaping)
    >>> model = PPO("MlpPolicy", venv, gamma=0.99, n_steps=16, batch_size=32, n_epochs=1, device="cpu")
    >>> model.learn(32, callback=PBIMCallback()).num_timesteps
    32

    """
    return ShapedVecEnv(
        venv, intrinsic, shaping, truncation, update_every=update_every, max_episode_steps=max_episode_steps
    )
