"""A figure that a learner reports, declared once: its name, unit, direction and how several rows become one.

A learner's rows are a NamedTuple whose fields are ``Annotated[Array, Metric(...)]``; the results store, the progress
line, the study's plan and the report all read the declaration from there.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_type_hints

import numpy as np
from numpy.typing import NDArray

Average = Literal["last", "sum", "max", "mean", "episodes", "goals", "truncations"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What a column of a learner's rows means.

    Attributes:
        label: What a table or an axis calls it.
        unit: What its numbers count.
        better: Whether lower or higher is better; None where neither is.
        average: How rows become one: the ``last``, their ``sum``, ``max`` or ``mean``, or the mean weighted by the
            number of ``episodes``, ``goals`` or ``truncations`` of each row.
        dtype: The NumPy type it is stored in.
        curve: Whether a report draws it over time.

    """

    label: str
    unit: str
    better: Literal["lower", "higher"] | None = None
    average: Average = "mean"
    dtype: str = "float32"
    curve: bool = False


def metrics_of(rows: type) -> dict[str, Metric]:
    """Return the declared metrics of a row type, by name, in order."""
    hints = get_type_hints(rows, include_extras=True)
    found = {
        name: next((part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Metric)), None)
        for name, hint in hints.items()
    }
    return {name: metric for name, metric in found.items() if metric is not None}


def combine(metrics: Mapping[str, Metric], rows: Mapping[str, NDArray[Any]]) -> dict[str, float | int | None]:
    """Return several rows as one; None where nothing happened to average over.

    >>> length = Metric(label="Episode length", unit="steps", average="episodes")
    >>> episodes = Metric(label="Episodes", unit="episodes", average="sum", dtype="int32")
    >>> rows = {"episodes": np.array([1, 0, 3]), "length": np.array([8.0, np.nan, 4.0])}
    >>> combine({"episodes": episodes, "length": length}, rows)
    {'episodes': 4, 'length': 5.0}
    """
    return {name: _one(metric, rows[name], rows) for name, metric in metrics.items()}


def _one(metric: Metric, values: NDArray[Any], rows: Mapping[str, NDArray[Any]]) -> float | int | None:
    values = np.asarray(values)
    if metric.average == "last":
        found = values[-1]
    elif metric.average in ("sum", "max", "mean"):
        found = getattr(values, metric.average)()
    else:
        weights = np.asarray(rows[metric.average])
        happened = weights > 0
        if not happened.any():
            return None
        found = np.average(values[happened], weights=weights[happened])
    number = found.item()
    return None if isinstance(number, float) and not math.isfinite(number) else number


def document(metrics: Mapping[str, Metric]) -> dict[str, dict[str, Any]]:
    """Return declarations as plain data, for a study's plan."""
    return {name: asdict(metric) for name, metric in metrics.items()}
