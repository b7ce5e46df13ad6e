"""The verdict of an audit: whether a reward term is safe, what shows it, what the log covers."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pbim.shaping import recommended
from pbim.verification._inversions import Inversion, Inversions
from pbim.verification.witness import Witness

REASONS = {
    "safe": "a potential explains every transition",
    "history-dependent": "the same transition is paid differently",
    "action-dependent": "the pay depends on the action, not on the two states alone",
    "gamma-forgotten": "a potential explains every transition, but without gamma",
    "other-gamma": "a potential explains every transition, but with another gamma",
    "ends-not-zero": "a potential explains every transition, but it is not zero at the ends",
    "not-potential-based": "no potential explains every transition",
    "undecided": "continuous observations: neither a potential of the class nor a rival explains the term",
}
"""The possible reasons of a verdict."""


def _plural(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What the log has: the verdict speaks about this, and about nothing that was not visited.

    Attributes:
        transitions: Rows of the log.
        distinct: Distinct transitions (state, next state, terminated).
        states: Distinct states, the last ones of episodes included.
        ends: Distinct states in which an episode terminated.
        dead_ends: States that were reached and never left, although no episode terminated there.
        components: Parts that no transition connects.
        checks: Independent equations that a potential must satisfy and could fail. 0: nothing was tested. For
            continuous observations: the transitions in episodes that the fit did not use.
        paid: Rows in which the term is not 0. 0: nothing was tested.

    """

    transitions: int
    distinct: int
    states: int
    ends: int
    dead_ends: int
    components: int
    checks: int
    paid: int

    def __str__(self) -> str:
        text = (
            f"{_plural(self.transitions, 'transition')}, {self.distinct:,} of them distinct, over "
            f"{_plural(self.states, 'state')} in {_plural(self.components, 'connected component')}; "
            f"{_plural(self.ends, 'end state')}; {_plural(self.checks, 'check')}. States and transitions that the log "
            "does not visit are not judged."
        )
        if self.dead_ends:
            states = "state was" if self.dead_ends == 1 else "states were"
            text += f" {self.dead_ends:,} {states} reached and never left."
        if not self.paid:
            text += " Nothing was tested: the term is 0 in every row. Record episodes in which it pays."
        elif not self.checks:
            text += (
                " Nothing was tested: no two ways in the log meet, so any term would pass. Record more, or pass key=."
            )
        return text


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """The verdict on a reward term.

    Attributes:
        potential_based: Whether F = gamma Phi(s') - Phi(s), with Phi = 0 after termination, explains every transition
            of the log. For continuous observations: whether a potential of the class ``class_name`` explains it.
        violation: The largest residual relative to the largest pay: by how much two ways on from one state are paid
            differently; where one transition is paid differently, by how much that is.
        witness: Transitions that show it, None if there is nothing to show.
        coverage: What the log visited.
        inversions: Pairs of episodes that the task's own discounted return ranks one way and the total the other way;
            None without ``extrinsic``, or where episodes cannot be told apart.
        ranking: More about the inversions: the worst pair, and how many start in the same state.
        reason: A key of ``REASONS``.
        gamma: The discount that was asked about.
        share: The share of the term's squares that the potential explains; 1.0 for a safe term.
        class_name: The class of potentials for continuous observations; "" if states were compared exactly.
        rival: Continuous observations: what explains the term better than any potential of the class, in words.
        rival_share: The share of the term's squares that the rival explains.

    """

    potential_based: bool
    violation: float
    witness: Witness | None
    coverage: Coverage
    inversions: int | None
    ranking: Inversions | None
    reason: str
    gamma: float
    share: float
    class_name: str = ""
    rival: str | None = None
    rival_share: float | None = None
    evaluate: Callable[[], Any]

    @cached_property
    def potential(self) -> Any:
        """Return the fitted potential: a mapping from states, or a function of observations if these are continuous."""
        return self.evaluate()

    @property
    def tested(self) -> bool:
        """Tell whether the log could have shown that the term is unsafe: the term pays, and ways meet."""
        return bool(self.coverage.checks and self.coverage.paid)

    @property
    def worst_inversion(self) -> Inversion | None:
        """Return the inverted pair of episodes that costs the task most return."""
        return None if self.ranking is None else self.ranking.worst

    def __str__(self) -> str:
        parts = [self._verdict()]
        if self.witness is not None:
            parts.append(f"Witness: {self.witness}")
        if self.reason != "safe":
            parts.append(self._way_out())
        if self.inversions is not None and self.ranking is not None:
            parts.append(self._ranking(self.ranking))
        return "\n\n".join([*parts, f"Coverage: {self.coverage}"])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, without the potential."""
        return {
            "potential_based": self.potential_based,
            "violation": self.violation,
            "reason": self.reason,
            "gamma": self.gamma,
            "share": self.share,
            "class": self.class_name or None,
            "rival": self.rival,
            "rival_share": self.rival_share,
            "witness": None if self.witness is None else self.witness.to_dict(),
            "coverage": vars(self.coverage),
            "inversions": self.inversions,
            "ranking": None if self.ranking is None else self.ranking.to_dict(),
        }

    def to_json(self, indent: int | None = None) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)

    def _verdict(self) -> str:
        if self.potential_based and not self.coverage.paid:
            return "NOT TESTED: the term is 0 in every transition of the log."
        if self.class_name:
            return self._verdict_of_class()
        if self.potential_based and not self.tested:
            return "NOT TESTED: a potential explains every transition of the log, as it would for any term."
        if self.potential_based:
            return f"SAFE: gamma Phi(s') - Phi(s) with gamma = {self.gamma:g} explains every transition of the log."
        return (
            f"UNSAFE ({self.reason}): {REASONS[self.reason]} (gamma = {self.gamma:g}, violation {self.violation:.2g})."
        )

    def _verdict_of_class(self) -> str:
        share = f"{self.share:.2%} of the term's squares in episodes that the fit did not use"
        if self.potential_based:
            return (
                f"SAFE as far as this class tells: a potential ({self.class_name}) explains {share}. This is no proof."
            )
        if self.rival is not None:
            return (
                f"UNSAFE as far as this class tells ({self.reason}): no potential of this class ({self.class_name}) "
                f"explains the term. The best explains {share}; {self.rival} explains {self.rival_share:.2%}, which is "
                "more beyond chance. This is no proof."
            )
        return (
            f"UNDECIDED: no potential of this class ({self.class_name}) explains the term, but the class may "
            f"be too small. The best explains {share}, and no reward for states or steps explains more beyond chance."
        )

    def _way_out(self) -> str:
        if self.reason == "undecided":
            return (
                "What decides: more episodes, features= with the functions that the term is made of, or key= that "
                "rounds observations to states, which makes the audit exact."
            )
        shaping = recommended(self.gamma)
        line = f"pbim.wrap(env, intrinsic=term, shaping=pbim.{type(shaping).__name__}(gamma={self.gamma:g}))"
        if self.reason == "history-dependent":
            return (
                "A term that counts, learns or remembers has no potential of states, and neither has one that depends "
                "on what the observation or key= leaves out (pass action= to ask about the action). Convert it, which "
                f"is exact for such terms too, and read the certificate:  env = {line}; env.certificate()"
            )
        mend = {
            "gamma-forgotten": f"pay {self.gamma:g} Phi(s') - Phi(s), as pbim.PBRS(gamma={self.gamma:g}) does, or ",
            "other-gamma": "use the learner's gamma in the term, or ",
            "ends-not-zero": "count Phi(s') as 0 where terminated is true, as pbim.PBRS does, or ",
        }.get(self.reason, "")
        return f"The repair: {mend}convert the term, which keeps the optimal policies exactly:  env = {line}"

    def _ranking(self, ranking: Inversions) -> str:
        text = f"Inversions: with the term {ranking.count:,} of {ranking.pairs:,} pairs of episodes rank the other way"
        text += f" ({ranking.same_start:,} of them start in one state)." if not self.class_name else "."
        if self.reason == "safe" and self.tested and ranking.count:
            text += " The term is safe: these come from the potential where episodes start or are cut off."
        return text if ranking.worst is None else f"{text} The worst: {ranking.worst}."
