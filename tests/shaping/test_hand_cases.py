"""Small cases worked out by hand from the papers' equations."""

from fractions import Fraction
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import pbim
import streams as s
from pbim import shaping as sh

HALF = Fraction(1, 2)


def one_episode(conversion, *bonus):
    """Shaping rewards of one exact episode."""
    rows = np.array([[Fraction(value)] for value in bonus], dtype=object)
    ended = np.arange(len(bonus))[:, None] == len(bonus) - 1
    return conversion.rollout(conversion.init(1, like=rows), rows, ended)[1][:, 0].tolist()


def test_equation_30():
    """F'_2 = -(gamma^-2 F_0 + gamma^-1 F_1) = -(4 * 1 + 2 * 3); the last raw bonus, 5, is dropped."""
    assert one_episode(pbim.PBIM(gamma=HALF, normalize=False), 1, 3, 5) == [1, 3, -10]


def test_equation_34_sums_what_was_emitted_while_the_mean_moves():
    """Means before each step: 0, 1, 2; so F' = 1, 3 - 1, and -(4 * 1 + 2 * 2)."""
    assert one_episode(pbim.PBIM(gamma=HALF), 1, 3, 5) == [1, 2, -8]


def test_grm_repays_every_entry_after_its_delay():
    """Delay 2 at gamma 1/2: the entry of step 0 comes back fourfold at step 2; step 3 settles the rest."""
    shaped = one_episode(pbim.GRM(gamma=HALF, delay=2, normalize=False), 1, 3, 5, 7)
    assert shaped == [1, 3, 5 - 4, -(8 * 1 + 4 * 3 + 2 * 1)]


def test_geometric_repays_a_share_of_the_ledger():
    """L_1 = 2, so F'_1 = 3 - 2/2 = 2; L_2 = (2 + 2) * 2 = 8, so F'_2 = 5 - 4; L_3 = (8 + 1) * 2 settles."""
    assert one_episode(pbim.Geometric(gamma=HALF, rate=HALF, normalize=False), 1, 3, 5, 7) == [1, 2, 1, -18]


def test_bounded_repays_what_is_owed_above_its_limit():
    """L_1 = 2, within 7; L_2 = (2 + 3) * 2 = 10, 3 too many; L_3 = (10 + 5 - 3) * 2 = 24 settles."""
    assert one_episode(pbim.Bounded(gamma=HALF, limit=7, normalize=False), 1, 3, 5, 7) == [1, 3, 2, -24]


def test_bounded_owes_in_both_directions_and_repays_a_share_within_the_limit():
    """L_1 = -2, all within 2, half repaid: F'_1 = -3 + 1; L_2 = -8: 6 above and half of 2 come back; L_3 = -12."""
    shaped = one_episode(pbim.Bounded(gamma=HALF, limit=2, rate=HALF, normalize=False), -1, -3, -5, 7)
    assert shaped == [-1, -2, -5 + 6 + 1, 12]


def test_a_mixture_adds_its_members_by_weight():
    """A quarter of [1, 3, -10] and three quarters of [1, 3 - 2, -(2 * (2 + 1))]."""
    members = (pbim.PBIM(gamma=HALF, normalize=False), pbim.GRM(gamma=HALF, delay=1, normalize=False))
    mixture = pbim.Mixture(members=members, weights=(Fraction(1, 4), Fraction(3, 4)))
    assert one_episode(mixture, 1, 3, 5) == [1, Fraction(3, 2), -7]


@pytest.mark.parametrize(
    ("discount", "last"),
    [
        ("start", -(1 * 1 + HALF * 3)),  # gamma^0 F_0 + gamma^1 F_1
        ("end", -(HALF**2 * 1 + HALF * 3)),  # gamma^2 F_0 + gamma^1 F_1
        ("none", -(1 + 3)),
    ],
)
def test_an_inexact_last_step_subtracts_what_its_reading_says(discount, last):
    """An episode of three steps and the two after it, exactly and in every library; the last raw bonus is dropped."""
    conversion = sh.InexactPBIM(gamma=HALF, discount=discount, normalize=False)
    assert one_episode(conversion, 1, 3, 5) == [1, 3, last]
    assert one_episode(conversion, 7) == [0]
    bonus, ended = np.array([[1], [3], [5], [3], [5]], np.float32), np.array([[0], [0], [1], [0], [1]], bool)
    second = {"start": -3, "end": -1.5, "none": -3}[discount]  # the next episode starts at gamma^0 again
    for library in s.LIBRARIES:
        rounded = sh.InexactPBIM(gamma=0.5, discount=discount, normalize=False)
        for cuts in ((), (1, 2, 4)):
            shaped = s.convert(rounded, s.Stream(bonus, ended), cuts, library)
            assert shaped[:, 0].tolist() == [1, 3, last, 3, second], library
    residual = pbim.residuals(np.array([1, 3, float(last)]), np.array([False, False, True]), 0.5)
    assert residual == 1 + 1.5 + float(last) / 4
    assert residual > 0


def test_an_inexact_last_step_is_centred_as_pbim_is():
    """Means before each step: 0, 1, 2; so F' = 1, 3 - 1, and -(1 * 1 + 1/2 * 2)."""
    assert one_episode(sh.InexactPBIM(gamma=HALF, discount="start"), 1, 3, 5) == [1, 2, -2]


def test_gamma_one_pays_back_the_plain_sum():
    assert one_episode(pbim.PBIM(gamma=1, normalize=False), 1, 3, 5) == [1, 3, -4]


def test_an_episode_of_one_step_gets_nothing():
    for conversion in (pbim.PBIM(gamma=HALF), pbim.GRM(gamma=HALF), pbim.Geometric(gamma=HALF, rate=HALF)):
        assert one_episode(conversion, 7) == [0]


def test_a_rollout_cut_in_the_middle_of_an_episode_carries_the_ledger():
    conversion = pbim.PBIM(gamma=0.5, normalize=False)
    state, first = conversion.rollout(conversion.init(1), np.array([[1.0], [3.0]]), np.zeros((2, 1), bool))
    assert state.ledger == [10.0]
    _, second = conversion.rollout(state, np.array([[5.0]]), np.array([[True]]))
    assert [*first[:, 0], *second[:, 0]] == [1.0, 3.0, -10.0]


def test_two_settings_of_the_paper_repay_what_the_design_says():
    assert round(pbim.PBIM(gamma=0.995).growth(640)) == 25
    assert round(pbim.PBIM(gamma=0.99).growth(640)) == 615
    assert f"{pbim.PBIM(gamma=0.99).growth(4500):.1e}" == "4.3e+19"


@pytest.mark.parametrize("library", s.LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rewards_keep_their_dtype_and_ledgers_are_wide(library, dtype):
    bonus = s.LIBRARIES[library](np.ones((4, 3), dtype))
    conversion = pbim.GRM(gamma=0.9, delay=2)
    state, shaped = conversion.rollout(conversion.init(3, like=bonus), bonus, bonus < 0)
    assert shaped.dtype == bonus.dtype
    assert str(state.ledger.dtype).endswith("float32" if library == "jax" else "float64")
    assert type(shaped) is type(bonus)


def test_jax_ledgers_are_wide_when_x64_is_enabled():
    home = jax if hasattr(jax, "enable_x64") else import_module("jax.experimental")  # its older place
    wide = home.enable_x64
    with wide(True):
        bonus = jnp.ones((4, 3), jnp.float32)
        conversion = pbim.PBIM(gamma=0.9)
        state, shaped = jax.jit(conversion.rollout)(conversion.init(3, like=bonus), bonus, bonus < 0)
        assert (state.ledger.dtype, shaped.dtype) == (jnp.float64, jnp.float32)


def test_a_float32_stream_cancels_to_the_rounding_of_its_last_reward():
    """The ledger owes what was emitted, so 640 rounded rewards leave no more error than one."""
    rng = np.random.default_rng(0)
    bonus, ended = rng.random((640, 64), np.float32), np.arange(640)[:, None].repeat(64, 1) == 639
    for conversion in (pbim.PBIM(gamma=0.99), pbim.Geometric(gamma=0.99, rate=0.05), pbim.GRM(gamma=0.99, delay=16)):
        _, shaped = conversion.rollout(conversion.init(64, like=bonus), bonus, ended)
        last = 0.99**639 * np.abs(shaped[-1].astype(float))
        assert (np.abs(pbim.residuals(shaped, ended, 0.99)) <= 2**-24 * last + 1e-13).all()


@pytest.mark.parametrize("library", s.LIBRARIES)
def test_flags_may_be_the_zeros_and_ones_of_cleanrl(library):
    to = s.LIBRARIES[library]
    bonus, done = np.ones((3, 2), np.float32), np.array([[0, 1], [1, 0], [0, 1]], np.float32)
    conversion = pbim.PBIM(gamma=0.5)
    state = conversion.init(2, like=to(bonus))
    numbers = conversion.rollout(state, to(bonus), to(done))[1]
    flags = conversion.rollout(state, to(bonus), to(done > 0))[1]
    np.testing.assert_array_equal(np.asarray(numbers), np.asarray(flags))


def test_thousands_of_environments_are_as_right_as_one():
    rng = np.random.default_rng(1)
    bonus, ended = rng.random((40, 5000)), rng.random((40, 5000)) < 0.1
    conversion = pbim.Geometric(gamma=0.99, rate=0.1, normalize=False)
    _, together = conversion.rollout(conversion.init(5000), bonus, ended)
    for env in (0, 1234, 4999):
        _, alone = conversion.rollout(conversion.init(1), bonus[:, [env]], ended[:, [env]])
        np.testing.assert_array_equal(together[:, [env]], alone)


def test_tensors_that_need_gradients_or_half_precision_work_too():
    conversion = pbim.Geometric(gamma=0.9, rate=0.2)
    bonus, ended = torch.rand(6, 2), torch.zeros(6, 2, dtype=torch.bool)
    plain = conversion.rollout(conversion.init(2, like=bonus), bonus, ended)[1]
    tracked = bonus.clone().requires_grad_()
    torch.testing.assert_close(conversion.rollout(conversion.init(2, like=bonus), tracked, ended)[1], plain)
    half = conversion.rollout(conversion.init(2, like=bonus.bfloat16()), bonus.bfloat16(), ended)[1]
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), plain, atol=0.1, rtol=0.1)


def test_integer_bonuses_are_counted_as_floats():
    conversion = pbim.PBIM(gamma=0.5, normalize=False)
    shaped = conversion.rollout(conversion.init(1), np.array([[1], [3], [5]]), np.array([[False], [False], [True]]))[1]
    assert shaped[:, 0].tolist() == [1.0, 3.0, -10.0]


def test_an_empty_rollout_changes_nothing():
    conversion = pbim.PBIM(gamma=0.5)
    state = conversion.init(2)
    after, shaped = conversion.rollout(state, np.zeros((0, 2)), np.zeros((0, 2), bool))
    assert shaped.shape == (0, 2)
    assert after == state


def test_centring_by_the_previous_rollout_uses_the_mean_over_all_workers():
    """Blocks of two vector steps with means 2 and 5: the second block is centred by 2, the third by 5."""
    conversion = pbim.PBIM(gamma=1.0, normalize=sh.PreviousRollout(steps=2))
    bonus = np.array([[1.0, 3.0], [2.0, 2.0], [4.0, 6.0], [5.0, 5.0], [9.0, 9.0]])
    shaped = conversion.rollout(conversion.init(2), bonus, np.zeros((5, 2), bool))[1]
    np.testing.assert_allclose(shaped, bonus - np.array([0, 0, 2, 2, 5])[:, None])


def test_equal_fractions_and_floats_are_told_apart():
    """Fraction(1, 2) == 0.5, and both hash alike: nothing may be cached across them."""
    floats, flags = np.array([[1.0], [3.0], [5.0]]), np.array([[False], [False], [True]])
    valid = np.ones((3, 1), bool)
    exact = np.array([[Fraction(1)], [Fraction(3)], [Fraction(5)]], dtype=object)
    for make in (
        lambda half: pbim.Geometric(gamma=half, rate=half, normalize=False),
        lambda half: pbim.PBRS(gamma=half),
    ):
        for half, bonus, kind in ((0.5, floats, np.float64), (HALF, exact, Fraction), (0.5, floats, np.float64)):
            shaping = make(half)
            shaped = shaping.rollout(shaping.init(1, like=bonus), bonus, flags, valid=valid)[1]
            assert all(isinstance(value, kind) for value in shaped[:2, 0])
            assert isinstance(pbim.residuals(shaped, flags, half)[0], kind)


def test_whole_numbers_stay_exact_and_memories_stay_fractions():
    """Integers divided by an integer gamma must not turn into floats, nor must a custom memory after an end."""
    bonus, ended = np.array([[1], [2], [1], [2]], dtype=object), np.array([[False], [True], [False], [True]])
    family = (
        pbim.PBIM(gamma=1, normalize=False),
        pbim.Custom(gamma=1, normalize=False, repay=s.every_other_step, recall=s.counter),
    )
    for conversion in family:
        _, shaped = conversion.rollout(conversion.init(1, like=bonus), bonus, ended)
        assert not any(isinstance(value, float) for value in shaped[:, 0])
        assert pbim.residuals(shaped, ended, 1).tolist() == [0, 0]
    assert pbim.Raw().step(pbim.Raw().init(1, like=bonus), bonus[0], ended[0])[1].tolist() == [1]
