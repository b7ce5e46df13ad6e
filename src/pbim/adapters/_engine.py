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
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pbim.adapters._bonus import Spaces, UpdateQueue, give_free, learners, take, twin
from pbim.adapters._debt import DebtWatch
from pbim.adapters._episodes import Episodes
from pbim.adapters._evidence import EpisodeRecord, Mask, TrainingReport
from pbim.adapters.batching import Arrays, from_arrays, to_arrays
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Bonus, Transition, as_intrinsic
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
    mask (num_envs,) of environments whose next step is no step, because their episode is over. It hands a third one,
    ``debt``, to a path that takes this one's place. A fourth one, ``nowhere``, is the mask of a step that ends nothing.

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
        self._live = Episodes(self.intrinsic, self._updates.learn, shaping, num_envs, self._like, self._evidence)
        self._frozen: Episodes | None = None
        self.debt: DebtWatch | None = None
        self._spaces = spaces
        self._name, self._learners, self._owns_bonus = description(intrinsic), learners(intrinsic), False
        self.obs: Any = None
        self.over: Mask = np.zeros(num_envs, np.bool_)
        self.nowhere: Mask = np.zeros(num_envs, np.bool_)
        self.nowhere.flags.writeable = False

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
        frozen, valid = self._frozen, transition.valid
        end = self._ends_of(transition)
        over = self.nowhere if end is None else end.over
        if valid is not None and not np.count_nonzero(valid):
            none = np.zeros(self.num_envs, self._like.dtype)
            return StepRewards(extrinsic, none, none, extrinsic.copy(), over)
        if not self._owns_bonus and frozen is None:
            self._owns_bonus = True
            take(self._learners, self)
        if self.truncation == "continue" and end is not None:  # the memory of an episode goes on with it
            transition = transition._replace(truncated=transition.truncated & over)
        bonus, shaped = (self._live if frozen is None else frozen).step(transition, end)
        if self.debt is not None and frozen is None and self.debt.is_over(extrinsic, shaped, end, valid):
            self.debt = None
        return StepRewards(extrinsic, bonus, shaped, extrinsic + shaped, over)

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
        self,
        gamma: float | None,
        learner: str,
        *,
        gae_lambda: float | None = None,
        rollout: int | None = None,
        say: Callable[[str], object] | None = None,
    ) -> str:
        """Refuse a learner whose discount is not the conversion's; say how strongly the conversion will guide it.

        From then on it is warned, too, if the first episodes take back more at their end than the task pays.

        Args:
            gamma: The learner's discount, if known.
            learner: Its name.
            gae_lambda: Its lambda, if known; 0 for one-step TD.
            rollout: After how many steps it bootstraps, if it does not wait for the end of an episode.
            say: Where the line goes; None prints it beside warnings, so that what a program prints stays its own.

        Returns:
            The line; "" where there is nothing to say.

        Raises:
            InputError: If the two discounts differ.

        """
        if self.gamma is not None and gamma is not None and not math.isclose(gamma, self.gamma, rel_tol=1e-12):
            raise InputError(
                f"gamma must be the same in the learner and the conversion, received {gamma} in {learner} and "
                f"{self.gamma} in {type(self.shaping).__name__}, so what is repaid would not cancel what was paid: "
                f"pass gamma={gamma} to both, for example"
            )
        self.debt = DebtWatch(self.shaping)
        line = "" if gae_lambda is None else announce_guidance(self.shaping, gae_lambda, rollout=rollout)
        if line:
            (say or print_line)(f"pbim: {line}")
        return line

    def restart(self, where: Mask | None = None) -> None:
        """Begin new episodes where true (everywhere by default); what was running there is abandoned."""
        episodes = self._current
        where = episodes.running if where is None else episodes.running & where
        episodes.abandon(where)
        if self.debt is not None:
            self.debt.forget(where)

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

    def _ends_of(self, transition: Transition) -> Ends[Mask] | None:
        """Return what a step ends; None for nothing, as most do."""
        terminated, truncated = transition.terminated, transition.truncated
        if terminated is truncated is self.nowhere:
            return None
        if np.count_nonzero(terminated) or np.count_nonzero(truncated):
            return ends(self.truncation, terminated, truncated)
        return None

    @property
    def _current(self) -> Episodes:
        return self._live if self._frozen is None else self._frozen

    def _evaluation(self) -> Episodes:
        """Return episodes that leave no trace: a copy of the bonus, and the conversion with its statistics fixed.

        The copy remembers the running episode, if that is what the bonus pays for, and forgets it with the copy.
        """
        copy = twin(self.intrinsic)
        update = copy.update if copy is not None and getattr(copy, "episodic", False) else None
        bonus = self.intrinsic if copy is None else copy
        return Episodes(bonus, update, self.shaping.frozen_at(self._live.state), self.num_envs, self._like, None)


def print_line(line: str) -> None:
    """Print a line to the standard error."""
    print(line, file=sys.stderr)


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


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def _part(arrays: Mapping[str, NDArray[Any]], name: str) -> Arrays:
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}


def description(component: Any) -> str:
    """Return a conversion or a bonus in words that are the same in every process (functions without their address)."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(component))
