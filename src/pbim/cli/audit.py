"""``pbim audit``: is a reward term safe? From a file of transitions, or from an environment that is played."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from pbim._extras import require
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
    """Is a reward term safe in every MDP? Exit code 0: safe, 1: unsafe, 2: bad input.

    SOURCE is a .parquet or .npz file with the columns obs, next_obs, term and terminated (and truncated, extrinsic,
    episode, action if it has them), a Minari dataset as minari:NAME, or the id of a Gymnasium environment, which is
    played. The term is then info:NAME or your own package.module:function of a transition.

    Example: pbim audit log.parquet --term dense --gamma 0.99
    """

    source: Annotated[str, tyro.conf.Positional]
    """A file, minari:NAME or an environment's id."""
    term: str | None = None
    """The column of the reward term (default: term); info:NAME or package.module:function for an environment."""
    gamma: float = 0.99
    """The learner's discount."""
    obs: str | None = None
    """The column of observations, or several, as in x,y."""
    next_obs: str | None = None
    """The column of successors, or several."""
    terminated: str | None = None
    """The column that says where the task was over."""
    truncated: str | None = None
    """The column that says where a time limit cut off."""
    extrinsic: str | None = None
    """The column of the task's own reward."""
    episode: str | None = None
    """The column that numbers episodes."""
    action: str | None = None
    """The column of actions."""
    key: str | None = None
    """Your package.module:function of one observation that returns what tells states apart."""
    features: str | None = None
    """Your package.module:function of observations (N, ...) that returns (N, k), for continuous ones."""
    tolerance: float | None = None
    """By how much each pay may be off, relative to the largest (default: the rounding of the numbers)."""
    episodes: int = 200
    """How many episodes of an environment to play."""
    policy: str = "random"
    """random, or your package.module:function of (obs, rng) that returns an action."""
    seed: int = 0
    """The seed of the first episode."""
    max_steps: int | None = None
    """The step that cuts episodes off, if the environment has no limit of its own."""
    json: bool = False
    """Print JSON for machines."""

    def run(self) -> int:
        """Print the verdict and return the exit code."""
        try:
            report = self._report()
        except InputError as error:
            return refuse(error, as_json=self.json)
        print(report.to_json() if self.json else report)
        return SAFE if report.potential_based else UNSAFE

    def _report(self) -> AuditReport:
        given = {name: getattr(self, name) for name in (*NEEDED, *OPTIONAL) if getattr(self, name) is not None}
        columns = read_log(self.source, given) if is_log(self.source) else self._played(given)
        return audit(
            **columns,
            gamma=self.gamma,
            key=None if self.key is None else _function("key", self.key),
            features=None if self.features is None else _function("features", self.features),
            tolerance=self.tolerance,
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
        term = _term(self.term)
        try:
            env = gymnasium.make(self.source)
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise InputError(
                f"source must be a .parquet or .npz file, minari:NAME or a registered environment, received "
                f"{self.source!r} ({error}): correct it"
            ) from None
        try:
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
        f"--term must be info:NAME or package.module:function for an environment, received {name!r}: say which entry "
        "of info is the reward term"
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
        raise InputError(f"--{option} must be a function, received {path!r}, a {type(found).__name__}: name a function")
    return found  # type: ignore[no-any-return]
