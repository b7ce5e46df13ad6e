"""``pbim list``: what there is to choose from."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from pbim.cli.tables import print_table
from pbim.config import components, key_of
from pbim.errors import MissingExtraError


@dataclass(frozen=True, kw_only=True)
class List:
    """List the studies, environments, bonuses, conversions and methods, and what the last two guarantee.

    Example: pbim list --json
    """

    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self) -> int:
        """Print the tables and return the exit code."""
        found = {**_catalogue(), "conversions": _promises("shaping"), "methods": _promises("method")}
        if self.json:
            print(json.dumps(found))
            return 0
        for title, rows in found.items():
            if title in ("conversions", "methods"):
                rows = [
                    {
                        "name": row["name"],
                        "does": row["does"],
                        "keeps the best policies": f"{row['guarantee']} ({row['reference']})",
                        "if": row["if"],
                    }
                    for row in rows
                ]
            if rows:
                print_table(title.capitalize(), rows)
        return 0


def _promises(family: Literal["shaping", "method"]) -> list[dict[str, Any]]:
    """Return what the conversions or methods do and guarantee, as far as the installed extras go."""
    try:
        found = list(components(family))
    except MissingExtraError:
        return []
    return [
        {
            "name": cls.kind,
            "does": cls.summary,
            "guarantee": str(cls.guarantee.level),
            "if": cls.guarantee.assumption,
            "reference": cls.guarantee.reference,
        }
        for cls in found
        if hasattr(cls, "guarantee")
    ]


def _catalogue() -> dict[str, list[dict[str, Any]]]:
    """Return studies, environments, bonuses and compositions, one row each, and what a missing extra would add."""
    from pbim import intrinsic
    from pbim.intrinsic import compose

    found: dict[str, list[dict[str, Any]]] = {}
    missing = []
    try:
        from pbim.envs import ENVIRONMENTS
        from pbim.studies import STUDIES

        found["studies"] = [
            {"name": name, "runs": len({key_of(document) for *_, document in study.runs()}), "asks": study.summary}
            for name, study in STUDIES.items()
        ]
        found["environments"] = [{"name": name, "is": _first_sentence(type(env))} for name, env in ENVIRONMENTS.items()]
    except MissingExtraError:
        missing.append({"name": "studies, environments and methods", "needs": "pip install 'pbim[studies]'"})
    found |= {"bonuses": [], "compositions": []}
    for cls in components("intrinsic"):
        row = {"name": cls.kind, "class": cls.__name__, "pays": _first_sentence(cls)}
        found["compositions" if cls.__module__ == compose.__name__ else "bonuses"].append(row)
    for name in (name for name in dir(intrinsic) if name[0].isupper()):  # not the functions that encode
        try:
            getattr(intrinsic, name)
        except MissingExtraError as error:
            missing.append({"name": name, "needs": _way_out(error)})
    return found | {"not installed": missing}


def _way_out(error: MissingExtraError) -> str:
    """Return the line that installs what is missing."""
    return str(error).rpartition(": ")[2]


def _first_sentence(thing: Any) -> str:
    return " ".join((thing.__doc__ or "").split("\n\n")[0].split()).split(". ")[0].replace("``", "")
