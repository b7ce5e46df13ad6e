"""The NumPy shell around a pure JAX bonus: holds the state, compiles the functions, saves and loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pbim.errors import InputError, InputTypeError
from pbim.intrinsic._checks import flags, numeric, same_num_envs
from pbim.intrinsic.protocol import Transition

Arrays = dict[str, NDArray[np.generic]]


class Memory:
    """What an edge holds between calls: no state until the first transition shows the shapes."""

    def __init__(self) -> None:
        self.state: Any = None
        self.num_envs = 0
        self.saved: Arrays = {}
        self.distinct: Any = None


@dataclass(frozen=True, kw_only=True)
class Edge:
    """Turn pure ``init``, ``reward_fn`` and ``update_fn`` into a bonus that learns, saves and loads.

    The dataclass is frozen and equal to another of the same settings, so compiled code is shared between them; what
    changes lives in ``_memory``. Networks are made when the first transition shows the shapes.
    """

    seed: int = field(default=0, compare=False)

    causal: ClassVar[bool] = True
    episodic: ClassVar[bool] = False
    reads: ClassVar[tuple[str, ...]] = ("obs", "action", "next_obs")

    _memory: Memory = field(default_factory=Memory, init=False, repr=False, compare=False)

    def init(self, key: Array, example: Transition) -> Any:
        """Return the first state, for transitions of the shapes of ``example``."""
        raise NotImplementedError

    def reward_fn(self, state: Any, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        raise NotImplementedError

    def update_fn(self, state: Any, transition: Transition) -> Any:
        """Return the state after learning from this step; pure, for jit, scan and vmap."""
        raise NotImplementedError

    def reward(self, transition: Transition, /) -> NDArray[np.float64]:
        """Return the bonus of this step, shape (num_envs,)."""
        step = self.checked(transition)
        return np.asarray(compiled_reward(self, self.state_for(step), step), dtype=np.float64)

    def update(self, transition: Transition, /) -> None:
        """Learn from this step."""
        step = self.checked(transition)
        if step.valid.any():
            self._memory.state = compiled_update(self, self.state_for(step), step)

    def state_dict(self) -> Arrays:
        """Return everything learnt as a flat dictionary of arrays, empty before the first transition."""
        if self._memory.state is None:
            return dict(self._memory.saved)
        return flat_arrays(self._memory.state)

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]], /) -> None:
        """Continue from what ``state_dict`` returned; before the first transition this takes effect when it comes."""
        self._memory.saved = dict(arrays)
        if self._memory.state is not None:
            self._memory.state = restore(type(self).__name__, self._memory.state, self._memory.saved)

    def checked(self, transition: Transition) -> Transition:
        """Return the fields this bonus reads as arrays; the others are None."""
        who = type(self).__name__
        _, valid = flags(who, transition)
        fields = {name: numeric(who, name, getattr(transition, name), valid) for name in self.reads}
        num_actions = getattr(self, "num_actions", None)
        if "action" in fields and num_actions is not None:
            _check_actions(who, fields["action"], num_actions)
        step = Transition(None, None, None, np.asarray(transition.terminated, bool), None, {}, valid)
        return step._replace(truncated=np.asarray(transition.truncated, bool), **fields)

    def state_for(self, step: Transition) -> Any:
        """Return the present state, made now if this is the first transition."""
        memory = self._memory
        if memory.state is None:
            memory.state = compiled_init(self, jax.random.PRNGKey(self.seed), step)
            memory.num_envs = len(step.terminated)
            if memory.saved:
                memory.state = restore(type(self).__name__, memory.state, memory.saved)
        if self.episodic:
            same_num_envs(type(self).__name__, memory.num_envs, len(step.terminated))
        return memory.state


@partial(jax.jit, static_argnums=0)
def compiled_init(bonus: Edge, key: Array, example: Transition) -> Any:
    """Return ``bonus.init``, compiled once for all bonuses of the same settings."""
    return bonus.init(key, example)


@partial(jax.jit, static_argnums=0)
def compiled_reward(bonus: Edge, state: Any, step: Transition, *inputs: Any) -> Array:
    """Return ``bonus.reward_fn``, compiled once for all bonuses of the same settings."""
    return bonus.reward_fn(state, step, *inputs)


@partial(jax.jit, static_argnums=0)
def compiled_update(bonus: Edge, state: Any, step: Transition) -> Any:
    """Return ``bonus.update_fn``, compiled once for all bonuses of the same settings."""
    return bonus.update_fn(state, step)


def flat_arrays(state: Any) -> Arrays:
    """Return the arrays of a pytree by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path).lstrip("."): np.asarray(leaf) for path, leaf in leaves}


def restore(who: str, template: Any, arrays: Mapping[str, NDArray[np.generic]]) -> Any:
    """Return a pytree like ``template`` with the arrays of ``flat_arrays`` in it."""
    expected = flat_arrays(template)
    for name, leaf in expected.items():
        if name not in arrays or arrays[name].shape != leaf.shape:
            found = arrays[name].shape if name in arrays else "nothing"
            raise InputError(
                f"{who}: the saved state does not fit these settings: {name} should have shape {leaf.shape}, "
                f"found {found}; construct the bonus with the settings it was saved with."
            )
    leaves = [jax.numpy.asarray(arrays[name], dtype=leaf.dtype) for name, leaf in expected.items()]
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def _check_actions(who: str, action: NDArray[Any], num_actions: int) -> None:
    if action.dtype.kind not in "iu" or action.ndim != 1:
        raise InputTypeError(
            f"{who}: num_actions={num_actions} means integer actions of shape (num_envs,), got {action.dtype} of shape "
            f"{action.shape}; leave num_actions out for continuous actions."
        )
    if action.min() < 0 or action.max() >= num_actions:
        raise InputError(
            f"{who}: actions must lie in 0 .. {num_actions - 1}, got {action.min()} .. {action.max()}; "
            f"pass num_actions=env.action_space.n and subtract the space's start."
        )
