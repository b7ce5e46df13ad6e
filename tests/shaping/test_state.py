"""State is explicit: it can be saved, moved between libraries, and refused when it does not fit."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import pbim
import streams as s
from pbim import shaping as sh
from pbim.config import components

KINDS = [
    pbim.PBIM(gamma=0.9),
    pbim.PBIM(gamma=0.9, normalize=sh.PreviousRollout(steps=3)),
    pbim.GRM(gamma=0.9, delay=3),
    pbim.Geometric(gamma=0.9, rate=0.1, normalize=sh.ExponentialMean(rate=0.2)),
    pbim.Bounded(gamma=0.9, limit=0.5),
    pbim.Mixture(members=(pbim.GRM(gamma=0.9, delay=3), pbim.Geometric(gamma=0.9, rate=0.1))),
    pbim.Custom(gamma=0.9, repay=s.every_other_step, recall=s.counter),
    sh.InexactPBIM(gamma=0.9, discount="start"),
    pbim.Raw(),
    pbim.NoBonus(),
    pbim.PIES(decay_steps=20),
    pbim.PBRS(gamma=0.9),
    pbim.LookAhead(gamma=0.9),
    pbim.LookBack(gamma=0.9),
]


@pytest.mark.parametrize("library", s.LIBRARIES)
@pytest.mark.parametrize("conversion", KINDS, ids=lambda kind: type(kind).__name__)
def test_a_saved_state_goes_on_as_if_nothing_had_happened(tmp_path, library, conversion):
    to, rng = s.LIBRARIES[library], np.random.default_rng(0)
    bonus, ended = to(rng.random((12, 3), np.float32)), to(rng.random((12, 3)) < 0.2)
    state, _ = conversion.rollout(conversion.init(3, like=bonus), bonus[:7], ended[:7])
    sh.save_state(tmp_path / "state.npz", conversion, state)
    loaded = sh.load_state(tmp_path / "state.npz", conversion, like=conversion.init(3, like=bonus))
    straight, resumed = (conversion.rollout(each, bonus[7:], ended[7:])[1] for each in (state, loaded))
    np.testing.assert_array_equal(np.asarray(straight), np.asarray(resumed))
    assert [path.name for path in tmp_path.iterdir()] == ["state.npz"]


def test_a_state_saved_from_torch_goes_on_in_jax(tmp_path):
    conversion, bonus = pbim.GRM(gamma=0.9, delay=2), np.random.default_rng(0).random((8, 2), np.float32)
    ended = np.zeros((8, 2), bool)
    to = s.LIBRARIES["torch"]
    state, _ = conversion.rollout(conversion.init(2, like=to(bonus)), to(bonus[:5]), to(ended[:5]))
    sh.save_state(tmp_path / "state.npz", conversion, state)
    loaded = sh.load_state(tmp_path / "state.npz", conversion, like=conversion.init(2, like=jnp.asarray(bonus)))
    after = conversion.rollout(loaded, jnp.asarray(bonus[5:]), jnp.asarray(ended[5:]))[1]
    np.testing.assert_allclose(after, s.convert(conversion, s.Stream(bonus, ended))[5:], rtol=1e-5)


def test_a_custom_state_is_known_again_by_the_name_of_its_function(tmp_path):
    first, path = pbim.Custom(gamma=0.9, repay=s.every_other_step, recall=s.counter), tmp_path / "state.npz"
    sh.save_state(path, first, first.init(2))
    assert b"0x" not in path.read_bytes()
    with pytest.raises(pbim.InputError, match="was saved by"):
        sh.load_state(path, other := pbim.Custom(gamma=0.9, repay=lambda m, x, _: (m, x)), like=other.init(2))


def test_what_does_not_fit_is_refused_in_one_sentence(tmp_path):
    conversion, path = pbim.PBIM(gamma=0.9), tmp_path / "state.npz"
    sh.save_state(path, conversion, conversion.init(3))
    with pytest.raises(pbim.InputError, match=r"was saved by PBIM\(gamma=0.9.*not by PBIM\(gamma=0.8"):
        sh.load_state(path, other := pbim.PBIM(gamma=0.8), like=other.init(3))
    with pytest.raises(pbim.InputError, match=r"ledger must have shape \(4,\), the saved one has \(3,\)"):
        sh.load_state(path, conversion, like=conversion.init(4))
    with pytest.raises(pbim.InputError, match="there is no such file"):
        sh.load_state(tmp_path / "nothing.npz", conversion, like=conversion.init(3))
    with pytest.raises(pbim.InputError, match="the saved state has no ledger"):
        sh.load_arrays(conversion.init(3), {"mean": np.zeros(())})


@pytest.mark.parametrize("damage", [lambda raw: raw[: len(raw) // 2], lambda raw: raw[::-1], lambda raw: raw[:0]])
def test_a_damaged_file_is_named_and_nothing_is_lost(tmp_path, damage):
    conversion, path = pbim.PBIM(gamma=0.9), tmp_path / "state.npz"
    sh.save_state(path, conversion, conversion.init(3))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(pbim.InputError, match=r"state\.npz.*cannot be read.*earlier checkpoint"):
        sh.load_state(path, conversion, like=conversion.init(3))


def test_a_failed_save_keeps_the_old_file(tmp_path):
    conversion, path = pbim.PBIM(gamma=0.9), tmp_path / "state.npz"
    sh.save_state(path, conversion, conversion.init(3))
    before = path.read_bytes()
    exact = np.array([1], dtype=object)
    with pytest.raises(pbim.InputError, match="exact numbers cannot be saved"):
        sh.save_state(path, conversion, conversion.init(3, like=exact))
    assert path.read_bytes() == before


def test_a_file_with_code_in_it_is_not_run(tmp_path):
    path = tmp_path / "state.npz"
    np.savez(path, ledger=np.array([print], dtype=object), allow_pickle=True)
    conversion = pbim.PBIM(gamma=0.9)
    with pytest.raises(pbim.InputError, match="cannot be read"):
        sh.load_state(path, conversion, like=conversion.init(1))


def test_every_conversion_says_what_it_guarantees():
    for kind in (cls for cls in components("shaping") if issubclass(cls, sh.Shaping)):
        assert kind.guarantee.assumption
        assert kind.guarantee.reference
        assert kind.summary
    assert pbim.PBIM.guarantee.level is sh.Level.EXACT
    assert pbim.PIES.guarantee.level is sh.Level.LIMIT
    assert pbim.Raw.guarantee.level is sh.Level.NONE
    assert "exact for every trajectory" in str(pbim.GRM.guarantee)


def test_frozen_fixes_the_mean_and_nothing_else():
    assert pbim.PBIM(gamma=0.9).frozen(2).normalize == sh.FixedMean(mean=2)
    assert pbim.PBIM(gamma=0.9, normalize=False).frozen(2).normalize == sh.FixedMean(mean=0)
    assert pbim.PBIM(gamma=0.9, normalize=sh.FixedMean(mean=3)).frozen(2).normalize == sh.FixedMean(mean=3)
    assert pbim.GRM(gamma=0.9, delay=3).frozen(1).delay == 3
    mixture = pbim.Mixture(members=(pbim.PBIM(gamma=0.9), pbim.Bounded(gamma=0.9)), weights=(0.25, 0.75))
    assert [each.normalize for each in mixture.frozen(2).members] == [sh.FixedMean(mean=2)] * 2
    assert mixture.frozen(2).weights == (0.25, 0.75)
    assert pbim.PIES(decay_steps=5).frozen() == pbim.Raw(scale=1)
    assert pbim.PBRS(gamma=0.9).frozen(1) == pbim.PBRS(gamma=0.9)


@pytest.mark.parametrize(
    "conversion", [pbim.PBIM(gamma=0.9), pbim.GRM(gamma=0.9), pbim.Raw(), pbim.PIES(decay_steps=9)]
)
def test_tensors_with_and_without_gradients_may_take_turns(conversion):
    state, plain = conversion.init(2, like=torch.ones(2)), conversion.init(2, like=torch.ones(2))
    for step in range(4):
        bonus, ended = torch.tensor([1.0, 2.0 + step]), torch.tensor([step == 3.0, False], dtype=torch.bfloat16)
        plain, expected = conversion.step(plain, bonus, ended.bool())
        state, shaped = conversion.step(state, bonus.requires_grad_(step % 2 == 0), ended)
        torch.testing.assert_close(shaped.detach(), expected)
