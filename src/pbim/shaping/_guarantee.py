"""What a conversion promises about the set of optimal policies."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How strong a promise about the set of optimal policies is."""

    EXACT = "exact for every trajectory"
    LIMIT = "in the limit of training"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What a conversion promises about the set of optimal policies, under which assumption, and who proved it."""

    level: Level
    assumption: str
    reference: str

    def __str__(self) -> str:
        return f"{self.level}; {self.assumption} [{self.reference}]"


CAUSAL = "the bonus does not depend on later actions (Assumption 1), and centring uses earlier steps only"


def exact(reference: str, assumption: str = CAUSAL) -> Guarantee:
    """Return the promise of a conversion that cancels over every episode."""
    return Guarantee(level=Level.EXACT, assumption=assumption, reference=reference)
