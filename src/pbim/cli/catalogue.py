"""``pbim list``: what there is to choose from."""

import json
from dataclasses import dataclass
from typing import Any

from pbim.cli.tables import print_table
from pbim.config import components, key_of
from pbim.errors import MissingExtraError


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
    from pbim.shaping import ADOPS_GUARANTEE, Shaping

    found = [(cls.kind, cls.summary, cls.guarantee) for cls in components("shaping") if issubclass(cls, Shaping)]
    found += [
        ("adops", "corrects the bonus where two critics say it would change the preferred action", ADOPS_GUARANTEE),
        ("adopes", "the same, with a coefficient that rises to one", ADOPS_GUARANTEE),
    ]
    return [
        {
            "name": kind,
            "does": summary,
            "guarantee": str(guarantee.level),
            "if": guarantee.assumption,
            "reference": guarantee.reference,
        }
        for kind, summary, guarantee in found
    ]


def _catalogue() -> dict[str, list[dict[str, Any]]]:
    """Return studies, environments, bonuses and compositions, one line each, as far as the installed extras go."""
    from pbim.intrinsic import compose

    found: dict[str, list[dict[str, Any]]] = {}
    try:
        from pbim.envs import ENVIRONMENTS
        from pbim.studies import STUDIES

        found["studies"] = [
            {"name": name, "runs": len({key_of(document) for *_, document in study.runs()}), "asks": study.summary}
            for name, study in STUDIES.items()
        ]
        found["environments"] = [{"name": name, "is": _first_sentence(type(env))} for name, env in ENVIRONMENTS.items()]
    except MissingExtraError:
        pass  # what is installed is listed
    found |= {"bonuses": [], "compositions": []}
    for cls in components("intrinsic"):
        row = {"name": cls.kind, "class": cls.__name__, "pays": _first_sentence(cls)}
        found["compositions" if cls.__module__ == compose.__name__ else "bonuses"].append(row)
    return found


def _first_sentence(thing: Any) -> str:
    return " ".join((thing.__doc__ or "").split("\n\n")[0].split()).split(". ")[0].replace("``", "")
