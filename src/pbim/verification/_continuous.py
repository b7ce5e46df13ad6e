"""Potentials over continuous observations: a stated class of them against rivals that are not potential-based.

The class is what is linear in ``features(obs)``, or in radial functions of the observation. One half of the episodes is
fitted, the other half judges. No fit is perfect, so a residual alone proves nothing: it may be the term's fault or the
class's. Therefore the same functions also make rivals: terms that break the rule in one named way, such as a reward
for each state. A rival that predicts the episodes that judge better than any potential of the class is the sign of an
unsafe term. Where neither the class nor a rival explains the term, nothing is decided. This is evidence, never a proof.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim._files import first_line
from pbim.errors import InputError, InputTypeError
from pbim.verification._graph import Floats, Ints
from pbim.verification._log import Columns

Features = Callable[[NDArray[Any]], Any]
CENTRES, PRODUCTS, DIRECTIONS, MOST_ROWS = 500, 300, 64, 10_000
"""Radial functions, products of two coordinates, coordinates, and rows that are fitted or judge: at most so many."""
WIDTHS = (0.3, 1.0, 3.0)
"""Widths of the radial functions, relative to the typical distance of two observations; the best is chosen."""
RIDGES = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
"""By how much weights are kept small, relative to the mean square of a column; the best is chosen."""
EXPLAINED, LINEAR_CLOSE = 0.999, 1e-6
"""The share of the term's squares that radial functions must explain; given features must explain all but rounding."""
FLIPS, CHANCE, GROUPS = 9_999, 0.001, 200
"""A rival is better if at most this share of so many random exchanges with the potential does as well (for all rivals
together). What is exchanged are episodes, put together to so many groups at most."""


@dataclass(frozen=True)
class Rival:
    """A form of the term that breaks the rule in one way: its ``reason``, and what it says ``in_words``."""

    reason: str
    in_words: str
    forgets_gamma: bool = False
    keeps_ends: bool = False
    extra: str = ""


# the simplest first: of rivals that are about as good the first gives the verdict its name
RIVALS = (
    Rival("gamma-forgotten", "Phi(s') - Phi(s), without gamma", forgets_gamma=True),
    Rival("ends-not-zero", "a potential that is not zero at the ends", keeps_ends=True),
    Rival(
        "gamma-forgotten",
        "Phi(s') - Phi(s), without gamma and not zero at the ends",
        forgets_gamma=True,
        keeps_ends=True,
    ),
    Rival("not-potential-based", "a potential and a reward for the state that is reached", extra="state"),
    Rival("not-potential-based", "a potential and a reward for the step itself", extra="step"),
)


@dataclass(frozen=True)
class ClassFit:
    """How a class of potentials explains a term on the half that judges.

    ``share`` of the term's squares is explained; ``worst`` is the largest residual, at ``row``; ``potential`` maps
    observations (N, ...) to (N,). ``rival`` explains the term better, ``rival_share`` of it; None if none does.
    ``judged`` counts the rows that judge.
    """

    class_name: str
    explains: bool
    share: float
    worst: float
    row: int
    potential: Callable[[NDArray[Any]], Floats]
    rival: Rival | None
    rival_share: float | None
    judged: int


def fit_class(
    obs: NDArray[Any], next_obs: NDArray[Any], log: Columns, episode: Ints, gamma: float, features: Features | None
) -> ClassFit:
    """Return how well the class explains the term, and the rival that explains it better."""
    judged, rng = _half(episode), np.random.default_rng(0)
    fitting, judging = (_some(np.flatnonzero(rows), rng) for rows in (~judged, judged))
    scaled = _Coordinates(obs[fitting], rng)
    if features is None:
        classes = [_radial(scaled, obs[fitting], width) for width in WIDTHS]
        name = f"{CENTRES} radial functions, linear and quadratic parts"
    else:
        classes, name = [_given(features)], "linear in the given features"
    halves = [_Sample(obs[rows], next_obs[rows], log.terminated[rows], scaled) for rows in (fitting, judging)]
    chosen = _half(episode[fitting]) if len(np.unique(episode[fitting])) > 1 else None
    term = log.term[fitting]

    fits = []
    for columns in classes:
        here, there = columns(halves[0].obs), columns(halves[0].next_obs)
        weights, error = _ridge(halves[0].design(here, there, gamma), term, chosen)
        fits.append((error, columns, weights, here, there))
    _, columns, weights, here, there = min(fits, key=lambda found: found[0])
    judging_columns = columns(halves[1].obs), columns(halves[1].next_obs)
    pays = log.term[judging]
    residual = pays - halves[1].design(*judging_columns, gamma) @ weights
    squares, left = float((pays**2).sum()), float((residual**2).sum())
    worst = int(np.argmax(np.abs(residual)))
    close = max(LINEAR_CLOSE, 1e3 * log.rounding) * log.scale
    rounding_only = bool(np.abs(residual[worst]) <= close)

    better: list[tuple[float, Rival]] = []
    rivals = [] if rounding_only else _rivals(gamma, any_ends=bool(log.terminated[fitting].any()))
    for rival in rivals:
        theirs, _ = _ridge(halves[0].design(here, there, gamma, rival), term, chosen)
        other = pays - halves[1].design(*judging_columns, gamma, rival) @ theirs
        gains = _by_episode(residual**2 - other**2, episode[judging])
        if _is_better(gains, CHANCE / len(rivals), rng):
            better.append((float((other**2).sum()), rival))
    least = min((rest for rest, _ in better), default=0.0)
    rest, winner = next((pair for pair in better if pair[0] <= 2 * least + close**2 * len(pays)), (left, None))
    share = 1.0 if squares == 0 else max(0.0, 1 - left / squares)
    return ClassFit(
        class_name=name,
        explains=rounding_only or (not better and features is None and share >= EXPLAINED),
        share=share,
        worst=float(residual[worst]),
        row=int(judging[worst]),
        potential=lambda rows: columns(rows) @ weights,
        rival=winner,
        rival_share=None if winner is None else max(0.0, 1 - rest / squares),
        judged=len(judging),
    )


def _rivals(gamma: float, *, any_ends: bool) -> list[Rival]:
    """Return the rivals that differ from a potential in this log."""
    return [rival for rival in RIVALS if (any_ends or not rival.keeps_ends) and (gamma < 1 or not rival.forgets_gamma)]


class _Sample:
    """Rows of the log, and what a form of the term makes of the class's functions there."""

    def __init__(
        self, obs: NDArray[Any], next_obs: NDArray[Any], ends: NDArray[np.bool_], scaled: "_Coordinates"
    ) -> None:
        self.obs, self.next_obs, self.ends, self.scaled = obs, next_obs, ends, scaled

    def design(self, here: Floats, there: Floats, gamma: float, rival: Rival | None = None) -> Floats:
        """Return one column per weight: gamma Phi(s') - Phi(s), with Phi(s') = 0 at ends, or the rival's form."""
        going = there * ~self.ends[:, None]
        discount = 1.0 if rival is not None and rival.forgets_gamma else gamma
        after = there if rival is not None and rival.keeps_ends else going
        parts = [discount * after - here]
        if rival is not None and rival.extra == "state":
            parts += [going, self.ends[:, None].astype(float)]
        if rival is not None and rival.extra == "step":
            parts += [self._of_step()]
        return np.concatenate(parts, axis=1)

    def _of_step(self) -> Floats:
        """Return the step's length, size along each axis, direction, and direction and step by place."""
        place = self.scaled(self.obs)
        step = self.scaled(self.next_obs) - place
        length = np.sqrt((step**2).sum(axis=1, keepdims=True))
        direction = step / np.where(length > 0, length, 1.0)
        pairs = self.scaled.pairs(ordered=True)
        by_place = [part[:, pairs[0]] * place[:, pairs[1]] for part in (direction, step)]
        return np.concatenate([length, length**2, np.abs(step), direction, *by_place], axis=1)


class _Coordinates:
    """Observations in units of their spread; along random directions where there are too many numbers."""

    def __init__(self, obs: NDArray[Any], rng: np.random.Generator) -> None:
        flat = obs.reshape(len(obs), -1).astype(float)
        self.centre, spread = flat.mean(axis=0), flat.std(axis=0)
        self.spread = np.where(spread > 0, spread, 1.0)
        size = flat.shape[1]
        self.size = min(size, DIRECTIONS)
        self.turn = None if size <= DIRECTIONS else rng.normal(size=(size, DIRECTIONS)) / np.sqrt(size)

    def __call__(self, rows: NDArray[Any]) -> Floats:
        inputs = (rows.reshape(len(rows), -1).astype(float) - self.centre) / self.spread
        return np.asarray(inputs if self.turn is None else inputs @ self.turn)

    def pairs(self, *, ordered: bool) -> tuple[Ints, Ints]:
        """Return pairs of coordinates, not more than ``PRODUCTS``."""
        one, other = np.indices((self.size, self.size)).reshape(2, -1) if ordered else np.triu_indices(self.size)
        kept = np.sort(np.random.default_rng(0).permutation(len(one))[:PRODUCTS])
        return one[kept], other[kept]


def _radial(scaled: _Coordinates, obs: NDArray[Any], width: float) -> Callable[[NDArray[Any]], Floats]:
    """Return sqrt(width^2 + distance^2) to observations of the log, with a constant, linear and quadratic parts.

    Away from its centre such a function is a cone, as terms that measure a distance are; a wide one is a parabola.
    """
    rng = np.random.default_rng(0)
    centres = scaled(obs[rng.permutation(len(obs))[:CENTRES]])
    one, other = scaled.pairs(ordered=False)

    def columns(rows: NDArray[Any]) -> Floats:
        inputs = scaled(rows)
        squares = (inputs**2).sum(axis=1)[:, None] - 2 * inputs @ centres.T + (centres**2).sum(axis=1)
        cones = np.sqrt(width**2 + np.maximum(squares, 0) / scaled.size)
        return np.concatenate([np.ones((len(rows), 1)), inputs, inputs[:, one] * inputs[:, other], cones], axis=1)

    return columns


def _given(features: Features) -> Callable[[NDArray[Any]], Floats]:
    if not callable(features):
        raise InputTypeError(
            f"features must be a function of observations (N, ...) that returns (N, k), received "
            f"{type(features).__name__}: pass one"
        )

    def columns(rows: NDArray[Any]) -> Floats:
        try:
            found = np.asarray(features(rows), dtype=float)
        except InputError:
            raise
        except (TypeError, ValueError) as error:
            raise InputError(f"features must return numbers, received {first_line(error)}: return (N, k)") from error
        if found.ndim not in (1, 2) or not found.size or len(found) != len(rows) or not np.isfinite(found).all():
            raise InputError(
                f"features must return one finite row for each of {len(rows)} observations, received shape "
                f"{found.shape}: take observations (N, ...) and return (N, k)"
            )
        return found.reshape(len(rows), -1)

    return columns


def _half(episode: Ints) -> NDArray[np.bool_]:
    """Return the rows of every other episode."""
    names, number = np.unique(episode, return_inverse=True)
    if len(names) < 2:
        raise InputError(
            "episode must tell at least two episodes apart for continuous observations, as one half is fitted and the "
            "other judges, received 1: record more episodes, or pass key= to make the states discrete"
        )
    return np.asarray(number % 2 == 1)


def _some(rows: Ints, rng: np.random.Generator) -> Ints:
    return rows if len(rows) <= MOST_ROWS else np.sort(rng.choice(rows, MOST_ROWS, replace=False))


def _ridge(design: Floats, term: Floats, chosen: NDArray[np.bool_] | None) -> tuple[Floats, float]:
    """Return the weights, and the error on the ``chosen`` rows, by which their smallness is chosen."""
    scale = np.sqrt((design**2).mean(axis=0))
    design = design / np.where(scale > 0, scale, 1.0)
    if chosen is None:
        chosen = np.arange(len(term)) % 2 == 1
    fitted = ~chosen
    size, turn = np.linalg.eigh(design[fitted].T @ design[fitted] / fitted.sum())
    goal = turn.T @ (design[fitted].T @ term[fitted]) / fitted.sum()
    turned = design[chosen] @ turn
    errors = [float(((term[chosen] - turned @ (goal / (np.maximum(size, 0) + ridge))) ** 2).sum()) for ridge in RIDGES]
    best = int(np.argmin(errors))
    gram = design.T @ design / len(term)
    gram[np.diag_indices_from(gram)] += RIDGES[best]
    weights = np.linalg.solve(gram, design.T @ term / len(term))
    return np.asarray(weights / np.where(scale > 0, scale, 1.0)), errors[best]


def _by_episode(values: Floats, episode: Ints) -> Floats:
    return np.asarray(np.bincount(np.unique(episode, return_inverse=True)[1] % GROUPS, values), np.float64)


def _is_better(gains: Floats, chance: float, rng: np.random.Generator) -> bool:
    """Tell whether gains are positive beyond chance: who gains in an episode is exchanged at random."""
    total = float(gains.sum())
    if total <= 0:
        return False
    signs = rng.integers(0, 2, (FLIPS, len(gains)), dtype=np.int8) * 2 - 1
    return bool((1 + (signs @ gains >= total).sum()) / (1 + FLIPS) <= chance)
