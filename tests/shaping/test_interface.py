"""What every conversion carries: its discount, a label, and a way to drop episodes that nobody will end."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.sharding import Mesh, PartitionSpec

import pbim
import streams as s
from pbim import shaping as sh
from pbim.config import canonical, decode, encode, encode_short

HALF = Fraction(1, 2)
EVERY = [
    pbim.PBIM(gamma=0.5),
    pbim.PBIM(gamma=0.5, normalize=sh.PreviousRollout(steps=3)),
    pbim.GRM(gamma=0.5, delay=3),
    pbim.Geometric(gamma=0.5, rate=0.25, normalize=sh.ExponentialMean(rate=0.5)),
    pbim.Bounded(gamma=0.5, limit=0.5),
    pbim.Mixture(members=(pbim.GRM(gamma=0.5, delay=2), pbim.PBIM(gamma=0.5))),
    pbim.Custom(gamma=0.5, repay=s.every_other_step, recall=s.counter),
    pbim.Custom(gamma=0.5, repay=s.every_other_step, recall=lambda zeros: (zeros + 1,)),
    sh.InexactPBIM(gamma=0.5, discount="start"),
    sh.InexactPBIM(gamma=0.5, discount="end"),
    pbim.PBRS(gamma=0.5),
    pbim.LookAhead(gamma=0.5),
    pbim.LookBack(gamma=0.5),
    pbim.Raw(scale=2),
    pbim.NoBonus(),
    pbim.PIES(decay_steps=20),
    sh.ExpressedAdvice(gamma=0.5, num_cells=3),
]


def extra(conversion, like):
    """Return arrays for whatever a conversion takes besides bonuses."""
    return dict.fromkeys(conversion.extra, (like > 1e9) * 0)


def test_every_conversion_says_its_discount_as_it_was_given():
    for conversion in EVERY:
        assert conversion.gamma == (None if isinstance(conversion, pbim.Raw | pbim.NoBonus | pbim.PIES) else 0.5)
    assert pbim.GRM(gamma=HALF).gamma is HALF
    assert pbim.Mixture(members=(pbim.GRM(gamma=HALF), pbim.PBIM(gamma=HALF))).gamma is HALF


def test_a_conversion_of_ones_own_needs_no_gamma_and_may_not_forget_one_it_declares():
    from dataclasses import dataclass

    @dataclass(frozen=True, kw_only=True)
    class Mine(sh.Raw):
        pass

    @dataclass(frozen=True, kw_only=True)
    class Other(pbim.PBRS):
        pass

    assert Mine().gamma is None
    with pytest.raises(TypeError, match="gamma"):
        Other()
    assert (Mine().label, Other(gamma=0.9).label) == ("Raw bonus", "Other")


@pytest.mark.parametrize(
    ("conversion", "label"),
    [
        (pbim.PBIM(gamma=0.99), "PBIM"),
        (pbim.PBIM(gamma=0.99, normalize=False), "PBIM, not centred"),
        (pbim.PBIM(gamma=0.99, normalize=sh.FixedMean(mean=HALF)), "PBIM, centred by 1/2"),
        (pbim.PBIM(gamma=0.99, normalize=sh.PreviousRollout(steps=9)), "PBIM, centred by PreviousRollout(steps=9)"),
        (pbim.GRM(gamma=0.99, delay=32, max_steps=5), "GRM, delay 32"),
        (pbim.Geometric(gamma=0.99, rate=0.02), "Geometric, rate 0.02"),
        (pbim.Geometric(gamma=0.99, rate=Fraction(1, 3), normalize=False), "Geometric, rate 1/3, not centred"),
        (pbim.Bounded(gamma=0.99, limit=0.3), "Bounded, limit 0.3"),
        (sh.InexactPBIM(gamma=0.99, discount="end", normalize=False), "Inexact PBIM, discount end, not centred"),
        (pbim.Raw(), "Raw bonus"),
        (pbim.Raw(scale=0.5), "Raw bonus, scale 0.5"),
        (pbim.NoBonus(), "No bonus"),
        (pbim.PIES(decay_steps=100_000), "PIES, 100,000 steps"),
        (pbim.PBRS(gamma=0.9), "PBRS"),
        (pbim.LookAhead(gamma=0.9), "Look Ahead"),
        (sh.ExpressedAdvice(gamma=0.9, num_cells=4), "Expressed Advice, num cells 4"),
        (pbim.Custom(gamma=0.9, repay=s.every_other_step), "Custom, repay every_other_step"),
        (
            pbim.Mixture(members=(pbim.GRM(gamma=0.9, delay=8), pbim.PBIM(gamma=0.9)), weights=(0.25, 0.75)),
            "0.25 GRM, delay 8 + 0.75 PBIM",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_labels_say_what_differs_from_the_default(conversion, label):
    assert conversion.label == label


@pytest.mark.parametrize("library", [*s.LIBRARIES, "jit"])
@pytest.mark.parametrize("conversion", EVERY, ids=lambda conversion: type(conversion).__name__)
def test_a_discarded_episode_leaves_no_trace_but_in_the_statistics(conversion, library):
    """Dropping an episode is what ending it does to the state, without the settlement; the others go on."""
    to, rng = s.LIBRARIES.get(library, jnp.asarray), np.random.default_rng(0)
    discard = jax.jit(conversion.discard) if library == "jit" else conversion.discard
    bonus, dropped = rng.random((9, 4), np.float32), np.array([True, False, True, False])
    never, ends = np.zeros((9, 4), bool), np.zeros((9, 4), bool)
    ends[4] = dropped
    if isinstance(conversion, sh.ExpressedAdvice):
        ends = never  # its table outlives episodes: nothing is to be dropped
    runs = []
    for flags in (never, ends):
        state = conversion.init(4, like=to(bonus))
        for row, end in zip(bonus[:5], flags[:5], strict=True):
            state, _ = conversion.step(state, to(row), to(end), **extra(conversion, to(row)))
        state = discard(state, to(dropped)) if flags is never else state
        kwargs = extra(conversion, to(bonus[5:]))
        runs.append(np.asarray(conversion.rollout(state, to(bonus[5:]), to(never[5:]), **kwargs)[1]))
    np.testing.assert_allclose(*runs, rtol=1e-6, atol=1e-6)


FLOATS_ONLY = (pbim.PIES, sh.ExpressedAdvice, sh.ExponentialMean, sh.PreviousRollout)
EXACT = [each for each in EVERY if not isinstance(each, FLOATS_ONLY)]
EXACT = [each for each in EXACT if not isinstance(getattr(each, "normalize", None), FLOATS_ONLY)]


@pytest.mark.parametrize("conversion", EXACT, ids=lambda conversion: type(conversion).__name__)
def test_exact_states_are_discarded_exactly_and_inputs_stay(conversion):
    bonus = np.array([[HALF, HALF], [HALF, HALF]], dtype=object)
    state, _ = conversion.rollout(conversion.init(2, like=bonus), bonus, np.zeros((2, 2), bool))
    before = {name: array.copy() for name, array in sh.state_arrays(state).items()}
    after = sh.state_arrays(conversion.discard(state, np.array([True, False])))
    fresh = sh.state_arrays(conversion.init(2, like=bonus))
    for name, array in sh.state_arrays(state).items():
        np.testing.assert_array_equal(array, before[name])
        if name.split(".")[0] in conversion.shared or ".centre" in name:
            np.testing.assert_array_equal(after[name], array)
        else:
            np.testing.assert_array_equal(after[name][..., 1], array[..., 1])
            np.testing.assert_array_equal(after[name][..., 0], fresh[name][..., 0])


def test_what_cannot_be_discarded_is_refused():
    conversion = pbim.GRM(gamma=0.9, delay=2)
    state = conversion.init(3)
    with pytest.raises(pbim.InputError, match=r"where must have shape \(3,\) like the state, received \(2,\)"):
        conversion.discard(state, np.array([True, False]))
    with pytest.raises(pbim.InputError, match="one library"):
        conversion.discard(state, jnp.zeros(3, bool))
    with pytest.raises(pbim.InputError, match="booleans"):
        conversion.discard(state, np.array([0.5, 0, 0]))
    with pytest.raises(pbim.InputError, match="state must be what init"):
        conversion.discard(pbim.PBIM(gamma=0.9).init(3), np.zeros(3, bool))
    with pytest.raises(pbim.InputError, match=r"where must have shape"):
        pbim.Certificate(gamma=0.9).discard(pbim.Certificate(gamma=0.9).init(3), np.zeros(2, bool))


def test_a_field_that_all_environments_share_must_be_named():
    class Forgetful(pbim.PIES):
        shared = ()

    conversion = Forgetful(decay_steps=9)
    with pytest.raises(pbim.InputError, match=r"must end in num_envs=3, received shape \(\).*`shared`"):
        conversion.discard(conversion.init(3), np.zeros(3, bool))


@pytest.mark.parametrize("conversion", EVERY, ids=lambda conversion: type(conversion).__name__)
def test_jax_may_take_over_the_memory_of_a_state(conversion):
    """Donated twice in a row: neither a fresh nor a used state holds one array in two places."""
    bonus, never = jnp.ones((3, 2)), jnp.zeros((3, 2), bool)
    kwargs = extra(conversion, bonus)
    run = jax.jit(lambda state: conversion.rollout(state, bonus, never, **kwargs), donate_argnums=0)
    state, expected = conversion.init(2, like=bonus), conversion.init(2, like=bonus)
    for _ in range(3):
        state, shaped = run(state)
        expected, same = conversion.rollout(expected, bonus, never, **kwargs)
        np.testing.assert_allclose(shaped, same, rtol=1e-6)


@pytest.mark.parametrize("conversion", EVERY, ids=lambda conversion: type(conversion).__name__)
def test_rollouts_may_be_donated_as_methods(conversion):
    if conversion.extra == ("cell", "next_cell"):
        pytest.skip("takes more arrays")
    bonus, never = jnp.ones((3, 2)), jnp.zeros((3, 2), bool)
    rollout = jax.jit(conversion.rollout, donate_argnums=0)
    state, _ = rollout(conversion.init(2, like=bonus), bonus, never)
    rollout(state, bonus, never)


def test_cut_streams_give_the_same_numbers_bit_by_bit():
    rng = np.random.default_rng(3)
    bonus, ended = rng.random((200, 5)), rng.random((200, 5)) < 0.02
    for conversion in (pbim.PBIM(gamma=0.99), pbim.GRM(gamma=0.99, delay=8), pbim.GRM(gamma=0.8, delay=40)):
        fixed = conversion.frozen(0.5)
        whole = s.convert(fixed, s.Stream(bonus, ended))
        np.testing.assert_array_equal(s.convert(fixed, s.Stream(bonus, ended), [1, 2, 50, 113]), whole)


@pytest.mark.parametrize("conversion", EVERY, ids=lambda conversion: type(conversion).__name__)
def test_a_reward_is_data_and_carries_no_gradient(conversion):
    """Tensors of a graph would keep every step since the start of training alive."""
    bonus, ended = torch.rand(4, 2, requires_grad=True) * 2, torch.zeros(4, 2, dtype=torch.bool)
    kwargs = extra(conversion, bonus)
    state, shaped = conversion.rollout(conversion.init(2, like=bonus), bonus, ended, **kwargs)
    tracked = jax.tree.map(lambda leaf: leaf.clone().requires_grad_() if leaf.is_floating_point() else leaf, state)
    again, one = conversion.step(tracked, bonus[0], ended[0], **{name: array[0] for name, array in kwargs.items()})
    certificate = pbim.Certificate(gamma=0.5)
    seen = certificate.update(certificate.init(2, like=bonus), bonus, ended)
    assert not any(leaf.requires_grad for leaf in jax.tree.leaves((state, shaped, again, one, seen)))


def test_jax_differentiates_only_where_it_is_asked_to():
    conversion = pbim.PBIM(gamma=0.5, normalize=False)

    def first_reward(bonus):
        return conversion.rollout(conversion.init(1, like=bonus), bonus, jnp.zeros((3, 1), bool))[1][0, 0]

    np.testing.assert_array_equal(jax.grad(first_reward)(jnp.ones((3, 1))), [[1.0], [0.0], [0.0]])


@pytest.mark.parametrize("conversion", EVERY, ids=lambda conversion: type(conversion).__name__)
def test_a_state_may_be_made_on_every_device_of_a_mesh(conversion):
    if not hasattr(jax, "shard_map"):
        pytest.skip("this JAX has no jax.shard_map yet")
    mesh = Mesh(np.array(jax.devices()[:1]), ("devices",))
    bonus, never = jnp.arange(6.0).reshape(3, 2), jnp.zeros((3, 2), bool)
    certificate = pbim.Certificate(gamma=0.5)

    def run(bonus, ended):
        kwargs = extra(conversion, bonus)
        _, shaped = conversion.rollout(conversion.init(2, like=bonus), bonus, ended, **kwargs)
        return shaped, certificate.update(certificate.init(2, like=shaped), shaped, ended).total

    part = PartitionSpec(None, "devices")
    shards = jax.shard_map(run, mesh=mesh, in_specs=(part, part), out_specs=(part, PartitionSpec("devices")))
    for found, expected in zip(jax.jit(shards)(bonus, never), run(bonus, never), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_jax_counts_beyond_single_precision_and_never_wraps_around():
    """At 2^24 single precision stands still: adding 1 changes nothing."""
    shaping, fading, certificate = pbim.PBIM(gamma=0.5), pbim.PIES(decay_steps=2**25), pbim.Certificate(gamma=0.5)
    one, yes = jnp.ones(1), jnp.ones(1, bool)
    for start, end in ((2**24, 2**24 + 3), (2**31 - 2, 2**31 - 1)):
        state, faded, seen = (each.init(1, like=one) for each in (shaping, fading, certificate))
        state = state._replace(centre=state.centre._replace(count=jnp.asarray(start, state.centre.count.dtype)))
        faded = faded._replace(transitions=jnp.asarray(start, faded.transitions.dtype))
        seen = seen._replace(episodes=jnp.asarray(start, seen.episodes.dtype))
        for step in range(3):
            state, _ = shaping.step(state, one, yes) if step else shaping.rollout(state, one[None], yes[None])
            faded, _ = fading.step(faded, one, yes)
            seen = certificate.update(seen, one, yes)
        assert [int(n) for n in (state.centre.count, faded.transitions, seen.episodes)] == [end] * 3
    assert float(fading.coefficient(jnp.asarray(2**24 + 2**20))) == 0.5 - 2**-5


def test_a_block_ends_beyond_single_precision():
    """Its steps and the bonuses in it are counted one by one; at the end its mean is in use."""
    steps, one, no = 2**24 + 10, jnp.ones(1), jnp.zeros(1, bool)
    shaping = pbim.PBIM(gamma=0.5, normalize=sh.PreviousRollout(steps=steps))
    state = shaping.init(1, like=one)
    block = state.centre
    near = jnp.asarray(2**24, block.steps.dtype)
    block = block._replace(steps=near, gathered=block.gathered._replace(count=near, mean=jnp.asarray(1.0)))
    state, _ = shaping.rollout(state._replace(centre=block), jnp.ones((8, 1)), jnp.zeros((8, 1), bool))
    assert [int(state.centre.steps), int(state.centre.gathered.count), float(state.centre.mean)] == [steps - 2] * 2 + [
        0
    ]
    for _ in range(2):
        state, _ = shaping.step(state, one, no)
    assert [int(state.centre.steps), int(state.centre.gathered.count), float(state.centre.mean)] == [0, 0, 1]


def test_a_function_that_holds_parameters_leaks_no_gradient():
    weight = torch.nn.Parameter(torch.ones(()))
    bonus, never = torch.ones(3, 2), torch.zeros(3, 2, dtype=torch.bool)
    shaping = pbim.Custom(
        gamma=0.9,
        repay=lambda memory, ledger, _: ((memory[0] * weight,), ledger * weight),
        recall=lambda zeros: (zeros + weight,),
    )
    start = shaping.init(2, like=bonus)
    leaves = jax.tree.leaves(
        (start, shaping.rollout(start, bonus, never), shaping.step(start, bonus[0], never[0], valid=~never[0]))
    )
    assert not any(leaf.requires_grad for leaf in leaves)


def test_counts_of_single_precision_are_loaded_as_whole_numbers():
    like = jnp.ones(2)
    blocks = pbim.PBIM(gamma=0.5, normalize=sh.PreviousRollout(steps=9))
    for conversion in (pbim.PBIM(gamma=0.5), pbim.PIES(decay_steps=20), blocks):
        state, _ = conversion.step(conversion.init(2, like=like), like, like > 1)
        arrays = {name: array.astype(np.float32) for name, array in sh.state_arrays(state).items()}
        again = sh.load_arrays(conversion.init(2, like=like), arrays)
        assert jax.tree.map(lambda leaf: leaf.dtype, again) == jax.tree.map(lambda leaf: leaf.dtype, state)
        np.testing.assert_array_equal(
            conversion.step(again, like, like > 1)[1], conversion.step(state, like, like > 1)[1]
        )


def test_one_setting_has_one_key():
    member = (pbim.PBIM(gamma=0.5),)
    for same in (
        [pbim.PBIM(gamma=0.5, normalize=sh.FixedMean(mean=mean)) for mean in (1, 1.0, np.float64(1))],
        [pbim.Mixture(members=member, weights=weights) for weights in ((), (1,), (1.0,), (Fraction(1),))],
    ):
        assert len({canonical(encode_short(conversion)[0]) for conversion in same}) == 1


def test_a_default_that_changed_leaves_keys_as_they_were():
    """0.1 and 1 were the defaults of published runs, whose keys leave them out."""
    assert encode_short(pbim.Geometric(gamma=0.9, rate=0.1))[0] == {"kind": "geometric", "gamma": 0.9}
    assert encode_short(pbim.GRM(gamma=0.9, delay=1))[0] == {"kind": "grm", "gamma": 0.9}
    for conversion in (pbim.Geometric(gamma=0.99), pbim.GRM(gamma=0.99), pbim.Geometric(gamma=0.9, rate=0.1)):
        assert decode(encode_short(conversion)[0]) == conversion == decode(encode(conversion))


def test_a_kind_that_is_nearly_right_is_suggested():
    with pytest.raises(pbim.InputError, match="received 'gemetric': did you mean 'geometric'"):
        decode({"kind": "gemetric", "gamma": 0.9})
