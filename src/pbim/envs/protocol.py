"""The one interface that agents know of an environment, and the two ways to keep episodes coming.

An environment is a bundle of pure functions on single, unbatched states; batches are ``jax.vmap``. It never resets
itself: whoever collects data calls :func:`autoreset_step` or :func:`autoreset_batch` and still sees the true last
observation of every episode.
"""

from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from pbim.truncation import Truncation, ends

StateT = TypeVar("StateT")
TreeT = TypeVar("TreeT")

SMALLEST_IMAGE = 7
"""The side of the smallest view that learners convolve; smaller ones are better flattened to vectors."""


class Timestep(NamedTuple, Generic[StateT]):
    """What one step leads to: successor state, its observation, reward () and the two separate ends ()."""

    state: StateT
    obs: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array


class Autoreset(NamedTuple, Generic[StateT]):
    """A step and where to go on from it: ``state`` and ``obs`` are fresh where the episode ended.

    ``timestep`` is the true transition; its ``obs`` is the final one of an ended episode, never the reset one.
    """

    timestep: Timestep[StateT]
    state: StateT
    obs: jax.Array


class Interface(Protocol):
    """What a network must know of an environment, whether it is compiled or stepped on the host."""

    @property
    def num_actions(self) -> int:
        """Actions are the integers below this number."""

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of one observation; () for a cell index."""

    @property
    def obs_dtype(self) -> np.dtype[Any]:
        """NumPy dtype of an observation."""

    @property
    def max_steps(self) -> int:
        """The step that truncates an episode; 0 where there is no limit."""


class Environment(Interface, Protocol[StateT]):
    """A pure JAX environment: ``reset`` and ``step`` on one unbatched state, made for ``jit``, ``vmap`` and ``scan``.

    An environment is a frozen dataclass: names and numbers only, equal where they are. Stepping a state that
    terminated is the caller's mistake and has no defined result. A truncated one may be stepped on, by a learner that
    takes every ``max_steps`` steps for a window of a task that goes on.

    Optional: ``num_states`` where observations are indices, ``count_key(state)`` below ``num_count_keys``, what count
    bonuses count, and ``optimal_length(state)``, the shortest possible episode from a reset state.

    >>> import jax
    >>> from pbim.envs import CliffWalk
    >>> env = CliffWalk()
    >>> state, obs = env.reset(jax.random.key(0))
    >>> timestep = env.step(jax.random.key(1), state, 0)
    >>> int(obs), int(timestep.obs), float(timestep.reward)
    (36, 24, -1.0)
    """

    def reset(self, key: jax.Array) -> tuple[StateT, jax.Array]:
        """Draw the first state of an episode and its observation."""

    def step(self, key: jax.Array, state: StateT, action: jax.Array | int) -> Timestep[StateT]:
        """Take one action; never resets."""

    def observe(self, state: StateT) -> jax.Array:
        """Return the observation of a state."""


class FiniteEnvironment(Environment[StateT], Protocol[StateT]):
    """An environment whose observations are the indices of a finite number of states."""

    @property
    def num_states(self) -> int:
        """Observations are below this number."""


def autoreset_step(
    env: Environment[StateT],
    key: jax.Array,
    state: StateT,
    action: jax.Array | int,
    truncation: Truncation = "settle",
) -> Autoreset[StateT]:
    """Step one environment and start the next episode where this one is over.

    Args:
        env: A compiled environment.
        key: The randomness of the step and of the reset.
        state: Where the environment is.
        action: What to do there, ().
        truncation: Whether a time limit ends the episode; with ``"continue"`` it does not.

    Under ``vmap`` the reset is computed at every step, whether needed or not (``lax.cond`` would be no different):
    right for environments whose reset costs no more than a step. Otherwise use :func:`autoreset_batch`.

    >>> import jax
    >>> from pbim.envs import CliffWalk, autoreset_step
    >>> env = CliffWalk()
    >>> state, _ = env.reset(jax.random.key(0))
    >>> out = autoreset_step(env, jax.random.key(1), state, 1)  # walks right, off the cliff
    >>> bool(out.timestep.terminated), int(out.timestep.obs), int(out.obs)
    (True, 37, 36)

    """
    step_key, reset_key = jax.random.split(key)
    timestep = env.step(step_key, state, action)
    fresh, _ = env.reset(reset_key)
    following = pick(ends(truncation, timestep.terminated, timestep.truncated).over, fresh, timestep.state)
    return Autoreset(timestep, following, env.observe(following))


def autoreset_batch(
    env: Environment[StateT],
    key: jax.Array,
    states: StateT,
    actions: jax.Array,
    truncation: Truncation = "settle",
) -> Autoreset[StateT]:
    """Step a batch (num_envs,) of environments; resets are computed only at steps where some episode is over.

    Args:
        env: A compiled environment.
        key: The randomness of the steps and of the resets.
        states: Where the environments are, (num_envs, ...).
        actions: What to do there, (num_envs,).
        truncation: Whether a time limit ends an episode; with ``"continue"`` it does not.

    The saving rests on one scalar condition, so it is lost (correctly, not silently wrong) under an outer ``vmap``.

    >>> import jax, jax.numpy as jnp
    >>> from pbim.envs import CliffWalk, autoreset_batch
    >>> env = CliffWalk()
    >>> states, _ = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 2))
    >>> autoreset_batch(env, jax.random.key(1), states, jnp.array([0, 1])).obs.tolist()
    [24, 36]

    """
    num_envs = actions.shape[0]
    step_keys = jax.random.split(jax.random.fold_in(key, 0), num_envs)  # never computed if the step ignores its key
    timestep = jax.vmap(env.step)(step_keys, states, actions)
    over = ends(truncation, timestep.terminated, timestep.truncated).over

    def with_resets(states: StateT) -> StateT:
        fresh, _ = jax.vmap(env.reset)(jax.random.split(jax.random.fold_in(key, 1), num_envs))
        return pick(over, fresh, states)

    following = jax.lax.cond(jnp.any(over), with_resets, lambda states: states, timestep.state)
    return Autoreset(timestep, following, jax.vmap(env.observe)(following))


def pick(mask: jax.Array, new: TreeT, old: TreeT) -> TreeT:
    """Take ``new`` where ``mask`` (num_envs,) or () holds and ``old`` elsewhere, in every leaf of two equal trees."""

    def leaf(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (old.ndim - mask.ndim)), new, old)

    picked: TreeT = jax.tree.map(leaf, new, old)
    return picked
