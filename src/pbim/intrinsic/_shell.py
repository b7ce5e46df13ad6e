"""The NumPy side of our bonuses: a shell around the pure core that holds what changes between steps.

A bonus is a frozen dataclass of settings with three pure functions, ``init``, ``reward_fn`` and ``update_fn``, for
compiled loops. Everybody else calls ``reward`` and ``update``, which its shell answers from a table of keys on the
host, from compiled functions, or from both.
"""

import copy
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pbim.config import Component
from pbim.intrinsic.protocol import Spec, Transition

if TYPE_CHECKING:
    from jax import Array

    from pbim.intrinsic._core import Compiled
    from pbim.intrinsic._parts import Composed
    from pbim.intrinsic._tables import EpisodicTable, LifetimeTable

Arrays = dict[str, NDArray[np.generic]]
Memory = Hashable
"""What a bonus remembers of an episode, for ``pbim.verify``: episodes with equal memories are paid alike."""


class Shell:
    """Answer for a bonus with NumPy arrays.

    Args:
        bonus: Its method ``bonus`` is the formula, of the core's value and the table's number, whichever there is.
        table: Numbers by key, on the host.
        core: What computes a value per environment and learns: compiled functions, or the parts of a composition.

    """

    def __init__(
        self,
        bonus: Any,
        *,
        table: "EpisodicTable | LifetimeTable | None" = None,
        core: "Compiled | Composed | None" = None,
    ) -> None:
        self.bonus, self.table, self.core = bonus, table, core
        self._asked: tuple[Transition | None, list[Hashable]] = (None, [])

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_asked": (None, [])}

    def reward(self, transition: Transition) -> NDArray[np.float64]:
        """Return the bonus of a step, (num_envs,)."""
        paid: NDArray[np.float64]
        if self.table is None:
            assert self.core is not None
            return self.core.reward(transition)
        keys = self.table.keys(transition)
        self._asked = transition, keys  # what is learned next is, as a rule, the step that was just paid for
        numbers = self.table.numbers(keys)
        if self.core is None:
            paid = self.bonus.bonus(numbers)
        else:
            paid = self.bonus.bonus(self.core.reward(transition), numbers)
        return paid

    def update(self, transition: Transition) -> None:
        """Learn from a step."""
        # keys come first: what is refused is refused before anything learns
        (asked, keys), self._asked = self._asked, (None, [])
        if self.table is not None and asked is not transition:
            keys = self.table.keys(transition)
        if self.core is not None:
            self.core.update(transition)
        if self.table is not None:
            self.table.add(keys, transition)

    def restart(self, where: NDArray[np.bool_]) -> None:
        """Forget the running episodes where true (num_envs,)."""
        if self.core is not None:
            self.core.restart(where)
        if self.table is not None:
            self.table.forget(where)

    def state_dict(self) -> Arrays:
        """Return everything that changed since construction as a flat dictionary of arrays."""
        table = {} if self.table is None else self.table.state_dict()
        if self.core is None:
            return table
        return self.core.state_dict() | under("visits", table)

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Continue from what ``state_dict`` returned."""
        if self.core is not None:
            if self.table is not None:
                self.table.load_state_dict(below("visits", arrays))
                arrays = {name: value for name, value in arrays.items() if not name.startswith("visits.")}
            self.core.load_state_dict(arrays)
        elif self.table is not None:
            self.table.load_state_dict(arrays)


def under(name: str, arrays: Mapping[str, NDArray[np.generic]]) -> Arrays:
    """Return arrays with ``name.`` before each of their names."""
    return {f"{name}.{key}": value for key, value in arrays.items()}


def below(name: str, arrays: Mapping[str, NDArray[np.generic]]) -> Arrays:
    """Return the arrays that ``under`` put under ``name``."""
    return {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}


class ShellBonus(Component):
    """A frozen dataclass of settings whose shell answers with NumPy arrays.

    Two bonuses of the same settings are equal, whatever they have learned since, and never share a shell.

    Attributes:
        added: The saved arrays that workers add up when they train one bonus together (counts); names, or their heads.
        averaged: The saved arrays that they average (networks, moments). All others stay with their worker.

    """

    added: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ()

    _shell: Shell

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_shell", self.make_shell())

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def make_shell(self) -> Shell:
        """Return a shell in which nothing has happened yet."""
        raise NotImplementedError

    def reward(self, transition: Transition, /) -> NDArray[np.float64]:
        """Return the bonus of this step, shape (num_envs,); nothing learns.

        Raises:
            InputError: If the transition does not have what this bonus reads.

        """
        return self._shell.reward(transition)

    def update(self, transition: Transition, /) -> None:
        """Learn from this step; an episodic memory ends after the last step of its episode.

        Raises:
            InputError: If the transition does not have what this bonus reads.

        """
        self._shell.update(transition)

    def restart(self, where: NDArray[np.bool_], /) -> None:
        """Forget the running episodes that were abandoned, where true (num_envs,)."""
        self._shell.restart(where)

    def state_dict(self) -> Arrays:
        """Return everything learned so far as a flat dictionary of arrays that need no pickle."""
        return self._shell.state_dict()

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]], /) -> None:
        """Continue from what ``state_dict`` returned.

        Raises:
            InputError: If it was saved with other settings.

        """
        self._shell.load_state_dict(arrays)

    def init(self, key: "Array", spec: Spec) -> Any:
        """Return the first state for a compiled loop.

        Args:
            key: A random key; bonuses that draw nothing ignore it.
            spec: What the loop knows beforehand.

        Raises:
            InputError: If the loop does not offer what this bonus needs.

        """
        raise NotImplementedError

    def reward_fn(self, state: Any, transition: Transition) -> "Array":
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        raise NotImplementedError

    def update_fn(self, state: Any, transition: Transition) -> Any:
        """Return the state after learning from this step; pure, for jit, scan and vmap."""
        raise NotImplementedError

    def first_memory(self, state: int) -> Memory:
        """Return the memory of an episode that starts in ``state``; only where ``from_history``."""
        raise NotImplementedError

    def next_memory(self, memory: Any, action: int, state: int) -> tuple[Memory, Any]:
        """Return the memory after ``action`` led to ``state``, and the bonus of that step; only ``from_history``."""
        raise NotImplementedError

    def of_history(self, history: tuple[int, ...]) -> Any:
        """Return the bonus of the last step of ``history``; only for bonuses with ``from_history``.

        Args:
            history: One episode so far, ``(s_0, a_0, s_1, ..., a_t, s_{t+1})``, in whole numbers.

        Returns:
            A number, exact where the settings are Fractions and the formula has no root.

        """
        memory, paid = self.first_memory(history[0]), 0
        for action, state in zip(history[1::2], history[2::2], strict=True):
            memory, paid = self.next_memory(memory, action, state)
        return paid


class PureBonus(ShellBonus):
    """One of our methods, with what it declares of itself.

    Attributes:
        causal: The bonus of a step does not depend on later steps (Assumption 1).
        episodic: It remembers something that ends with the episode.
        stepwise: It must learn at every step (tables, episodic memories); networks may learn from many steps at once.
        from_history: It depends on this episode's states and actions alone, so ``pbim.verify`` can judge it.

    """

    causal: ClassVar[bool] = True
    episodic: ClassVar[bool] = False
    stepwise: ClassVar[bool] = False
    from_history: ClassVar[bool] = False
