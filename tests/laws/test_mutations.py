"""Breaking one line of the ledger must be seen by the laws: every mutant of its source fails, itself it passes."""

import importlib
import itertools
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import pbim.shaping as original

HOME = Path(original.__file__).parent
WAYS = {"in place": np.asarray, "pure": torch.asarray}
"""NumPy's arrays are settled in place, tensors beside what NumPy cannot view by the pure body, as JAX's arrays are."""

MUTANTS = {
    "settled with the wrong sign": ("_ledger", "put(shaped, ended, -ledger)", "put(shaped, ended, ledger)"),
    "the last raw bonus is kept (off by one at N-2)": (
        "_ledger",
        "put(shaped, ended, -ledger)",
        "put(shaped, ended, shaped - ledger)",
    ),
    "the ledger is not grown": ("_ledger", "new_ledger /= gamma", "new_ledger *= gamma"),
    "what was paid is not owed": ("_ledger", "new_ledger = ledger + shaped", "new_ledger = ledger + 0 * shaped"),
    "reset before it is settled": (
        "_ledger",
        "        shaped, new_memory = entry, memory\n",
        "        shaped, new_memory, ledger = entry, memory, ledger * ~ended\n",
    ),
    "float32 ledgers are never reset": (
        "_ledger",
        "new_ledger = arithmetic.clear(new_ledger, ended)",
        "pass",
    ),
    "the repayment is forgotten": ("_ledger", "shaped = subtract(entry, payment)", "pass"),
    "what is owed is not what was emitted": ("_ledger", "shaped = arithmetic.emit(shaped)", "arithmetic.emit(shaped)"),
    "dummy steps are paid": ("_ledger", "arithmetic.clear(shaped, skipped)", "shaped"),
    "dummy steps move the ledger": ("_ledger", "put(new_ledger, skipped, ledger)", "new_ledger"),
    "dummy steps move the memory": ("_ledger", "where(skipped, old, new)", "new"),
    "GRM forgets that a new episode began": ("_grm", "arithmetic.clear(age, ended)", "age"),
    "GRM repays an entry as it was, not grown": ("_grm", "growths[:1] * entries[0]", "entries[0]"),
    "GRM repays entries before they are due": ("_grm", "arithmetic.clear(payment, age < delay)", "payment"),
}

MUTANTS_IN_PLACE = {
    "NumPy pushes where nobody looks": ("_arithmetic", "self._history[end] = entry", "pass"),
    "NumPy starts its history with nothing": (
        "_arithmetic",
        "self._history[:size] = entries",
        "self._history[:size] = 0",
    ),
    "NumPy does not write where it should": ("_arithmetic", "np.copyto(array, values, where=where)", "pass"),
}

REPAYMENTS = {
    "Bounded counts the limit on one side only": (
        "_bounded",
        "xp.where(ledger < -limit, -limit, ledger)",
        "ledger",
    ),
    "Bounded repays all once it is above the limit": (
        "_bounded",
        "xp.where(ledger > limit, limit,",
        "xp.where(ledger > limit, 0 * limit,",
    ),
    "Bounded repays nothing within the limit": ("_bounded", "+ rate * within", ""),
    "Bounded keeps the excess": ("_bounded", "(ledger - within) + rate", "rate"),
    "Mixture forgets its weights": ("_mixture", "sum(weight * part", "sum(part"),
    "Mixture runs on with old states": ("_mixture", "tuple(new for new, _ in runs)", "state.members"),
}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that copies the package of conversions, changes one line of one module and imports it."""
    numbers = itertools.count()

    def load(module="", line="", mutated=""):
        name = f"mutant_{tmp_path.name}_{next(numbers)}"
        shutil.copytree(HOME, tmp_path / name)
        for path in (tmp_path / name).glob("*.py"):
            source = path.read_text()
            if path.stem == module:
                assert source.count(line) == 1, f"the line to mutate has changed: {line}"
                source = source.replace(line, mutated)
            path.write_text(source.replace("pbim.shaping", name))
        monkeypatch.syspath_prepend(tmp_path)
        try:
            return importlib.import_module(name)
        finally:
            for found in [key for key in sys.modules if key.startswith(name)]:
                del sys.modules[found]

    return load


def laws_hold(package, way) -> bool:
    """Tell whether residuals vanish, Eq. 30 holds to the letter, and repayments are what they should be."""
    rng = np.random.default_rng(0)
    wide, ended = rng.random((60, 3)), rng.random((60, 3)) < 0.2
    valid = rng.random((60, 3)) < 0.8
    family = (
        package.PBIM(gamma=0.9, normalize=False),
        package.GRM(gamma=0.9, delay=2, normalize=False),
        package.Geometric(gamma=0.9, rate=0.3, normalize=False),
    )
    for shaping in family:
        for bonus in (wide, wide.astype(np.float32)):
            for mask in (None, valid):
                given = WAYS[way](bonus.copy())
                ends, counts = _like(given, ended), None if mask is None else _like(given, mask)
                _, shaped = shaping.rollout(shaping.init(3, like=given), given, ends, valid=counts)
                shaped = shaped if way == "in place" else shaped.numpy()
                if shaped.dtype != bonus.dtype or _worst_residual(shaped, ended, mask) > 1e-12:
                    return False
                if not _follows_definition(shaping, shaped, bonus, ended, mask):
                    return False
    return True


def _like(array, flags):
    return flags if isinstance(array, np.ndarray) else torch.asarray(flags).to(torch.bfloat16)


def _worst_residual(shaped, ended, mask) -> float:
    """Return the largest residual beyond the rounding of the last reward, which nothing can repay."""
    worst = 0.0
    for env in range(shaped.shape[1]):
        total, discount = 0.0, 1.0
        for t in range(len(shaped)):
            reward = float(shaped[t, env])
            if mask is not None and not mask[t, env]:
                total += abs(reward)  # a dummy step must get nothing
                continue
            total += discount * reward
            if ended[t, env]:
                rounding = np.finfo(shaped.dtype).eps / 2 * abs(discount * reward)
                worst, total, discount = max(worst, abs(total) - rounding), 0.0, 1.0
            else:
                discount *= 0.9
    return worst


def _follows_definition(shaping, shaped, bonus, ended, mask) -> bool:
    for env in range(shaped.shape[1]):
        rows = [t for t in range(len(shaped)) if mask is None or mask[t, env]]
        start = 0
        for index, t in enumerate(rows):
            past = [float(shaped[n, env]) for n in rows[start:index]]
            owed = sum(0.9 ** (n - len(past)) * value for n, value in enumerate(past))
            expected = float(bonus[t, env])
            if hasattr(shaping, "rate"):
                expected -= 0.3 * owed
            if hasattr(shaping, "delay") and len(past) >= 2:
                expected -= 0.9**-2 * float(bonus[rows[index - 2], env])
            if ended[t, env]:
                expected, start = -owed, index + 1
            one_step = not past and ended[t, env]
            if abs(float(shaped[t, env]) - expected) > (0 if one_step else 1e-3):
                return False
    return True


@pytest.mark.parametrize("way", WAYS)
def test_the_source_itself_keeps_the_laws(load, way):
    assert laws_hold(load(), way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught_in_every_way_of_computing(load, name, way):
    assert not laws_hold(load(*MUTANTS[name]), way)


@pytest.mark.parametrize("name", MUTANTS_IN_PLACE)
def test_every_mutant_of_what_is_done_in_place_is_caught(load, name):
    assert not laws_hold(load(*MUTANTS_IN_PLACE[name]), "in place")


def repayments_hold(package) -> bool:
    """Tell whether Bounded repays by hand as its formula says, a mixture is what it is made of, and both cancel."""
    rng = np.random.default_rng(0)
    bonus, ended = rng.normal(0, 1, (60, 3)), rng.random((60, 3)) < 0.1
    limited = package.Bounded(gamma=0.9, limit=1.0, rate=0.25, normalize=False)
    members = (package.GRM(gamma=0.9, delay=2, normalize=False), package.PBIM(gamma=0.9, normalize=False))
    mixed = package.Mixture(members=members, weights=(0.25, 0.75))
    parts = [each.rollout(each.init(3), bonus, ended)[1] for each in members]
    expected = {limited: _bounded_by_hand(bonus, ended), mixed: 0.25 * parts[0] + 0.75 * parts[1]}
    checks = []
    for shaping, values in expected.items():
        state, rows = shaping.init(3), []
        for row, end in zip(bonus, ended, strict=True):
            state, shaped = shaping.step(state, row, end)
            rows.append(shaped)
        checks += [np.allclose(rows, values), _worst_residual(np.array(rows), ended, None) < 1e-12]
    return all(checks)


def _bounded_by_hand(bonus, ended):
    shaped = np.zeros_like(bonus)
    for env in range(bonus.shape[1]):
        owed = 0.0
        for t, value in enumerate(bonus[:, env]):
            within = min(max(owed, -1.0), 1.0)
            shaped[t, env] = -owed if ended[t, env] else value - (owed - 0.75 * within)
            owed = (owed + shaped[t, env]) / 0.9
    return shaped


def test_the_repayments_themselves_hold(load):
    assert repayments_hold(load())


@pytest.mark.parametrize("name", REPAYMENTS)
def test_every_mutant_of_a_repayment_is_caught(load, name):
    assert not repayments_hold(load(*REPAYMENTS[name]))
