"""``pbim list``: what there is to choose from."""

import json
from dataclasses import dataclass
from typing import Any

from pbim.cli.tables import print_table


@dataclass(frozen=True, kw_only=True)
class List:
    """List the studies, environments and bonuses, and the conversions with what each guarantees.

    Example: pbim list --json
    """

    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self) -> int:
        """Print the tables and return the exit code."""
        found = {**_catalogue(), "conversions": _conversions()}
        if self.json:
            print(json.dumps(found))
            return 0
        for title, rows in found.items():
            if title == "conversions":
                for row in rows:
                    row["keeps the optimal policies"] = f"{row['guarantee']} [dim]({row['reference']})[/dim]"
                shown = ("name", "does", "keeps the optimal policies")
                rows = [{name: row[name] for name in shown} for row in rows]
            print_table(title.capitalize(), rows)
        print("Each conversion under an assumption: pbim list --json names it.")
        return 0


def _conversions() -> list[dict[str, Any]]:
    from pbim.shaping import GUARANTEES

    return [
        {
            "name": name,
            "does": summary,
            "guarantee": str(guarantee.level),
            "if": guarantee.assumption,
            "reference": guarantee.reference,
        }
        for name, (summary, guarantee) in GUARANTEES.items()
    ]


def _catalogue() -> dict[str, list[dict[str, Any]]]:
    """Return studies, environments and bonuses, one line each; without JAX there are only studies to run elsewhere."""
    from pbim.studies import STUDIES

    studies = [
        {"name": study.name, "runs": len(study.cells) * study.seeds, "asks": study.summary}
        for study in STUDIES.values()
    ]
    try:
        from pbim import intrinsic
        from pbim.training.names import ENVIRONMENTS

        bonuses = [getattr(intrinsic, name) for name in sorted(intrinsic.__all__)]
    except ModuleNotFoundError:
        return {"studies": studies}
    return {
        "studies": studies,
        "environments": [{"name": name, "is": _first_sentence(type(env))} for name, env in ENVIRONMENTS.items()],
        "bonuses": [
            {"name": bonus.__name__, "pays": _first_sentence(bonus)}
            for bonus in bonuses
            if isinstance(bonus, type) and hasattr(bonus, "reward") and bonus is not intrinsic.Intrinsic
        ],
    }


def _first_sentence(thing: Any) -> str:
    return " ".join((thing.__doc__ or "").split("\n\n")[0].split()).split(". ")[0].replace("``", "")
