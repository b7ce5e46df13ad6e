"""Breaking one line of the ledger must be seen by the laws: every mutant of its source fails, itself it passes."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import pbim
import pbim.shaping._bounded as bounded_module
import pbim.shaping._ledger as original
import pbim.shaping._mixture as mixture_module

SOURCE = Path(original.__file__).read_text()
IN_PLACE, PURE = "NumPy rows", "pure body"

MUTANTS = {
    f"{IN_PLACE}: settled with the wrong sign": (
        "np.copyto(row, -ledger, where=ended)",
        "np.copyto(row, ledger, where=ended)",
    ),
    f"{IN_PLACE}: the last raw bonus is kept (off by one at N-2)": (
        "ledger = ledger + row",
        "row += (bonuses[index] - means[index, 0]) * ended; ledger = ledger + row",
    ),
    f"{IN_PLACE}: the ledger is not grown": (
        "np.divide(ledger, gamma",
        "np.multiply(ledger, gamma",
    ),
    f"{IN_PLACE}: reset before it is settled": (
        "np.copyto(row, -ledger, where=ended)",
        "ledger = np.where(ended, 0, ledger); np.copyto(row, -ledger, where=ended)",
    ),
    f"{IN_PLACE}: float32 ledgers are never reset": ("ledger[ended] = 0", "pass"),
    f"{IN_PLACE}: the repayment is forgotten": (
        "np.subtract(earned, payment, out=row",
        "np.subtract(earned, 0, out=row",
    ),
    f"{PURE}: settled with the wrong sign": ("xp.where(ended, -ledger, paid)", "xp.where(ended, ledger, paid)"),
    f"{PURE}: the last raw bonus is kept (off by one at N-2)": (
        "xp.where(ended, -ledger, paid)",
        "xp.where(ended, paid - ledger, paid)",
    ),
    f"{PURE}: the ledger is never reset": (
        "xp.where(ended, 0, (ledger + shaped) / gamma)",
        "(ledger - shaped) / gamma",
    ),
    f"{PURE}: reset before it is settled": (
        "ledger, memory = carry\n        bonus",
        "ledger, memory = carry[0] * ~row[2], carry[1]\n        bonus",
    ),
    f"{PURE}: the ledger is not grown": ("(ledger + shaped) / gamma", "(ledger + shaped) * gamma"),
    f"{PURE}: dummy steps are paid": ("shaped, owed = xp.where(valid, shaped, 0)", "shaped, owed = shaped"),
    f"{PURE}: dummy steps move the ledger": ("xp.where(valid, owed, ledger)", "owed"),
    "GRM forgets that a new episode began": ("return entries, xp.where(ended, 0, age)", "return entries, age"),
    "GRM repays an entry as it was, not grown": ("growth[0] * entries[0] + drift", "entries[0] + drift"),
}

REPAYMENTS = {
    "Bounded counts the limit on one side only": (
        bounded_module,
        "xp.where(ledger < -limit, -limit, ledger)",
        "ledger",
    ),
    "Bounded repays all once it is above the limit": (
        bounded_module,
        "xp.where(ledger > limit, limit,",
        "xp.where(ledger > limit, 0 * limit,",
    ),
    "Bounded repays nothing within the limit": (bounded_module, "+ rate * within", ""),
    "Bounded keeps the excess": (bounded_module, "(ledger - within) + rate", "rate"),
    "Mixture forgets its weights": (mixture_module, "sum(weight * part", "sum(part"),
    "Mixture runs on with old states": (mixture_module, "tuple(new for new, _ in runs)", "state.members"),
}


def load(source: str):
    """Return the ledger module as another source says it."""
    spec = importlib.util.spec_from_loader("mutated_ledger", loader=None)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutated_ledger"] = module
    exec(compile(source, "mutated_ledger", "exec"), module.__dict__)
    return module


def laws_hold(ledger) -> bool:
    """Tell whether residuals vanish, Eq. 30 holds to the letter, and repayments are what they should be."""
    rng = np.random.default_rng(0)
    wide, ended = rng.random((60, 3)), rng.random((60, 3)) < 0.2
    valid = rng.random((60, 3)) < 0.8
    family = (
        ledger.PBIM(gamma=0.9, normalize=False),
        ledger.GRM(gamma=0.9, delay=2, normalize=False),
        ledger.Geometric(gamma=0.9, rate=0.3, normalize=False),
    )
    checks = []
    for shaping in family:
        for bonus in (wide, wide.astype(np.float32)):
            for mask in (None, valid):
                _, shaped = shaping.rollout(shaping.init(3, like=bonus), bonus, ended, valid=mask)
                tolerance = 1e-5 if bonus.dtype == np.float32 else 1e-12
                checks.append(_worst_residual(shaped, ended, mask) < tolerance)
                checks.append(_follows_definition(shaping, shaped, bonus, ended, mask))
    return all(checks)


def _worst_residual(shaped, ended, mask) -> float:
    worst = 0.0
    for env in range(shaped.shape[1]):
        total, discount = 0.0, 1.0
        for t in range(len(shaped)):
            if mask is not None and not mask[t, env]:
                total += abs(shaped[t, env])  # a dummy step must get nothing
                continue
            total, discount = total + discount * float(shaped[t, env]), discount * 0.9
            if ended[t, env]:
                worst, total, discount = max(worst, abs(total)), 0.0, 1.0
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


def test_the_source_itself_keeps_the_laws():
    assert laws_hold(load(SOURCE))


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught(name):
    line, mutated = MUTANTS[name]
    assert SOURCE.count(line) == 1, f"the line to mutate has changed: {line}"
    assert not laws_hold(load(SOURCE.replace(line, mutated)))


def repayments_hold(bounded, mixture) -> bool:
    """Tell whether Bounded repays by hand as its formula says, a mixture is what it is made of, and both cancel."""
    rng = np.random.default_rng(0)
    bonus, ended = rng.normal(0, 1, (60, 3)), rng.random((60, 3)) < 0.1
    limited = bounded.Bounded(gamma=0.9, limit=1.0, rate=0.25, normalize=False)
    members = (pbim.GRM(gamma=0.9, delay=2, normalize=False), pbim.PBIM(gamma=0.9, normalize=False))
    mixed = mixture.Mixture(members=members, weights=(0.25, 0.75))
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


def test_the_repayments_themselves_hold():
    assert repayments_hold(bounded_module, mixture_module)


@pytest.mark.parametrize("name", REPAYMENTS)
def test_every_mutant_of_a_repayment_is_caught(name):
    module, line, mutated = REPAYMENTS[name]
    source = Path(module.__file__).read_text()
    assert source.count(line) == 1, f"the line to mutate has changed: {line}"
    broken = load(source.replace(line, mutated))
    held = {bounded_module: bounded_module, mixture_module: mixture_module} | {module: broken}
    assert not repayments_hold(held[bounded_module], held[mixture_module])
