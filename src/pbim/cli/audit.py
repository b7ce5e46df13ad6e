"""``pbim audit``: is a reward term safe? From a file of transitions, or from an environment that is played."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any

import tyro

from pbim._extras import require
from pbim._files import in_words
from pbim.cli import components
from pbim.cli.verify import refuse
from pbim.errors import InputError
from pbim.intrinsic.protocol import Transition
from pbim.verification.audit_report import AuditReport
from pbim.verification.auditor import audit
from pbim.verification.logs import NEEDED, OPTIONAL, is_log, read_log
from pbim.verification.recording import record

SAFE, UNSAFE = 0, 1


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Check from logs whether a reward term is safe: whether it can change which policy is best.

    SOURCE is one of three things. A .parquet or .npz file with the columns obs, next_obs, term and terminated; it can
    also have truncated, extrinsic, episode and action. A Minari dataset, as minari:NAME. Or the id of a Gymnasium
    environment, which pbim then plays; the term is then info:NAME, or your own package.module:function of a transition.

    Exit code 0: safe. 1: unsafe, undecided or not tested. 2: bad input.

    Example: pbim audit log.parquet --term dense --gamma 0.99
    """

    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
    """A file, minari:NAME or the id of an environment."""
    term: str | None = None
    """The column of the reward term; without it: term. For an environment: info:NAME or package.module:function."""
    gamma: float = 0.99
    """The discount of the learner."""
    obs: str | None = None
    """The column of observations; without it: obs. Several columns are joined: x,y."""
    next_obs: str | None = None
    """The column of the observations after the step; without it: next_obs. Several columns are joined."""
    terminated: str | None = None
    """The column that is true where the task ended; without it: terminated."""
    truncated: str | None = None
    """The column that is true where a time limit ended the episode; without it: truncated, if there is one."""
    extrinsic: str | None = None
    """The column of the task's own reward; without it: extrinsic, if there is one."""
    episode: str | None = None
    """The column that numbers the episodes; without it: episode, if there is one."""
    action: str | None = None
    """The column of actions; without it: action, if there is one."""
    key: str | None = None
    """Your package.module:function of one observation. States with the same result count as one state."""
    features: str | None = None
    """For continuous observations: your package.module:function that turns them, (N, ...), into features (N, k)."""
    tolerance: float | None = None
    """The largest error of a reward, relative to the largest one. Rounding errors are allowed anyway."""
    episodes: int | None = None
    """The number of episodes to play. Without it: 200, and no further one after 50,000 transitions."""
    policy: str = "random"
    """random, or your package.module:function of (obs, rng) that returns an action."""
    seed: int = 0
    """The seed of the first episode."""
    max_steps: int | None = None
    """The longest episode, if the environment has no time limit."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> int:
        """Print the verdict and return the exit code."""
        try:
            report = self._report()
        except InputError as error:
            return refuse(error, as_json=self.json)
        print(report.to_json() if self.json else report)
        return SAFE if report.potential_based and report.tested else UNSAFE

    def _report(self) -> AuditReport:
        given = {name: getattr(self, name) for name in (*NEEDED, *OPTIONAL) if getattr(self, name) is not None}
        if is_log(self.source):
            self._refuse_options_of_playing()
            columns = read_log(self.source, given)
        else:
            columns = self._played(given)
        return audit(
            **columns,
            gamma=self.gamma,
            key=None if self.key is None else _function("key", self.key),
            features=None if self.features is None else _function("features", self.features),
            tolerance=self.tolerance,
        )

    def _refuse_options_of_playing(self) -> None:
        defaults = {field.name: field.default for field in fields(self)}
        for name in ("episodes", "policy", "seed", "max_steps"):
            if getattr(self, name) != defaults[name]:
                raise InputError(
                    f"--{name.replace('_', '-')} must go with an environment, received it with {self.source!r}, which "
                    "is a log: leave it out"
                )

    def _played(self, given: dict[str, str]) -> dict[str, Any]:
        foreign = [name for name in given if name != "term"]
        if foreign:
            raise InputError(
                f"--{foreign[0].replace('_', '-')} must go with a file, received it with {self.source!r}, which is "
                "taken for an environment: leave it out, or name a .parquet or .npz file"
            )
        components.check_seed(self.seed)
        require("pbim audit", "gymnasium")
        import gymnasium

        policy = None if self.policy == "random" else _function("policy", self.policy)
        try:
            env = gymnasium.make(self.source)
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise InputError(
                f"source must be a .parquet or .npz file, minari:NAME or a registered environment, received "
                f"{self.source!r} ({error}): correct it"
            ) from None
        try:
            term = _term(self.term)
            return record(
                env, term=term, episodes=self.episodes, policy=policy, seed=self.seed, max_steps=self.max_steps
            )
        finally:
            env.close()


def _term(name: str | None) -> Callable[[Transition], Any]:
    kind, _, entry = (name or "").partition(":")
    if kind == "info" and entry:
        return lambda transition: transition.info[entry]
    if entry:
        found: Callable[[Transition], Any] = _function("term", str(name))
        return found
    raise InputError(
        "--term must be info:NAME or package.module:function for an environment, received "
        f"{repr(name) if name else 'nothing'}: say which entry of info is the reward term"
    )


def _function(option: str, path: str) -> Callable[..., Any]:
    """Return the function that an import path names."""
    module, _, name = path.partition(":")
    components.import_from_here()
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"--{option} must be a function as package.module:function, received {path!r} ({error}): correct it"
        ) from None
    if not callable(found):
        raise InputError(f"--{option} must be a function, received {path!r}, of type {type(found).__name__}: name one")

    def call(*arguments: Any) -> Any:
        try:
            return found(*arguments)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"--{option} must be a function that works, received {path!r}, which raised {in_words(error)}: "
                "correct it"
            ) from error

    return call
