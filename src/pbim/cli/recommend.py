"""``pbim recommend``: which conversion for a learner, how strongly it guides, and what it owes."""

import json
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from pbim.cli.tables import print_table
from pbim.config import strict
from pbim.errors import InputError
from pbim.shaping import GRM, PBIM, Geometric, Level, Raw, Shaping, recommended


@dataclass(frozen=True, kw_only=True)
class Recommend:
    """Recommend a conversion for your learner, with the line of code and the alternatives.

    Guidance is the share of a bonus that the learner credits to the step that earned it. A bonus that is taken back
    soon guides little. Debt is what the conversion has paid and still has to take back, in units of the bonus. Debt
    grows by 1/gamma per step, and the last step takes back all of it. pbim recommends a guidance of 0.8, or less where
    the debt would grow too fast. With lambda 1 (REINFORCE, GRPO) no exact conversion guides. The page "How strongly a
    conversion guides" (docs/guidance.md) derives both.

    Example: pbim recommend --gamma 0.99 --gae-lambda 0.95 --max-steps 1000 --bonus-scale 0.1
    """

    gamma: float = 0.99
    """The discount of the learner, in (0, 1]."""
    gae_lambda: float = 0.95
    """The lambda of the learner, in [0, 1). PPO: often 0.95. Q-learning, DQN and SAC: 0."""
    max_steps: int | None = None
    """The longest episode. Without it, the debts are those of endless episodes."""
    bonus_scale: float = 1.0
    """The largest size of a bonus. Debts are proportional to it."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> int:
        """Print the advice and return the exit code."""
        if self.max_steps is not None and self.max_steps < 1:
            raise InputError(f"--max-steps must be at least 1, received {self.max_steps}: leave it out for no end")
        if not 0 <= self.bonus_scale < inf:
            raise InputError(f"--bonus-scale must be a number of at least 0, received {self.bonus_scale}: correct it")
        found: list[Shaping[Any]] = [
            recommended(self.gamma, self.gae_lambda),
            recommended(self.gamma, self.gae_lambda, "grm"),
            PBIM(gamma=self.gamma),
            Raw(),
        ]
        best, *others = (self._row(conversion) for conversion in found)
        if self.json:
            asked = {name: value for name, value in asdict(self).items() if name != "json"}
            print(json.dumps(strict({**asked, "recommended": best, "alternatives": others})))
            return 0
        where = "in endless episodes" if self.max_steps is None else f"in {self.max_steps:,} steps"
        debt = best["debt"]
        print(f"Start with  {best['code']}\n")
        print(f"  guidance  {best['guidance']:.2f}  of a bonus is credited to its step at lambda {self.gae_lambda:g}")
        print(f"  debt      {debt['worst']:.3g}  at most {where}, for bonuses of {self.bonus_scale:g}")
        print(f"            {debt['expected']:.3g}  typical (root mean square), if the bonuses are independent\n")
        print_table("Beside the alternatives", [_shown(row) for row in (best, *others)])
        if others[0]["guidance"] > best["guidance"] and others[0]["debt"]["worst"] < debt["worst"]:
            print(
                f"Geometric is our default; by these figures {others[0]['conversion']} is ahead here. No study has "
                "decided between them: try both (docs/alternatives.md)."
            )
        print("If the debt is larger than what the task pays, the end of an episode is a loss: scale the bonus down.")
        return 0

    def _row(self, conversion: Shaping[Any]) -> dict[str, Any]:
        debt = conversion.debt(self.bonus_scale, self.max_steps)
        return {
            "conversion": conversion.label,
            "code": _code(conversion),
            "guidance": conversion.guidance(self.gae_lambda),
            "debt": {"worst": debt.worst, "expected": debt.expected},
            "keeps_the_task": conversion.guarantee.level is Level.EXACT,
        }


def _code(conversion: Shaping[Any]) -> str:
    settings = [f"gamma={conversion.gamma}"] if conversion.gamma is not None else []
    if isinstance(conversion, Geometric):
        settings.append(f"rate={conversion.rate}")
    if isinstance(conversion, GRM):
        settings.append(f"delay={conversion.delay}")
    return f"pbim.{type(conversion).__name__}({', '.join(settings)})"


def _shown(row: dict[str, Any]) -> dict[str, str]:
    return {
        "name": row["conversion"],
        "guidance": f"{row['guidance']:.2f}",
        "worst debt": f"{row['debt']['worst']:.3g}",
        "expected debt": f"{row['debt']['expected']:.3g}",
        "keeps the task": "yes" if row["keeps_the_task"] else "no",
    }
