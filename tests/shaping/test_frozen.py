"""A conversion frozen at a state pays what it would pay next from an empty ledger, and its statistics stay."""

from typing import Any

import numpy as np
import pytest

import pbim
from pbim import shaping as sh

PAIR = (pbim.PBIM(gamma=0.5), pbim.GRM(gamma=0.5, delay=2))
CONVERSIONS: dict[str, Any] = {
    "mean": pbim.PBIM(gamma=0.5),
    "exponential": pbim.GRM(gamma=0.5, normalize=sh.ExponentialMean(rate=0.3)),
    "block": pbim.Geometric(gamma=0.5, normalize=sh.PreviousRollout(steps=2)),
    "uncentred": pbim.PBIM(gamma=0.5, normalize=False),
    "mixture": pbim.Mixture(members=PAIR),
    "fading": pbim.PIES(decay_steps=40),
    "raw": pbim.Raw(scale=0.5),
    "potential": pbim.PBRS(gamma=0.5),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_frozen_pays_what_comes_next_and_then_stays(name: str) -> None:
    shaping, rng = CONVERSIONS[name], np.random.default_rng(0)
    never, everywhere = np.zeros(3, bool), np.ones(3, bool)
    state = shaping.init(3)
    for bonus in rng.random((5, 3)):
        state, _ = shaping.step(state, bonus, never)
    bonus = rng.random(3)
    _, expected = shaping.step(shaping.discard(state, everywhere), bonus, never)
    frozen = shaping.frozen_at(state)
    for _ in range(3):  # each time from an empty ledger: only statistics could make a difference
        after, shaped = frozen.step(frozen.init(3), bonus, never)
        np.testing.assert_allclose(shaped, expected, rtol=1e-14)
        assert frozen.frozen_at(after) == frozen
