"""Pure functions of a learned bonus, compiled, and the state between calls."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pbim._jit import jit
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic._checks import flags, numeric, same_num_envs
from pbim.intrinsic._shell import Arrays, PureBonus, Shell
from pbim.intrinsic.encodings import concatenate, flatten
from pbim.intrinsic.protocol import Spec, Transition


@dataclass(frozen=True, kw_only=True)
class LearnedBonus(PureBonus):
    """A bonus of three pure functions, for ``wrap`` and for compiled loops alike: derive your own from it.

    It may draw random numbers or train; ``seed`` decides both at the NumPy edge. Networks are made when the first
    transition shows the shapes. ``reads`` names the fields that the functions look at.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Parity(LearnedBonus):
    ...     def init(self, key, spec):
    ...         return ()
    ...     def reward_fn(self, state, transition):
    ...         return 1.0 * (transition.next_obs % 2 == 0)
    ...     def update_fn(self, state, transition):
    ...         return state
    >>> no = np.zeros(2, bool)
    >>> Parity().reward(Transition(np.array([0, 1]), np.zeros(2, int), np.array([1, 2]), no, no, {}))
    array([0., 1.])

    """

    seed: int = 0

    reads: ClassVar[tuple[str, ...]] = ("obs", "action", "next_obs")

    def __post_init__(self) -> None:
        super().__post_init__()
        who = type(self).__name__
        for name, of in (("encode", "observations"), ("optimizer", "a learning rate")):
            if not callable(getattr(self, name, flatten)):
                raise InputTypeError(
                    f"{who}: {name} must be a function of {of}, received {getattr(self, name)!r}: leave it out for the "
                    "usual one"
                )
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer):
            raise InputTypeError(f"{who}: seed must be a whole number, received {self.seed!r}: pass 0, for example")

    def make_shell(self) -> Shell:
        """Return a shell in which nothing has happened yet."""
        return Shell(self, core=Compiled(self))

    def restart_fn(self, state: Any, where: Any) -> Any:
        """Return the state without the running episodes where true (num_envs,); pure."""
        del where
        return state


class Compiled:
    """The state of a bonus at the NumPy edge; ``functions`` names its three pure functions."""

    def __init__(self, bonus: Any, functions: tuple[str, str, str] = ("init", "reward_fn", "update_fn")) -> None:
        self.bonus, self.functions, self.who = bonus, functions, type(bonus).__name__
        self.pure: Any = None
        self.state: Any = None
        self.num_envs = 0
        self.saved: Arrays = {}
        self.dropped: NDArray[np.bool_] | None = None

    def reward(self, transition: Transition) -> NDArray[np.float64]:
        """Return what the second function returns, (num_envs,)."""
        return self.pay(self.checked(transition))

    def update(self, transition: Transition) -> None:
        """Learn from a step that has a valid row."""
        step = self.checked(transition)
        if step.valid.any():  # type: ignore[union-attr]
            self.state = self.learn(step)

    def pay(self, step: Transition) -> NDArray[np.float64]:
        """Return the value of a checked step, (num_envs,)."""
        return np.asarray(call(*self.ready(step), self.functions[1], step), dtype=np.float64)

    def learn(self, step: Transition) -> Any:
        """Return the state after a checked step."""
        return call(*self.ready(step), self.functions[2], step)

    def restart(self, where: NDArray[np.bool_]) -> None:
        """Forget the running episodes where true."""
        if self.state is not None:
            self.state = self.bonus.restart_fn(self.state, where)
        elif self.saved:  # episodes of a state that the first transition will bring back
            self.dropped = where.copy() if self.dropped is None else self.dropped | where

    def state_dict(self) -> Arrays:
        """Return the state by path, empty before the first transition."""
        return dict(self.saved) if self.state is None else flat_arrays(self.state)

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Continue from saved arrays; before the first transition this takes effect when it comes."""
        self.saved, self.dropped = dict(arrays), None
        if self.state is not None:
            self.state = restore(self.who, self.state, self.saved)

    def checked(self, transition: Transition) -> Transition:
        """Return the fields this bonus reads as arrays; the others are None."""
        _, valid = flags(self.who, transition)
        own = getattr(self.bonus, "encode", flatten) not in (flatten, concatenate)  # it picks what it needs
        fields = {
            name: numeric(self.who, name, getattr(transition, name), valid, texts=own) for name in self.bonus.reads
        }
        num_actions = getattr(self.bonus, "num_actions", None)
        if "action" in fields and num_actions is not None:
            _check_actions(self.who, fields["action"], num_actions)
        terminated, truncated = (np.asarray(mask, bool) for mask in (transition.terminated, transition.truncated))
        return Transition(None, None, None, terminated, truncated, {}, valid)._replace(**fields)

    def ready(self, step: Transition) -> tuple[Any, Any]:
        """Return the bonus without its seed, and the present state, made now if this is the first transition.

        Compiled code is shared by bonuses that differ in nothing but the seed.
        """
        if self.state is None:
            self.pure = replace(self.bonus, seed=0)
            self.state = begin(self.pure, self.functions[0], jax.random.PRNGKey(self.bonus.seed), step)
            self.num_envs = len(step.terminated)
            if self.saved:
                self.state = restore(self.who, self.state, self.saved)
            if self.dropped is not None:
                self.state = self.bonus.restart_fn(self.state, self.dropped)
        if self.bonus.episodic:
            same_num_envs(self.who, self.num_envs, len(step.terminated))
        return self.pure, self.state


@jit(static_argnums=(0, 1))
def begin(bonus: Any, function: str, key: Array, example: Transition) -> Any:
    """Return the first state, compiled once for all bonuses of the same settings."""
    return getattr(bonus, function)(key, Spec(example=example))


@jit(static_argnums=(0, 2))
def call(bonus: Any, state: Any, function: str, *inputs: Any) -> Any:
    """Return a pure function of a bonus, compiled once for all bonuses of the same settings."""
    return getattr(bonus, function)(state, *inputs)


def flat_arrays(state: Any) -> Arrays:
    """Return the arrays of a pytree by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path).lstrip("."): np.asarray(leaf) for path, leaf in leaves}


def restore(who: str, template: Any, arrays: Mapping[str, NDArray[np.generic]]) -> Any:
    """Return a pytree like ``template`` with the arrays of ``flat_arrays`` in it."""
    expected = flat_arrays(template)
    for name, leaf in expected.items():
        if name not in arrays or arrays[name].shape != leaf.shape:
            found = f"shape {arrays[name].shape}" if name in arrays else "nothing"
            raise InputError(
                f"{who}: the saved state does not fit these settings, {name} must have shape {leaf.shape}, received "
                f"{found}: construct the bonus with the settings it was saved with"
            )
    leaves = [jax.numpy.asarray(arrays[name], dtype=leaf.dtype) for name, leaf in expected.items()]
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def _check_actions(who: str, action: NDArray[Any], num_actions: int) -> None:
    if action.dtype.kind not in "iu" or action.ndim != 1:
        raise InputTypeError(
            f"{who}: num_actions={num_actions} means integer actions of shape (num_envs,), received {action.dtype} of "
            f"shape {action.shape}: leave num_actions out for continuous actions"
        )
    if action.min() < 0 or action.max() >= num_actions:
        raise InputError(
            f"{who}: actions must lie in 0 .. {num_actions - 1}, received {action.min()} .. {action.max()}: "
            f"pass num_actions=env.action_space.n and subtract the space's start"
        )
