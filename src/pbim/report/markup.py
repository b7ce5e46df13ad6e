"""HTML that is safe by construction: what is not ``Html`` already is escaped. Numbers as people read them."""

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

NOTHING = "–"


class Html(str):
    """A piece of markup, as opposed to text."""

    __slots__ = ()


def tag(name: str, *children: Any, **attributes: Any) -> Html:
    """Return an element; ``class_`` is class, underscores are dashes, True is a bare attribute, None and False none.

    >>> tag("td", "1 < 2", class_="num", title=None)
    '<td class="num">1 &lt; 2</td>'
    """
    opening = name
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            opening += f" {key}"
        elif value is not None and value is not False:
            opening += f' {key}="{html.escape(str(value))}"'
    return Html(f"<{opening}>{join(children)}</{name}>")


def join(children: Iterable[Any]) -> Html:
    """Return the children one after another, text escaped, None left out."""
    return Html("".join(_safe(child) for child in children if child is not None))


def _safe(child: Any) -> str:
    return child if isinstance(child, Html) else html.escape(str(child))


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], *, caption: str, class_: str = "") -> Html:
    """Return a table that scrolls inside itself; finished ``td`` and ``th`` are taken as they are."""

    def cell(child: Any, name: str, label: str) -> Html:
        if isinstance(child, Html) and child.startswith(("<td", "<th")):
            return child
        return tag(name, child, scope="col" if name == "th" else None, data_label=None if name == "th" else label)

    labels = [str(child) if not isinstance(child, Html) else "" for child in head]
    body = [tag("tr", *(cell(c, "td", label) for c, label in zip(row, labels, strict=False))) for row in rows]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", tag("tr", *(cell(child, "th", "") for child in head))),
            tag("tbody", *body),
            class_=class_ or None,
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def number(value: float | None, digits: int = 4) -> str:
    """Return a number for reading: about four significant digits, thousands apart, millions as M.

    >>> [number(x) for x in (41.2345, -0.5, 1_670_000, 0.0000123, 10, float("inf"), float("nan"), None)]
    ['41.23', '−0.5', '1.67 M', '1.23e−5', '10', '∞', '–', '–']
    """
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size >= 1e6:
        found = f"{value / 1e6:.3g} M"
    elif size >= 1000:
        found = f"{value:,.0f}"
    elif size and size < 1e-3:
        mantissa, exponent = f"{value:.3g}".split("e") if "e" in f"{value:.3g}" else (f"{value:.3g}", "")
        found = f"{mantissa}e{int(exponent)}" if exponent else mantissa
    else:
        found = f"{value:.{digits}g}"
    return found.replace("-", "−")


def span(low: float, high: float) -> str:
    """Return an interval.

    >>> span(1.0, 2.5)
    '[1, 2.5]'
    """
    return f"[{number(low)}, {number(high)}]"


def pvalue(value: float) -> str:
    """Return a p-value as papers print it.

    >>> pvalue(0.0004), pvalue(0.0312), pvalue(1.0)
    ('< .001', '.031', '1.000')
    """
    if not math.isfinite(value):
        return NOTHING
    return "< .001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "seed"), plural(2, "seed")
    ('1 seed', '2 seeds')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
