"""What every adapter does with a step: transition -> F -> F' -> reward, and a certificate of every finished episode.

:mod:`pbim.truncation` says what ``settle``, ``bootstrap`` and ``continue`` mean. What the certificate counts follows
from it: every episode under ``settle``; under ``bootstrap`` terminated episodes only, and the others are reported as
``bootstrapped``; under ``continue`` terminated episodes too, which may run through many truncations. On a task that
never terminates the last two settle nothing: use a conversion whose ledger stays bounded there (``pbim.Geometric`` with
rate > 1 - gamma), or ``"settle"``.

An episode that the user abandons (``reset`` in its middle) cannot be settled: no later reward reaches the learner. Its
ledger is discarded, and the certificate reports it as ``abandoned``.
"""

import math
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pbim.adapters._bonus import Spaces, UpdateQueue, give_free, learners, take, twin
from pbim.adapters._evidence import EpisodeRecord, Mask, TrainingReport
from pbim.adapters.batching import Arrays, from_arrays, to_arrays
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Bonus, Intrinsic, Transition, as_intrinsic, as_numbers
from pbim.shaping import Shaping, announce_guidance, load_arrays, state_arrays
from pbim.truncation import Ends, Truncation, check_truncation, ends
from pbim.verification import Certificate

REWARDS = ("extrinsic_reward", "intrinsic_reward", "shaping_reward")
"""The names under which every adapter puts R, F and F' into its info."""


class StepRewards(NamedTuple):
    """R, F, F', what the learner gets, R + F', and where the episode is over; all of shape (num_envs,)."""

    extrinsic: NDArray[np.floating]
    intrinsic: NDArray[np.floating]
    shaping: NDArray[np.floating]
    total: NDArray[np.floating]
    over: Mask


class RewardPath:
    """The way of a reward through one bonus and one conversion, for ``num_envs`` environments.

    The adapter keeps two attributes: ``obs``, a copy of the observations the next step starts from, and ``over``, the
    mask (num_envs,) of environments whose next step is no step, because their episode is over.

    >>> import numpy as np, pbim
    >>> from gymnasium.spaces import Discrete
    >>> two = Spaces(Discrete(2), Discrete(2))
    >>> path = RewardPath(lambda step: np.ones(1), pbim.PBIM(gamma=0.5, normalize=False), 1, two)
    >>> def move(terminated):
    ...     return Transition(None, None, None, np.array([terminated]), np.array([False]), {})
    >>> [float(path.step(move(last), np.zeros(1)).total[0]) for last in (False, False, True)]
    [1.0, 1.0, -6.0]
    >>> path.report().ok
    True
    """

    def __init__(
        self,
        intrinsic: Bonus,
        shaping: Shaping[Any],
        num_envs: int,
        spaces: Spaces,
        *,
        truncation: Truncation = "settle",
        update_every: int = 1,
        max_episode_steps: int | None = None,
        dtype: type[np.floating] = np.float64,
    ) -> None:
        _check(shaping, truncation, update_every, max_episode_steps)
        self.shaping, self.num_envs, self.truncation = shaping, num_envs, truncation
        if max_episode_steps is not None:
            shaping.check_horizon(max_episode_steps)
        self._like = np.zeros(0, dtype)
        self._updates = UpdateQueue(intrinsic, update_every, spaces)
        gamma = 1.0 if shaping.gamma is None else shaping.gamma
        self._evidence = EpisodeRecord(Certificate(gamma=gamma), num_envs, self._like)
        self.intrinsic = as_intrinsic(intrinsic)
        self._live = _Episodes(self.intrinsic, self._updates.learn, shaping, num_envs, self._like, self._evidence)
        self._frozen: _Episodes | None = None
        self._spaces = spaces
        self._name, self._learners, self._owns_bonus = description(intrinsic), learners(intrinsic), False
        self.obs: Any = None
        self.over: Mask = np.zeros(num_envs, np.bool_)

    @property
    def gamma(self) -> float | None:
        """The conversion's discount; None for one that has none."""
        return None if self.shaping.gamma is None else float(self.shaping.gamma)

    @property
    def shaping_state(self) -> Any:
        """The conversion's state in training: the ledgers of running episodes, and F-bar."""
        return self._live.state

    @property
    def training(self) -> bool:
        """Whether steps teach the bonus, enter F-bar and are certified."""
        return self._frozen is None

    @training.setter
    def training(self, training: bool) -> None:
        if not isinstance(training, bool | np.bool_):
            raise InputTypeError(
                f"training must be True or False, received {training!r}: False freezes the bonus for an evaluation"
            )
        if training and self._frozen is None:
            return
        self._live.abandon(self._live.running)
        self._frozen = None if training else self._evaluation()

    def last_obs(self) -> Any:
        """Return the observations the next step starts from.

        Raises:
            InputError: If there are none yet.

        """
        if self.obs is None:
            raise InputError("step needs the observation it starts from, there is none yet: call reset() first")
        return self.obs

    def step(self, transition: Transition, extrinsic: NDArray[np.floating]) -> StepRewards:
        """Return the rewards of one step; rows where ``transition.valid`` is false pass through untouched.

        ``transition.obs`` and ``next_obs`` may wait for an update: nobody may write into them later.
        """
        episodes, valid = self._current, transition.valid
        end = ends(self.truncation, transition.terminated, transition.truncated)
        if valid is not None and not valid.any():
            none = np.zeros(self.num_envs, self._like.dtype)
            return StepRewards(extrinsic, none, none, extrinsic.copy(), end.over)
        if not self._owns_bonus and self._frozen is None:
            self._owns_bonus = True
            take(self._learners, self)
        if self.truncation == "continue":  # the memory of an episode goes on with it
            transition = transition._replace(truncated=transition.truncated & end.over)
        bonus, shaped = episodes.step(transition, end)
        return StepRewards(extrinsic, bonus, shaped, extrinsic + shaped, end.over)

    def conversion_state(self) -> Arrays:
        """Return what the conversion remembers by name: of the running episodes, and its statistics."""
        return state_arrays(self._current.state)

    def resume(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a state of the conversion that was kept elsewhere, as ``conversion_state`` returned it.

        Where it is not what the last step left, another episode goes on: the one that ran is abandoned, and the other
        one is certified only if this is its start.
        """
        self._current.resume(dict(arrays))

    def check_learner(
        self, gamma: float | None, learner: str, *, gae_lambda: float | None = None, rollout: int | None = None
    ) -> str:
        """Refuse a learner whose discount is not the conversion's; say how strongly the conversion will guide it.

        Args:
            gamma: The learner's discount, if known.
            learner: Its name.
            gae_lambda: Its lambda, if known; 0 for one-step TD.
            rollout: After how many steps it bootstraps, if it does not wait for the end of an episode.

        Returns:
            One line to print or log; "" where there is nothing to say.

        Raises:
            InputError: If the two discounts differ.

        """
        if self.gamma is not None and gamma is not None and not math.isclose(gamma, self.gamma, rel_tol=1e-12):
            raise InputError(
                f"gamma must be the same in the learner and the conversion, received {gamma} in {learner} and "
                f"{self.gamma} in {type(self.shaping).__name__}: what is repaid would not cancel what was paid"
            )
        return "" if gae_lambda is None else announce_guidance(self.shaping, gae_lambda, rollout=rollout)

    def restart(self, where: Mask | None = None) -> None:
        """Begin new episodes where true (everywhere by default); what was running there is abandoned."""
        episodes = self._current
        episodes.abandon(episodes.running if where is None else episodes.running & where)

    def close(self) -> None:
        """Give the bonus free for another environment."""
        self._owns_bonus = False
        give_free(self._learners, self)

    def changed_outside(self, layer: str) -> None:
        """Note that a wrapper outside changes rewards after the conversion, and warn the first time."""
        if self.training and layer and not self._evidence.changed_by:
            self._evidence.changed_by = layer
            warnings.warn(
                f"{layer} outside the pbim wrapper changes rewards after the conversion, so F' no longer cancels in "
                "what the learner gets: put it inside, as in pbim.wrap(NormalizeReward(env), ...), or scale the bonus "
                "itself with pbim.intrinsic.Scaled or RunningStdScaled",
                stacklevel=4,
            )

    def report(self) -> TrainingReport:
        """Return the verdict over every episode of training finished so far."""
        return self._evidence.report()

    def state_dict(self) -> Arrays:
        """Return all that a resumed training needs, as flat arrays: ledger, statistics, certificate, bonus."""
        parts = {"pending": self._updates.arrays(), "shaping": state_arrays(self._live.state)}
        if hasattr(self.intrinsic, "state_dict"):
            parts["intrinsic"] = dict(self.intrinsic.state_dict())
        arrays = {f"{part}.{name}": array for part, content in parts.items() for name, array in content.items()}
        place = {} if self.obs is None else to_arrays(self._spaces.obs, self.obs, "obs")
        names = {"conversion": description(self.shaping), "bonus": self._name}
        own = {name: np.array(text) for name, text in names.items()}
        own |= {"running": self._live.running, "over": self.over}
        return {**own, **place, **self._evidence.arrays(), **arrays}

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]], /) -> None:
        """Continue from what ``state_dict`` returned."""
        for name in ("conversion", "running", "over"):
            if name not in arrays:
                raise InputError(
                    f"the saved state has no {name!r}, it holds {sorted(arrays)}: pass what state_dict() returned"
                )
        saved = str(arrays["conversion"])
        if saved != description(self.shaping):
            raise InputError(
                f"the state was saved with {saved}, this environment is wrapped with {self.shaping!r}: "
                "wrap it with the conversion it was saved with"
            )
        bonus = str(arrays.get("bonus", self._name))
        if bonus != self._name:
            raise InputError(
                f"the state was saved with the bonus {bonus}, this environment is wrapped with {self._name}: wrap it "
                "with the bonus it was saved with"
            )
        self._live.state = load_arrays(self._live.state, _part(arrays, "shaping"))
        self._live.running = np.array(arrays["running"], np.bool_)
        self._evidence.load(_part(arrays, "certificate"), _part(arrays, "episodes"))
        self._updates.load(_part(arrays, "pending"))
        if hasattr(self.intrinsic, "load_state_dict"):
            _load_bonus(self.intrinsic, _part(arrays, "intrinsic"))
        self.obs, self.over = from_arrays(self._spaces.obs, arrays, "obs"), np.array(arrays["over"], np.bool_)
        self._frozen = None if self._frozen is None else self._evaluation()

    @property
    def _current(self) -> "_Episodes":
        return self._live if self._frozen is None else self._frozen

    def _evaluation(self) -> "_Episodes":
        """Return episodes that leave no trace: a copy of the bonus, and the conversion with its statistics fixed.

        The copy remembers the running episode, if that is what the bonus pays for, and forgets it with the copy.
        """
        copy = twin(self.intrinsic)
        update = copy.update if copy is not None and getattr(copy, "episodic", False) else None
        bonus = self.intrinsic if copy is None else copy
        return _Episodes(bonus, update, self.shaping.frozen_at(self._live.state), self.num_envs, self._like, None)


class Shaped:
    """What every wrapped environment offers, whatever its framework."""

    rewards: RewardPath

    @property
    def training(self) -> bool:
        """Whether steps teach the bonus, enter F-bar and the certificate; set it to False for an evaluation.

        While it is False, F' is computed by a copy of the bonus and with F-bar as they were at the switch, nothing
        learns or counts, and ``state_dict()`` keeps what training left ("obs" and "over" follow the environment).
        Switching abandons a running episode. Set it to False again to take a new copy.
        """
        return self.rewards.training

    @training.setter
    def training(self, training: bool) -> None:
        self.rewards.training = training

    def close(self, **kwargs: Any) -> Any:
        """Close the environments; the bonus is free for others."""
        if "rewards" in vars(self):  # Gymnasium before 1.4 also closes a wrapper whose making was refused
            self.rewards.close()
        return super().close(**kwargs)  # type: ignore[misc]

    def certificate(self) -> TrainingReport:
        """Return whether F' cancelled in every episode of training finished so far."""
        return self.rewards.report()

    def state_dict(self) -> Arrays:
        """Return the wrapper's state (not the environments') as flat arrays: ledger, statistics, certificate, bonus."""
        return self.rewards.state_dict()

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]], /) -> None:
        """Continue from what ``state_dict`` returned, in environments in the state they were in then, or reset them.

        Args:
            arrays: What ``state_dict`` returned, of the same conversion, bonus and num_envs.

        Raises:
            InputError: If the arrays are of another conversion, bonus or num_envs.

        """
        self.rewards.load_state_dict(arrays)


class _Episodes:
    """The running episodes of a bonus and a conversion; those without ``evidence`` are not certified."""

    def __init__(
        self,
        intrinsic: Intrinsic,
        update: Callable[[Transition], None] | None,
        shaping: Shaping[Any],
        num_envs: int,
        like: NDArray[np.floating],
        evidence: EpisodeRecord | None,
    ) -> None:
        self._intrinsic, self._update, self._shaping, self._evidence = intrinsic, update, shaping, evidence
        self._like, self._shape = like, (num_envs,)
        self.state = shaping.init(num_envs, like=like)
        self.running = np.zeros(num_envs, np.bool_)
        self._uncertified = np.zeros(num_envs, np.bool_)
        """Whose episode began elsewhere."""

    def step(self, transition: Transition, end: Ends[Mask]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return F and F' of one step."""
        valid = transition.valid
        bonus = self._checked(self._intrinsic.reward(transition), valid)
        if self._update is not None:
            self._update(transition)
        self.state, shaped = self._shaping.step(self.state, bonus, end.settled, valid=valid)
        self.running = ~end.over if valid is None else np.where(valid, ~end.over, self.running)
        if self._evidence is not None:
            self._evidence.add(shaped, end.settled, self._certified(valid))
            self._uncertified = self._uncertified & ~(end.over if valid is None else end.over & valid)
        if np.count_nonzero(end.left_open):
            self._leave_open(end.left_open if valid is None else end.left_open & valid)
        return bonus, shaped

    def resume(self, arrays: Arrays) -> None:
        """Continue from a state kept elsewhere."""
        before, state = self.state, load_arrays(self.state, arrays)
        moved = _differ(before, state, self._shape)
        if np.count_nonzero(moved):
            self.abandon(self.running & moved)
            fresh = self._shaping.init(*self._shape, like=self._like)
            self._uncertified = np.where(moved, _differ(fresh, state, self._shape), self._uncertified)
        self.state = state

    def abandon(self, where: Mask) -> None:
        """Forget the running episodes where true; the bonus hears of it."""
        if not where.any():
            return
        if self._evidence is not None:
            self._evidence.abandoned += int(where.sum())
        self._discard(where)
        restart = getattr(self._intrinsic, "restart", None)
        if restart is not None and (self._evidence is not None or self._update is not None):
            restart(where)
        self.running = self.running & ~where

    def _leave_open(self, where: Mask) -> None:
        """Leave the ledgers of truncated episodes to the learner's value."""
        if self._evidence is not None:
            self._evidence.bootstrapped += int(where.sum())
        self._discard(where)

    def _discard(self, where: Mask) -> None:
        self.state = self._shaping.discard(self.state, where)
        if self._evidence is not None:
            self._evidence.discard(where)

    def _certified(self, valid: Mask | None) -> Mask | None:
        if not np.count_nonzero(self._uncertified):
            return valid
        return ~self._uncertified if valid is None else valid & ~self._uncertified

    def _checked(self, returned: Any, valid: Mask | None) -> NDArray[np.floating]:
        """Return the bonus in the dtype of the rewards after checking its shape; the conversion refuses NaN."""
        bonus = as_numbers(returned)
        if bonus.shape != self._shape or bonus.dtype.kind not in "fiub":
            repeat = f"return an array, such as numpy.full({self._shape[0]}, bonus)"
            raise InputError(
                f"intrinsic must return real numbers of shape {self._shape}, one per environment, received "
                f"{bonus.dtype} of shape {bonus.shape}: "
                + (repeat if bonus.ndim == 0 else "reduce over every axis but the first, as float32 or float64")
            )
        if bonus.dtype != self._like.dtype:
            bonus = bonus.astype(self._like.dtype)
        if valid is not None:
            bonus = np.where(valid, bonus, 0)
        return bonus


def _check(shaping: Any, truncation: Any, update_every: Any, max_episode_steps: Any) -> None:
    if not isinstance(shaping, Shaping):
        raise InputTypeError(
            f"shaping must be a conversion, received {shaping!r}: pass an instance such as pbim.Geometric(gamma=0.99)"
        )
    needed = sorted(set(shaping.extra) - {"start"})
    if needed:
        raise InputError(
            f"shaping must need nothing but a bonus to be wrapped, {type(shaping).__name__} also needs {needed}: "
            "call its step in your own loop"
        )
    check_truncation(truncation)
    if max_episode_steps is not None and not _is_count(max_episode_steps):
        raise InputError(
            f"max_episode_steps must be a whole number of at least 1, received {max_episode_steps!r}: leave it out, or "
            "pass the longest episode in steps"
        )
    if not _is_count(update_every):
        raise InputError(
            f"update_every must be a whole number of at least 1, received {update_every!r}: 1 lets the bonus learn "
            "from every step, 128 from 128 vector steps at once"
        )


def _load_bonus(bonus: Any, arrays: Arrays) -> None:
    try:
        bonus.load_state_dict(arrays)
    except KeyError as missing:
        raise InputError(
            f"the saved state of the bonus has no {missing}, it holds {sorted(arrays)}: wrap with the bonus, and the "
            "settings, it was saved with"
        ) from None


def _differ(state: Any, other: Any, lanes: tuple[int]) -> Mask:
    """Return where two states of a conversion differ in what is of one environment alone (num_envs,)."""
    pairs = zip(state_arrays(state).values(), state_arrays(other).values(), strict=True)
    found = np.zeros(lanes, np.bool_)
    for one, two in pairs:
        if one.shape[-1:] == lanes:
            found |= (one != two).reshape(-1, *lanes).any(axis=0)
    return found


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def _part(arrays: Mapping[str, NDArray[Any]], name: str) -> Arrays:
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}


def description(component: Any) -> str:
    """Return a conversion or a bonus in words that are the same in every process (functions without their address)."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(component))
