"""Evidence where enumeration is out of reach: run episodes, certify residuals, and replay prefixes with other futures.

Nothing here is a proof. A residual that is not zero, or a bonus that changes with a later action, is a refutation.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pbim._arrays import Values
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Transition
from pbim.shaping import Shaping
from pbim.verification.certificate import Certificate, CertificateReport
from pbim.verification.fold import name_of
from pbim.verification.report import Assumption1

Policy = Callable[[Any, np.random.Generator], Any]
TRIES = 20


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Two episodes of one ``seed`` that share ``shared`` actions, and what each was paid for ``step``."""

    seed: int
    shared: int
    step: int
    actions: tuple[list[Any], list[Any]]
    bonuses: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class EpisodesReport:
    """What running episodes showed: ``certificate`` of the residuals, ``assumption1`` from ``replays`` of prefixes."""

    certificate: CertificateReport
    assumption1: Assumption1
    replay: Replay | None
    replays: int
    steps: int

    @property
    def ok(self) -> bool:
        """Tell whether F' cancelled in every episode and no bonus changed with a later action."""
        return self.certificate.ok and self.assumption1.holds

    def __str__(self) -> str:
        return f"{self.certificate}\n{self.assumption1}"


class _Played(NamedTuple):
    """One episode: its transitions, actions and bonuses (T,)."""

    transitions: list[Transition]
    actions: list[Any]
    bonuses: Values


def certify_episodes(
    env: Any,
    policy: Policy | None = None,
    *,
    intrinsic: Any,
    shaping: Shaping[Any],
    episodes: int = 100,
    seed: int = 0,
    gamma: Any = None,
    replays: int = 20,
    max_steps: int | None = None,
) -> EpisodesReport:
    """Run episodes of a ``gymnasium.Env`` and report residuals and breaches of Assumption 1.

    Termination, truncation and ``max_steps`` all end an episode, as for a learner that does not bootstrap. After each
    of the first ``replays`` episodes its seed and first actions are played again with other actions after them: the
    bonuses of the shared steps must not change. The bonus learns from the episodes; the replays use copies of it.

    Args:
        env: A single environment that repeats itself for one seed and the same actions.
        policy: ``policy(obs, rng) -> action``; None chooses uniformly at random.
        intrinsic: Any bonus (``pbim.RND()``, a callable of a :class:`Transition`, ...), or, for bonuses computed when
            the episode is over, an object with ``rollout(transitions) -> (T,)``.
        shaping: The conversion.
        episodes: How many to run.
        seed: Episode k starts from ``seed + k``.
        gamma: The learner's discount, if the conversion has none.
        replays: How many episodes to replay.
        max_steps: Where to cut episodes off; None leaves that to the environment.

    Returns:
        The certificate of the residuals, and what the replays showed of Assumption 1.

    Raises:
        InputError: If an argument breaks a rule, or the environment does not repeat itself.

    >>> import gymnasium, pbim
    >>> report = certify_episodes(gymnasium.make("FrozenLake-v1"), intrinsic=lambda transition: transition.next_obs % 2,
    ...                           shaping=pbim.PBIM(gamma=0.99), episodes=20)
    >>> report.ok, report.certificate.episodes
    (True, 20)

    """
    gamma = _check(env, shaping, gamma, episodes, replays)
    certificate = Certificate(gamma=gamma)
    explore = random_policy(env, seed)
    player = _Player(env, policy or explore, explore, np.random.default_rng(seed), max_steps)
    state, tally = shaping.init(1), certificate.init(1)
    found: Replay | None = None
    steps = tested = 0
    for number in range(episodes):
        before = _copied(intrinsic) if number < replays else None
        played = player.play(intrinsic, seed + number)
        ended = np.arange(len(played.bonuses)) == len(played.bonuses) - 1
        state, shaped = shaping.rollout(state, played.bonuses[:, None], ended[:, None])
        tally = certificate.update(tally, shaped, ended[:, None])
        steps += len(played.actions)
        if before is not None and found is None and len(played.actions) > 1:
            tested += 1
            found = player.replay(before, seed + number, played)
    return EpisodesReport(
        certificate=certificate.report(tally),
        assumption1=_finding(name_of(intrinsic), found, tested),
        replay=found,
        replays=tested,
        steps=steps,
    )


@dataclass(frozen=True)
class _Player:
    """Plays episodes of ``env`` with ``policy``; ``explore`` is asked for another action than the policy's."""

    env: Any
    policy: Policy
    explore: Policy
    rng: np.random.Generator
    max_steps: int | None

    def play(self, intrinsic: Any, seed: int, opening: Sequence[Any] = (), avoided: Any = None) -> _Played:
        """Play one episode that begins with the actions ``opening`` and does not go on with ``avoided``."""
        obs, _ = self.env.reset(seed=seed)
        transitions: list[Transition] = []
        actions: list[Any] = []
        bonuses: list[float] = []
        later = getattr(intrinsic, "rollout", None)
        ended = False
        while not ended:
            step = len(actions)
            action = (
                opening[step] if step < len(opening) else self._choose(obs, avoided if step == len(opening) else None)
            )
            next_obs, _, terminated, truncated, info = self.env.step(action)
            truncated = bool(truncated) or (self.max_steps is not None and step + 1 >= self.max_steps)
            transitions.append(transition_of(obs, action, next_obs, terminated, truncated, info))
            actions.append(action)
            if later is None:
                bonuses.append(_earned(intrinsic, transitions[-1]))
            obs, ended = next_obs, bool(terminated) or truncated
        values = np.asarray(bonuses if later is None else later(transitions), dtype=float)
        return _Played(transitions, actions, values.reshape(len(actions)))

    def _choose(self, obs: Any, avoided: Any) -> Any:
        action = self.policy(obs, self.rng)
        for _ in range(TRIES):
            if avoided is None or not np.array_equal(action, avoided):
                break
            action = self.explore(obs, self.rng)
        return action

    def replay(self, before: Any, seed: int, played: _Played) -> Replay | None:
        """Play a prefix again with another future; return the first shared step that is paid differently."""
        shared = int(self.rng.integers(1, len(played.actions)))
        again = self.play(before, seed, played.actions[:shared], avoided=played.actions[shared])
        for step in range(shared):
            gone = step >= len(again.transitions)
            if gone or not _same(played.transitions[step].next_obs, again.transitions[step].next_obs):
                raise InputError(
                    f"env must repeat itself for one seed and the same actions, received another observation at step "
                    f"{step} with seed {seed}: draw all randomness from env.np_random, or pass replays=0"
                )
            if not np.isclose(played.bonuses[step], again.bonuses[step], rtol=1e-6, atol=0):
                return Replay(
                    seed=seed,
                    shared=shared,
                    step=step,
                    actions=(played.actions, again.actions),
                    bonuses=(float(played.bonuses[step]), float(again.bonuses[step])),
                )
        return None


def _earned(intrinsic: Any, transition: Transition) -> float:
    """Return the bonus of one step; objects with ``update`` learn from it afterwards."""
    if not hasattr(intrinsic, "reward"):
        return float(np.asarray(intrinsic(transition)).reshape(()))
    bonus = float(np.asarray(intrinsic.reward(transition)).reshape(()))
    if hasattr(intrinsic, "update"):
        intrinsic.update(transition)
    return bonus


def transition_of(obs: Any, action: Any, next_obs: Any, terminated: bool, truncated: bool, info: Any) -> Transition:
    """Return one step of a single environment as a batch of 1; ``info`` stays as it is."""
    return Transition(
        obs=_batched(obs),
        action=_batched(action),
        next_obs=_batched(next_obs),
        terminated=np.array([bool(terminated)]),
        truncated=np.array([bool(truncated)]),
        info=dict(info),
    )


def _batched(value: Any) -> Any:
    """Add the leading axis; dict and tuple observations keep their form."""
    if isinstance(value, dict):
        return {name: _batched(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_batched(part) for part in value)
    return np.asarray(value)[None]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return all(_same(a[name], b[name]) for name in a)
    if isinstance(a, tuple):
        return all(_same(x, y) for x, y in zip(a, b, strict=True))
    return bool(np.array_equal(a, b))


def _finding(name: str, found: Replay | None, tested: int) -> Assumption1:
    if found is None:
        reason = f"no bonus of '{name}' changed in {tested} replays with other later actions (evidence, not proof)"
        return Assumption1(
            holds=True, reason=reason if tested else f"'{name}' was not tested: no replays were asked for"
        )
    return Assumption1(
        holds=False,
        reason=(
            f"'{name}' pays for step {found.step} what later actions decide: with seed {found.seed}, the same first "
            f"{found.shared} actions and others after them, that step is paid {found.bonuses[0]:.4g} and then "
            f"{found.bonuses[1]:.4g}"
        ),
        step=found.step,
        bonuses=found.bonuses,
    )


def _copied(intrinsic: Any) -> Any:
    try:
        return copy.deepcopy(intrinsic)
    except (TypeError, NotImplementedError) as error:
        raise InputTypeError(
            f"intrinsic must allow copy.deepcopy to be replayed, received {name_of(intrinsic)} ({error}): "
            "give it a __deepcopy__, or pass replays=0"
        ) from None


def random_policy(env: Any, seed: int) -> Policy:
    """Return the policy that chooses uniformly from the environment's action space."""
    space = copy.deepcopy(env.action_space)
    space.seed(seed)
    return lambda _obs, _rng: space.sample()


def _check(env: Any, shaping: Any, gamma: Any, episodes: int, replays: int) -> Any:
    if hasattr(env, "num_envs") or not hasattr(env, "step"):
        raise InputTypeError(
            f"env must be a single gymnasium.Env, received {type(env).__name__}: pass one environment, not a vector"
        )
    if not isinstance(shaping, Shaping):
        raise InputTypeError(
            f"shaping must be a conversion, received {type(shaping).__name__}: pass pbim.Geometric(...)"
        )
    for name, value, least in (("episodes", episodes, 1), ("replays", replays, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{name} must be a whole number of at least {least}, received {value!r}: correct it")
    gamma = shaping.gamma if gamma is None else gamma
    if gamma is None:
        raise InputError(
            f"gamma must be given, received None: {type(shaping).__name__} has none, so pass the learner's discount"
        )
    return gamma
