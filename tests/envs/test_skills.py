"""Episodes with a skill: the environment beneath is untouched, and the skill stands at the end of what is seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pbim.agents.bonus import info
from pbim.envs import CliffWalk, DoorKey, Flattened, HostEnv, Skills, autoreset_batch
from pbim.errors import InputError
from pbim.intrinsic import DIAYN, Spec, Transition

ENVIRONMENTS = {"index": CliffWalk(max_steps=5), "image": DoorKey(size=5, max_steps=5)}
ENVIRONMENTS["vector"] = Flattened(env=ENVIRONMENTS["image"])


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_skill_is_shown_constant_and_changes_nothing_else(name):
    inner = ENVIRONMENTS[name]
    env = Skills(env=inner, count=3)
    state, obs = env.start(jax.random.key(0), 2)
    plain, plain_obs = inner.reset(jax.random.key(0))
    for number, action in enumerate([0, 2, 1, 2]):
        assert obs.shape == env.obs_shape
        assert obs.dtype == env.obs_dtype
        assert (np.asarray(obs)[..., -3:] == [0, 0, 1]).all()
        rest = np.asarray(obs)[..., :-3]
        assert np.array_equal(rest, np.eye(48)[plain_obs] if name == "index" else plain_obs)
        assert np.array_equal(obs, env.observe(state))
        out, expected = (
            env.step(jax.random.key(number), state, action),
            inner.step(jax.random.key(number), plain, action),
        )
        assert out.state.inner == expected.state
        assert (out.reward, out.terminated, out.truncated) == expected[2:]
        state, obs, plain, plain_obs = out.state, out.obs, expected.state, expected.obs


def test_skills_are_drawn_uniformly_and_anew_for_every_episode():
    env = Skills(env=CliffWalk(max_steps=1), count=4)
    state, _ = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 2000))
    shares = np.bincount(state.skill, minlength=4) / 2000
    assert np.abs(shares - 0.25).max() < 0.05
    out = autoreset_batch(env, jax.random.key(1), state, jnp.zeros(2000, int))
    assert np.array_equal(out.timestep.state.skill, state.skill)  # the step that ends it is still of the old skill
    assert np.mean(out.state.skill == state.skill) < 0.35


def test_what_the_environment_knows_stays_known():
    env, plain = Skills(env=DoorKey(size=5), count=2), Skills(env=Flattened(env=DoorKey(size=5)), count=2)
    state, _ = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 3))
    assert env.num_count_keys == DoorKey(size=5).num_count_keys
    assert np.array_equal(jax.vmap(env.count_key)(state), jax.vmap(env.env.count_key)(state.inner))
    assert jax.vmap(env.optimal_length)(state).shape == (3,)
    assert set(info(env, state)) == {"count_key", "skill"}
    assert not any(hasattr(plain, name) for name in ("count_key", "num_count_keys", "optimal_length", "num_states"))


@pytest.mark.parametrize("count", [1, 0, -3, 2.0, True])
def test_fewer_than_two_skills_are_refused(count):
    with pytest.raises(InputError, match="count must be a whole number of at least 2"):
        Skills(env=CliffWalk(), count=count)


@pytest.mark.parametrize("env", [HostEnv(id="CartPole-v1"), Skills(env=CliffWalk())])
def test_only_compiled_environments_without_skills_take_them(env):
    with pytest.raises(InputError, match="env must be a compiled environment without skills"):
        Skills(env=env)


def test_the_classifier_never_reads_the_skill():
    """Only what comes before the skill decides q: another skill at the same place changes the bonus as q says."""
    bonus, no = DIAYN(count=3, hidden=(8,)), np.zeros(3, bool)
    place = np.repeat(np.random.default_rng(0).normal(size=(1, 4)), 3, axis=0)
    obs = np.concatenate([place, np.eye(3)], axis=1)
    step = Transition(obs, np.zeros(3, int), obs, no, no, {})
    for _ in range(5):
        np.testing.assert_allclose(np.exp(bonus.reward(step)).sum() / 3, 1, rtol=1e-5)  # q(. | s) of one s sums to 1
        bonus.update(step)


def test_images_of_doorkey_tell_skills_apart_after_training():
    env, bonus = Skills(env=DoorKey(size=5), count=2), DIAYN(count=2)
    _, obs = jax.vmap(lambda key, skill: env.start(key, skill))(jax.random.split(jax.random.key(0), 2), jnp.arange(2))
    no = jnp.zeros(2, bool)
    step = Transition(obs, jnp.zeros(2, int), obs, no, no, {})
    state = bonus.init(jax.random.key(0), Spec(example=step))
    learn = jax.jit(bonus.update_fn)
    for _ in range(100):
        state = learn(state, step)
    assert (bonus.reward_fn(state, step) > 0.6).all()  # at most log 2


def test_observations_without_a_skill_are_refused():
    step = Transition(np.zeros((1, 5)), np.zeros(1, int), np.zeros((1, 5)), *[np.zeros(1, bool)] * 2, {})
    with pytest.raises(InputError, match=r"ends with 8 entries for the skill, received \(1, 5\)"):
        DIAYN().reward(step)
