"""What an adapter does with a bonus besides asking it for F: when it learns, and copies of it."""

import copy
import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pbim.adapters.batching import Arrays, concatenate, copy_batch, from_arrays, to_arrays
from pbim.config import JSON, decode, encode
from pbim.errors import InputError
from pbim.intrinsic.protocol import Bonus, Intrinsic, Transition, as_intrinsic
from pbim.shaping import Shaping


class Spaces(NamedTuple):
    """The observation space and the action space of one environment."""

    obs: spaces.Space[Any]
    action: spaces.Space[Any]


class UpdateQueue:
    """The steps a bonus has yet to learn from: it learns from ``every`` vector steps at once.

    A bonus that is ``stepwise`` (counts, memories of an episode) must see one step at a time, in order, and a plain
    function learns nothing: for these ``every`` is 1. What waits is part of the saved state. Rows that wait carry no
    info, which no file could hold.
    """

    def __init__(self, bonus: Bonus, every: int, spaces: Spaces) -> None:
        self._bonus = as_intrinsic(bonus)
        self._every, self._spaces = every, spaces
        self._waiting: list[Transition] = []
        self._steps = 0
        at_once = every == 1 or self._bonus is not bonus or getattr(bonus, "stepwise", False)
        self.learn = self._bonus.update if at_once else self._add
        """Let the bonus learn from a step, now or with later ones."""

    def _add(self, transition: Transition) -> None:
        self._waiting.append(
            transition._replace(
                action=copy_batch(transition.action),  # the others' arrays; obs and next_obs are the adapter's own
                terminated=transition.terminated.copy(),
                truncated=transition.truncated.copy(),
                info={},
            )
        )
        self._steps += 1
        if self._steps >= self._every:
            self._flush()

    def arrays(self) -> Arrays:
        """Return what waits as flat arrays; what fits no array is learned from first."""
        if not self._waiting:
            return {}
        batch = self._batch()
        observed = [(self._spaces.obs, "obs"), (self._spaces.action, "action"), (self._spaces.obs, "next_obs")]
        parts = [to_arrays(space, getattr(batch, name), name) for space, name in observed]
        if not all(parts):
            self._flush()
            return {}
        flags = {name: getattr(batch, name) for name in ("terminated", "truncated", "valid")}
        return {**parts[0], **parts[1], **parts[2], **flags, "steps": np.array(self._steps)}

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what ``arrays`` returned."""
        self._waiting, self._steps = [], int(arrays.get("steps", 0))
        if self._steps:
            obs, next_obs = (from_arrays(self._spaces.obs, arrays, name) for name in ("obs", "next_obs"))
            action = from_arrays(self._spaces.action, arrays, "action")
            terminated, truncated, valid = (arrays[name].copy() for name in ("terminated", "truncated", "valid"))
            self._waiting.append(Transition(obs, action, next_obs, terminated, truncated, {}, valid))

    def _flush(self) -> None:
        batch = self._batch()
        self._waiting, self._steps = [], 0
        self._bonus.update(batch)

    def _batch(self) -> Transition:
        """Return all that waits as one transition of steps * num_envs rows, the oldest step first."""
        steps = self._waiting
        valid = [np.ones_like(step.terminated) if step.valid is None else step.valid for step in steps]
        return Transition(
            obs=concatenate(self._spaces.obs, [step.obs for step in steps]),
            action=concatenate(self._spaces.action, [step.action for step in steps]),
            next_obs=concatenate(self._spaces.obs, [step.next_obs for step in steps]),
            terminated=np.concatenate([step.terminated for step in steps]),
            truncated=np.concatenate([step.truncated for step in steps]),
            info={},
            valid=np.concatenate(valid),
        )


def learners(bonus: Any) -> list[Any]:
    """Return every part of a bonus that learns, itself included; a function learns nothing."""
    inner = [part for each in getattr(bonus, "inner", ()) for part in learners(each)]
    return [bonus, *inner] if hasattr(bonus, "update") else inner


class BonusOwner(Protocol):
    """What lets a bonus learn, unless it evaluates."""

    @property
    def training(self) -> bool:
        """Whether the bonus learns."""


_OWNERS: "WeakValueDictionary[int, BonusOwner]" = WeakValueDictionary()
"""Where each bonus learns, by its identity: bonuses of the same settings are equal."""


def take(bonuses: list[Any], owner: BonusOwner) -> None:
    """Note that bonuses learn in ``owner`` from now on, and warn if one of them still learns in another one too.

    No refusal: a notebook's cell that runs again leaves the old environment alive in an old model.
    """
    for bonus in bonuses:
        other = _OWNERS.get(id(bonus))
        _OWNERS[id(bonus)] = owner
        if other is not None and other is not owner and other.training:
            warnings.warn(
                f"one {type(bonus).__name__} learns in two wrapped environments, so what is visited in one counts in "
                "the other: give each a bonus of its own, set training = False on the one you evaluate in, or close "
                "the one you no longer use",
                stacklevel=5,
            )


def give_free(bonuses: list[Any], owner: BonusOwner) -> None:
    """Note that ``owner`` lets the bonuses learn no more."""
    for bonus in bonuses:
        if _OWNERS.get(id(bonus)) is owner:
            del _OWNERS[id(bonus)]


def fresh(bonus: Any) -> Any:
    """Return a bonus with the same settings that has learned nothing; one that is no dataclass is copied as it is."""
    if isinstance(bonus, tuple):
        return tuple(map(fresh, bonus))
    if not dataclasses.is_dataclass(bonus) or isinstance(bonus, type):
        return copy.deepcopy(bonus)
    settings = {part.name: fresh(getattr(bonus, part.name)) for part in dataclasses.fields(bonus) if part.init}
    return dataclasses.replace(bonus, **settings)


def twin(bonus: Intrinsic) -> Intrinsic | None:
    """Return a copy of a bonus with all that it has learned; None for one that cannot save what it learned.

    Raises:
        InputError: If the bonus saves but cannot be copied.

    """
    if not (hasattr(bonus, "state_dict") and hasattr(bonus, "load_state_dict")):
        return None
    try:
        other: Any = fresh(bonus)
    except Exception as error:
        raise InputError(
            f"intrinsic must be a bonus that can be copied for training=False, {type(bonus).__name__} cannot "
            f"({error}): let it support copy.deepcopy, or evaluate in an environment without the wrapper"
        ) from error
    other.load_state_dict(bonus.state_dict())
    return other  # type: ignore[no-any-return]


@dataclasses.dataclass(init=False, repr=False, eq=False)
class Recipe:
    """A bonus or a conversion as ``env.spec`` keeps it: every ``make`` returns one that has learned nothing.

    A specification is copied with each wrapper around it; a recipe is not, because nothing ever changes it.
    ``EnvSpec.to_json`` takes dataclasses apart, so ``component``, the one field, is what its JSON holds.
    """

    component: JSON

    def __init__(self, part: Bonus | Shaping[Any]) -> None:
        self._part: Any = part
        self._error = ""
        try:
            self._part = self.make()
        except Exception as error:
            self._part, self._error = None, f"{type(part).__name__} cannot be copied ({error})"

    def __getattr__(self, name: str) -> JSON:
        if name != "component":  # computed when it is asked for: it need not exist
            raise AttributeError(name)
        self._check()
        return encode(self._part)

    def __repr__(self) -> str:
        return f"Recipe({self._part!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> "Recipe":
        return self

    def make(self) -> Any:
        """Return a bonus that has learned nothing, or the conversion, which holds no state."""
        self._check()
        return self._part if isinstance(self._part, Shaping) else fresh(self._part)

    def _check(self) -> None:
        if self._error:
            raise InputError(f"env.spec must hold a bonus to copy, {self._error}: wrap the new environment yourself")


def is_recipe(part: Any) -> bool:
    """Tell whether ``part`` is a recipe, or what JSON made of one."""
    return isinstance(part, Recipe) or (isinstance(part, dict) and part.keys() == {"component"})


def as_recipe(part: Any) -> Recipe:
    """Return the recipe of a bonus, of a conversion, or of what JSON made of a recipe."""
    if isinstance(part, Recipe):
        return part
    return Recipe(decode(part["component"]) if is_recipe(part) else part)
