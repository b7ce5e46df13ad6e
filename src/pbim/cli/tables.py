"""Tables in the terminal."""

from collections.abc import Sequence
from typing import Any


def print_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table, or as one line per figure where a table would not fit."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    columns = list(rows[0]) if rows else []
    if not 1 < len(columns) <= 6:
        print(title)
        for row in rows:
            print("\n".join(f"  {name} = {value}" for name, value in row.items()), end="\n\n")
        return
    table = Table(title=title, title_justify="left")
    for column in columns:
        numeric = isinstance(rows[0][column], int | float)
        table.add_column(column.replace("_", " "), justify="right" if numeric else "left", no_wrap=column == "name")
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    Console().print(table)
