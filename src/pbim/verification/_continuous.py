"""Potentials over continuous observations: a stated class of them, fitted on one half of the episodes.

The class is what is linear in ``features(obs)``, or a network with one hidden layer of random units, whose output
weights are fitted (linear and quadratic parts included). The other half of the episodes judges. This is evidence about
one class, never a proof: another potential may explain the term, and one that explains the log may fail where it did
not go.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.errors import InputError, InputTypeError
from pbim.verification._graph import Floats, Ints
from pbim.verification._log import Columns

Features = Callable[[NDArray[Any]], Any]
UNITS, POINTS, MOST_ROWS = 400, 60, 20_000
"""Hidden units, points to measure distances to, and rows that the fit uses at most."""
EXPLAINED = 0.995
"""The share of the term's squares that a network must explain; a linear class must explain all but rounding."""
FORGOTTEN, NEARLY = 0.8, 0.95
"""Gamma was forgotten where the class, without it, leaves less than this share of the residual and explains so much."""
LINEAR_CLOSE = 1e-6
RIDGES = (1e-10, 1e-8, 1e-6, 1e-4)


@dataclass(frozen=True)
class ClassFit:
    """How a class of potentials explains a term on the half that judges.

    ``share`` of the term's squares is explained; ``worst`` is the largest residual, at ``row``; ``potential`` maps
    observations (N, ...) to (N,). ``forgotten``: the class explains it far better without the discount.
    """

    class_name: str
    explains: bool
    share: float
    worst: float
    row: int
    potential: Callable[[NDArray[Any]], Floats]
    forgotten: bool


def fit_class(
    obs: NDArray[Any], next_obs: NDArray[Any], log: Columns, episode: Ints, gamma: float, features: Features | None
) -> ClassFit:
    """Return how well the class explains the term."""
    judged = _half(episode)
    rng = np.random.default_rng(0)
    fitting = np.flatnonzero(~judged)
    if len(fitting) > MOST_ROWS:
        fitting = np.sort(rng.choice(fitting, MOST_ROWS, replace=False))
    ended = fitting[log.terminated[fitting]]
    columns = _network(obs[fitting], next_obs[ended], rng) if features is None else _given(features)
    name = "linear in the given features" if features is not None else f"a network with {UNITS} random hidden units"

    judging = np.flatnonzero(judged)

    def fit(discount: float) -> tuple[Floats, Floats]:
        """Return the weights, and the residual of each row that judges."""

        def design(rows: Ints) -> Floats:
            after = columns(next_obs[rows]) * ~log.terminated[rows, None]
            return discount * after - columns(obs[rows])

        if features is None:
            weights = _ridge(design(fitting), log.term[fitting], episode[fitting])
        else:
            weights = np.asarray(np.linalg.lstsq(design(fitting), log.term[fitting], rcond=None)[0], dtype=np.float64)
        parts = np.array_split(judging, len(judging) // MOST_ROWS + 1)
        return weights, np.concatenate([log.term[part] - design(part) @ weights for part in parts])

    weights, residual = fit(gamma)
    squares, left = float((log.term[judging] ** 2).sum()), float((residual**2).sum())
    share = 1.0 if squares == 0 else max(0.0, 1 - left / squares)
    worst = int(np.argmax(np.abs(residual)))
    close = max(LINEAR_CLOSE, 1e3 * log.rounding) * log.scale
    explains = share >= EXPLAINED if features is None else bool(np.abs(residual[worst]) <= close)
    rival = left
    if gamma < 1 and features is None and left > close**2 * len(judging):
        rival = float((fit(1.0)[1] ** 2).sum())
    forgotten = rival < FORGOTTEN * left and 1 - rival / squares >= NEARLY
    return ClassFit(
        class_name=name,
        explains=explains and not forgotten,
        share=share,
        worst=float(residual[worst]),
        row=int(judging[worst]),
        potential=lambda rows: columns(rows) @ weights,
        forgotten=forgotten,
    )


def _half(episode: Ints) -> NDArray[np.bool_]:
    """Return the rows of every other episode."""
    names, number = np.unique(episode, return_inverse=True)
    if len(names) < 2:
        raise InputError(
            "episode must tell at least two episodes apart for continuous observations, as one half is fitted and the "
            "other judges, received 1: record more episodes, or pass key= to make the states discrete"
        )
    return np.asarray(number % 2 == 1)


def _given(features: Features) -> Callable[[NDArray[Any]], Floats]:
    if not callable(features):
        raise InputTypeError(
            f"features must be a function of observations (N, ...) that returns (N, k), received "
            f"{type(features).__name__}: pass one"
        )

    def columns(rows: NDArray[Any]) -> Floats:
        found = np.asarray(features(rows), dtype=float)
        if found.ndim not in (1, 2) or len(found) != len(rows) or not np.isfinite(found).all():
            raise InputError(
                f"features must return one finite row for each of {len(rows)} observations, received shape "
                f"{found.shape}: take observations (N, ...) and return (N, k)"
            )
        return found.reshape(len(rows), -1)

    return columns


def _network(obs: NDArray[Any], last: NDArray[Any], rng: np.random.Generator) -> Callable[[NDArray[Any]], Floats]:
    """Return the hidden layer: kinks and waves along random directions and single axes, distances to points of the log.

    ``last`` are observations in which episodes terminated: many terms measure a distance to these.
    """
    flat = obs.reshape(len(obs), -1).astype(float)
    centre, spread = flat.mean(axis=0), flat.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    size = flat.shape[1]
    directions = rng.normal(size=(size, UNITS)) / np.sqrt(size)
    axes = np.arange(0, UNITS, 2)  # every other unit looks along one axis
    directions[:, axes] = 0
    directions[axes // 2 % size, axes] = 1
    corners = rng.uniform(-2, 2, UNITS)
    ends = last.reshape(len(last), size).astype(float)
    points = [flat[rng.choice(len(flat), POINTS)], np.zeros((1, size))]
    centres = np.concatenate(points if not len(ends) else [*points, ends.mean(axis=0)[None]])

    def columns(rows: NDArray[Any]) -> Floats:
        values = rows.reshape(len(rows), -1).astype(float)
        inputs = (values - centre) / spread
        hidden = inputs @ directions + corners
        half = UNITS // 2
        squares = (values**2).sum(axis=1)[:, None] - 2 * values @ centres.T + (centres**2).sum(axis=1)
        parts = [np.maximum(hidden[:, :half], 0), np.tanh(2 * hidden[:, half:]), np.sqrt(np.maximum(squares, 0))]
        return np.concatenate([np.ones((len(rows), 1)), inputs, inputs**2, *parts], axis=1)

    return columns


def _ridge(design: Floats, term: Floats, episode: Ints) -> Floats:
    """Return the weights; by how much they are kept small is chosen on some of the episodes that are fitted."""
    scale = np.sqrt((design**2).mean(axis=0))
    scale = np.where(scale > 0, scale, 1.0)
    design = design / scale

    def solve(rows: NDArray[np.bool_] | slice, ridge: float) -> Floats:
        part = design[rows]
        gram = part.T @ part
        gram[np.diag_indices_from(gram)] += ridge * len(part)
        return np.asarray(np.linalg.solve(gram, part.T @ term[rows]))

    ridge = RIDGES[1]
    if len(np.unique(episode)) > 1:
        chosen = _half(episode)
        errors = [float(((term - design @ solve(~chosen, ridge))[chosen] ** 2).sum()) for ridge in RIDGES]
        ridge = RIDGES[int(np.argmin(errors))]
    return solve(slice(None), ridge) / scale
