"""Recurrent PPO, compiled end to end: environment, bonus, conversion, advantages and updates in one program.

Schulman et al. 2017 (arXiv 1707.06347). Defaults are those of torch-ac and rl-starter-files, the code base that the
paper's DoorKey experiments grew from: stored hidden states, no bootstrap at the end of an episode, advantages as they
are, clipped values.
"""

import jax
from jax import Array

from pbim._jit import jit
from pbim.agents import rollout as _rollout, update as _update
from pbim.agents._config import PPO as PPO
from pbim.agents._metrics import Metrics as Metrics
from pbim.agents.update import Carry as Carry


@jit(static_argnums=0)
def init(config: PPO, key: Array) -> Carry:
    """Return a run before its first update.

    Args:
        config: The run; compiled once for equal configurations.
        key: The seed's random key, ().

    Returns:
        Everything the run is, for :func:`update_chunk` and for a checkpoint.

    Raises:
        InputError: If the environment does not offer what the bonus reads.

    """
    params_key, world_key, key = jax.random.split(key, 3)
    world = _rollout.reset(config.compiled_env, config.network, config.intrinsic, config.num_envs, world_key)
    return _typed(_update.start(config, params_key, world, key))


@jit(static_argnums=(0, 2), donate_argnums=1)
def update_chunk(config: PPO, carry: Carry, updates: int) -> tuple[Carry, Metrics]:
    """Return the run after ``updates`` more updates, and their metrics, (updates,) each.

    Args:
        config: The run.
        carry: The run so far; it is used up.
        updates: How many; each number is a program of its own.

    """
    return _scan(config, carry, updates)


@jit(static_argnums=0)
def train(config: PPO, key: Array) -> tuple[Carry, Metrics]:
    """Run the whole of ``config.total_frames``: a pure function of the key, so seeds are a ``jax.vmap``.

    Args:
        config: The run.
        key: The seed's random key, ().

    Returns:
        The run after its last update, and the metrics of all updates, (config.updates,) each.

    Raises:
        InputError: If the environment does not offer what the bonus reads.

    >>> import jax
    >>> from pbim.agents.ppo import PPO, train
    >>> from pbim.envs import DoorKey
    >>> config = PPO(env=DoorKey(size=5), num_envs=2, num_steps=8, minibatch_size=8, total_frames=32)
    >>> carry, metrics = train(config, jax.random.key(0))
    >>> metrics.frames.tolist()
    [16, 32]

    """
    return _scan(config, init(config, key), config.updates)


def _scan(config: PPO, carry: Carry, updates: int) -> tuple[Carry, Metrics]:
    return jax.lax.scan(lambda carry, _: update(config, carry), carry, None, length=updates)


def update(config: PPO, carry: Carry) -> tuple[Carry, Metrics]:
    """Collect one rollout and learn from it."""
    key, rollout_key, learn_key = jax.random.split(carry.key, 3)
    world, steps = _rollout.collect(
        config.compiled_env,
        config.network,
        config.intrinsic,
        carry.learner.params,
        carry.world,
        rollout_key,
        num_steps=config.num_steps,
        stepwise=config.pays_stepwise,
        truncation=config.truncation,
        restart=config.restart,
        policy=config.way.policy(carry.method),
    )
    carry, metrics = _update.finish(config, carry._replace(key=key), world, steps, learn_key)
    return _typed(carry), metrics


def _typed(carry: Carry) -> Carry:
    """Return the run without weak types, which come and go between updates: each change would compile anew."""
    found: Carry = jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), carry)
    return found
