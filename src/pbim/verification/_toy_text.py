"""Reading Gymnasium's toy-text tables ``P[state][action] = [(probability, next state, reward, terminated), ...]``."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from pbim._arrays import Values
from pbim.errors import InputError, InputTypeError
from pbim.verification.numbers import Number, exactly

LARGEST_DENOMINATOR = 1000
ROUNDING = 1e-12


def read(env: Any, initial: Any) -> dict[str, Any]:
    """Return the arguments of ``FiniteMDP`` that a toy-text environment or table says."""
    table = _table(env)
    start = _distribution(env, initial, len(table))
    copies = _ending_copies(table, set(np.flatnonzero(start).tolist()))
    total = len(table) + len(copies)
    shape = (total, len(table[0]), total)
    chance, earned = np.zeros(shape, dtype=object), np.zeros(shape, dtype=object)
    terminal = np.zeros(total, dtype=bool)
    for state, actions in table.items():
        for action, outcomes in actions.items():
            for probability, arrived, reward, ended in outcomes:
                probability = _short_fraction(probability)
                target = copies.get(int(arrived), int(arrived)) if ended else int(arrived)
                terminal[target] |= bool(ended)
                chance[state, action, target] += probability
                earned[state, action, target] += probability * _short_fraction(reward)
    possible = chance != 0
    earned[possible] = earned[possible] / chance[possible]  # the mean reward of outcomes that share a target
    return {
        "transition": _plain(chance),
        "reward": _plain(earned),
        "initial": np.concatenate([start, np.zeros(len(copies), dtype=object)]),
        "terminal": terminal,
    }


def _table(env: Any) -> dict[int, dict[int, list[tuple[Number, int, Number, bool]]]]:
    table = env if isinstance(env, Mapping) else getattr(getattr(env, "unwrapped", env), "P", None)
    if not isinstance(table, Mapping):
        raise InputTypeError(
            f"env must be a Gymnasium toy-text environment or its table P, received {type(env).__name__}: "
            "only environments with a table P[state][action] can be enumerated"
        )
    sizes = {len(actions) for actions in table.values()}
    if sorted(table) != list(range(len(table))) or len(sizes) != 1:
        raise InputError("P must number its states 0, 1, ... and give each the same actions: complete the table")
    return {int(state): {int(a): list(outcomes) for a, outcomes in table[state].items()} for state in table}


def _ending_copies(table: Mapping[int, Mapping[int, Any]], starts: set[int]) -> dict[int, int]:
    """Return a new number for every state that some arrivals end in, and that episodes also start in or pass."""
    outcomes = [
        (state, int(arrived), bool(ended))
        for state, actions in table.items()
        for rows in actions.values()
        for _, arrived, _, ended in rows
    ]
    ending = {arrived for _, arrived, ended in outcomes if ended}
    passing = {
        arrived for state, arrived, ended in outcomes if not ended and not (state == arrived and state in ending)
    }
    return {state: len(table) + number for number, state in enumerate(sorted(ending & (passing | starts)))}


def _distribution(env: Any, initial: Any, states: int) -> Values:
    if initial is None:
        initial = getattr(getattr(env, "unwrapped", env), "initial_state_distrib", None)
        if initial is None:
            raise InputError("initial must be given, received None: a bare table does not say where episodes start")
    start = np.zeros(states, dtype=object)
    if isinstance(initial, int | np.integer):
        initial = {int(initial): 1}
    pairs = initial.items() if isinstance(initial, Mapping) else enumerate(np.asarray(initial).tolist())
    for state, probability in pairs:
        if not 0 <= state < states:
            raise InputError(f"initial must name states below {states}, received {state}: correct it")
        start[state] = _short_fraction(probability)
    return start


def _short_fraction(value: Number) -> Number:
    """Read 0.333... as 1/3: the nearest short fraction when the float is its rounding, else the float itself."""
    known = exactly(value)
    if known is not None:
        return known
    near = Fraction(float(value)).limit_denominator(LARGEST_DENOMINATOR)
    return near if abs(float(near) - float(value)) <= ROUNDING else float(value)


def _plain(numbers: Values) -> Values:
    """Return floats where they say the same as the objects (large tables are checked faster so)."""
    as_floats = numbers.astype(float)
    occurring = numbers[numbers != 0]
    same = all(exactly(float(value)) == value for value in set(occurring.tolist()))
    return as_floats if same else numbers
