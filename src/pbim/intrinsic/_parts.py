"""What bonuses made of bonuses share: one set of equations for the NumPy edge and for compiled loops."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pbim.intrinsic._shell import Arrays, Memory, Shell, ShellBonus, below, under
from pbim.intrinsic.protocol import Bonus, Intrinsic, Spec, Transition, as_intrinsic, check_core

if TYPE_CHECKING:
    from jax import Array


class CompositionState(NamedTuple):
    """A composition's own statistics and the states of its parts, in a compiled loop."""

    own: Any
    parts: tuple[Any, ...]


class Composition(ShellBonus):
    """A bonus made of others. It declares what its parts declare.

    A subclass says what its parts look at (``view``), what it pays for what they pay (``pay``), and, if it has
    statistics of its own, how these begin (``start``) and change (``learn``). These functions read NumPy and JAX alike.
    """

    statistics: ClassVar[type[Any] | None] = None
    learns_from_pay: ClassVar[bool] = False

    @property
    def inner(self) -> tuple[Bonus, ...]:
        """The bonuses this one is made of, as they were given."""
        raise NotImplementedError

    @property
    def causal(self) -> bool:
        """Whether no bonus of a step depends on later steps (Assumption 1)."""
        return all(getattr(part, "causal", True) for part in self.inner)

    @property
    def episodic(self) -> bool:
        """Whether a part remembers something that ends with the episode."""
        return any(getattr(part, "episodic", False) for part in self.inner)

    @property
    def stepwise(self) -> bool:
        """Whether a part must learn at every step."""
        return any(getattr(part, "stepwise", False) for part in self.inner)

    @property
    def from_history(self) -> bool:
        """Whether every part is a function of the history of one episode, and nothing else is remembered."""
        return self.statistics is None and all(getattr(part, "from_history", False) for part in self.inner)

    def make_shell(self) -> Shell:
        """Return a shell in which nothing has happened yet."""
        return Shell(self, core=Composed(self))

    def check(self, transition: Transition) -> Transition:
        """Return a transition at the NumPy edge after checking what this composition reads."""
        return transition

    def start(self, example: Transition) -> Any:
        """Return the statistics before the first step."""
        del example
        return ()

    def view(self, own: Any, transition: Transition) -> Transition:
        """Return what the parts look at."""
        del own
        return transition

    def pay(self, own: Any, paid: Sequence[Any]) -> Any:
        """Return the bonus of a step for which the parts pay ``paid``, each (num_envs,)."""
        raise NotImplementedError

    def learn(self, own: Any, transition: Transition, paid: Sequence[Any]) -> Any:
        """Return the statistics after a step; ``paid`` is empty unless ``learns_from_pay``."""
        del transition, paid
        return own

    def init(self, key: "Array", spec: Spec) -> CompositionState:
        """Return the first statistics and the parts' first states; several parts draw from keys of their own."""
        import jax

        for part in self.inner:
            check_core(part)
        parts: Any = self.inner
        keys = [key] if len(parts) == 1 else jax.random.split(key, len(parts))
        own = jax.tree.map(jax.numpy.asarray, self.start(spec.example))
        return CompositionState(own, tuple(part.init(k, spec) for part, k in zip(parts, keys, strict=True)))

    def reward_fn(self, state: CompositionState, transition: Transition) -> "Array":
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        return self.pay(state.own, self._paid(state, self.view(state.own, transition)))  # type: ignore[no-any-return]

    def update_fn(self, state: CompositionState, transition: Transition) -> CompositionState:
        """Return the state after learning from this step; pure, for jit, scan and vmap."""
        from pbim.intrinsic.array_counts import valid_rows

        view, parts = self.view(state.own, transition), self.inner
        paid = self._paid(state, view) if self.learns_from_pay else []
        own = self.learn(state.own, transition._replace(valid=valid_rows(transition)), paid)
        return CompositionState(
            own,
            tuple(part.update_fn(s, view) for part, s in zip(parts, state.parts, strict=True)),  # type: ignore[union-attr]
        )

    def _paid(self, state: CompositionState, view: Transition) -> list[Any]:
        return [part.reward_fn(s, view) for part, s in zip(self.inner, state.parts, strict=True)]  # type: ignore[union-attr]

    def first_memory(self, state: int) -> Memory:
        """Return the parts' memories of an episode that starts in ``state``."""
        return tuple(part.first_memory(state) for part in self.inner)  # type: ignore[union-attr]

    def next_memory(self, memory: Any, action: int, state: int) -> tuple[Memory, Any]:
        """Return the parts' memories after ``action`` led to ``state``, and the bonus of that step."""
        steps = [part.next_memory(m, action, state) for part, m in zip(self.inner, memory, strict=True)]  # type: ignore[union-attr]
        return tuple(after for after, _ in steps), self.pay((), [paid for _, paid in steps])


class Composed:
    """A composition at the NumPy edge: its statistics, and its parts with shells of their own."""

    def __init__(self, bonus: Composition) -> None:
        self.bonus = bonus
        self.parts: tuple[Intrinsic, ...] = tuple(map(as_intrinsic, bonus.inner))
        self.own: Any = None

    def reward(self, transition: Transition) -> NDArray[np.float64]:
        """Return the bonus of a step, (num_envs,)."""
        step = self.bonus.check(transition)
        own = self._own(step)
        return np.asarray(self.bonus.pay(own, self._paid(self.bonus.view(own, step))), dtype=np.float64)

    def update(self, transition: Transition) -> None:
        """Add a step to the statistics as they were for its reward, then let the parts learn."""
        step = self.bonus.check(transition)
        own = self._own(step)
        view = self.bonus.view(own, step)
        self.own = self.bonus.learn(own, step, self._paid(view) if self.bonus.learns_from_pay else [])
        for part in self.parts:
            part.update(view)

    def restart(self, where: NDArray[np.bool_]) -> None:
        """Let the parts forget the running episodes where true."""
        for part in self.parts:
            if hasattr(part, "restart"):
                part.restart(where)

    def state_dict(self) -> Arrays:
        """Return the statistics by name, and what each part saves under its number."""
        saved = {} if not self.own else {name: np.asarray(value) for name, value in self.own._asdict().items()}
        for number, part in enumerate(self.parts):
            saved |= under(str(number), part.state_dict() if hasattr(part, "state_dict") else {})
        return saved

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Continue from saved arrays."""
        for number, part in enumerate(self.parts):
            if hasattr(part, "load_state_dict"):
                part.load_state_dict(below(str(number), arrays))
        kind: Any = self.bonus.statistics
        if kind is not None:
            known = all(name in arrays for name in kind._fields)
            self.own = kind(*(np.array(arrays[name]) for name in kind._fields)) if known else None

    def _own(self, step: Transition) -> Any:
        return self.bonus.start(step) if self.own is None else self.own

    def _paid(self, view: Transition) -> list[Any]:
        return [part.reward(view) for part in self.parts]
