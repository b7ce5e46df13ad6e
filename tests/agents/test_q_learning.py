"""Compiled Q-learning against a plain loop on the same random numbers."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pbim
from pbim.agents import q_learning
from pbim.agents.q_learning import CHUNK, QLearning, draw, train
from pbim.envs import CliffWalk, DoorKey, RiverSwim
from pbim.errors import InputError
from pbim.intrinsic import ICM, RND, EpisodicCount, Transition, one_hot

ENV = CliffWalk(width=5, height=3, max_steps=12)


def test_a_bonus_may_learn_every_step_every_episode_or_never():
    """A frozen predictor stays as it was at first; one that is trained by episode took one step for each."""
    steps, whole, never = (
        QLearning(
            env=ENV,
            episodes=3,
            intrinsic=RND(encode=one_hot(15), hidden=(8,), features=4, normalize=False, learning_rate=0.01),
            shaping=pbim.Raw(),
            bonus_learns=learns,
        )
        for learns in ("step", "episode", "never")
    )
    keys = jax.random.split(jax.random.key(0), 2)
    first = q_learning.start(never, keys).bonus.predictor.params
    runs = {config: q_learning.advance(config, q_learning.start(config, keys), 8) for config in (steps, whole, never)}
    changed = {
        config: jax.tree.leaves(
            jax.tree.map(lambda *pair: not np.array_equal(*pair), first, run.bonus.predictor.params)
        )
        for config, run in runs.items()
    }
    assert all(changed[steps])
    assert all(changed[whole])
    assert not any(changed[never])
    assert runs[whole].bonus.predictor.opt_state[0].count.tolist() == [3, 3]
    assert not runs[whole].waiting.valid.any()


def test_a_bonus_that_learns_by_episode_learns_from_all_of_its_steps_at_once():
    """A table that does not learn goes up at every step: from cell 10 to 5, to 0, and on against the wall."""
    config = QLearning(
        env=ENV,
        episodes=1,
        intrinsic=RND(encode=one_hot(15), hidden=(8,), features=4, normalize=False, learning_rate=0.01),
        shaping=pbim.Raw(),
        bonus_learns="episode",
        learning_rate=0.0,
        epsilon_start=0.0,
        epsilon_min=0.0,
    )
    start = q_learning.start(config, jax.random.split(jax.random.key(0), 1))
    bonus = jax.tree.map(lambda leaf: leaf[0], start.bonus)
    run = q_learning.advance(config, start, 1)
    cells, no = jnp.array([5] + [0] * 11), jnp.zeros(12, bool)
    assert run.steps.tolist() == [12]
    wanted = config.intrinsic.update_fn(bonus, Transition(cells, cells * 0, cells, no, no, {}))
    for one, other in zip(*map(jax.tree.leaves, (wanted.predictor.params, run.bonus.predictor.params)), strict=True):
        np.testing.assert_allclose(one, other[0], rtol=1e-5, atol=1e-7)
    with pytest.raises(InputError, match="bonus_learns 'episode' is for bonuses of networks"):
        QLearning(env=ENV, intrinsic=EpisodicCount(), bonus_learns="episode")


def draws_of(config, key):
    """The random numbers of one seed, in the order the compiled program consumes them."""
    run = q_learning.init(config, key)
    key = run.key
    while True:
        key, chunk = jax.random.split(key)
        numbers = draw(chunk)
        yield from zip(np.asarray(numbers.explore), np.asarray(numbers.choice), strict=True)


def plain(config, key, shaping=None):
    """Q-learning in plain Python, with the paper's count bonus where there is a conversion."""
    env, q = config.env, np.zeros((config.num_states, 4), np.float32)
    returns, lengths, numbers = [], [], draws_of(config, key)
    state = shaping.init(1) if shaping else None
    for episode in range(config.episodes):
        cell, total, visits, trace = env.start, 0.0, {}, np.zeros_like(q)
        for step in range(1, env.max_steps + 1):
            explore, choice = next(numbers)
            epsilon = max(config.epsilon_start - config.epsilon_decay * episode, config.epsilon_min)
            action = int(choice * 4) if explore < epsilon else int(np.argmax(q[cell]))
            row, column = divmod(cell, env.width)
            row = min(max(row + (action == 2) - (action == 0), 0), env.height - 1)
            column = min(max(column + (action == 1) - (action == 3), 0), env.width - 1)
            arrived = row * env.width + column
            over = arrived > env.start
            reward = -1.0 if not over else 100.0 if arrived == env.goal else -100.0
            ended = over or step == env.max_steps
            extra = 0.0
            if shaping:
                visits[arrived] = visits.get(arrived, 0) + 1
                bonus = np.array([config.intrinsic.alpha / visits[arrived]])
                state, shaped = shaping.step(state, bonus, np.array([ended]))
                extra = float(shaped[0])
            target = reward + extra + (0 if ended else config.gamma * q[arrived].max())
            trace *= config.gamma * config.trace_lambda * (q[cell, action] == q[cell].max())
            trace[cell, action] = 1
            q += config.learning_rate * (target - q[cell, action]) * trace
            cell, total = arrived, total + reward
            if ended:
                break
        returns.append(total)
        lengths.append(step)
    return q, returns, lengths


@pytest.mark.parametrize("trace_lambda", [0.0, 0.8])
@pytest.mark.parametrize("converted", [False, True])
def test_equals_a_plain_loop(converted, trace_lambda):
    shaping = pbim.PBIM(gamma=0.9) if converted else None
    changes = {"intrinsic": EpisodicCount(alpha=2.0), "shaping": shaping} if converted else {}
    config = QLearning(env=ENV, episodes=60, gamma=0.9, epsilon_decay=0.01, trace_lambda=trace_lambda, **changes)
    keys = jax.random.split(jax.random.key(1), 3)
    result = train(config, keys)
    for seed, key in enumerate(keys):
        q, returns, lengths = plain(config, key, shaping)
        np.testing.assert_array_equal(result.lengths[seed], lengths)
        np.testing.assert_allclose(result.returns[seed], returns)
        np.testing.assert_allclose(result.q[seed], q, rtol=1e-3, atol=1e-3)
        assert result.steps[seed] == result.visits[seed].sum() == sum(lengths)
    assert result.residual.max() < 1e-5


def test_a_seed_does_not_depend_on_its_company():
    config = QLearning(env=ENV, episodes=20)
    keys = jax.random.split(jax.random.key(0), 3)
    np.testing.assert_array_equal(train(config, keys).q[1], train(config, keys[1:2]).q[0])


def test_starting_many_seeds_never_waits_for_itself():
    """Batched QR decompositions of several networks at once used to block each other within a few hundred starts."""
    code = "import jax, pbim; from pbim.agents.q_learning import QLearning, start; from pbim.envs import CliffWalk; "
    code += "from pbim.intrinsic import RND, one_hot; "
    code += "bonus = RND(encode=one_hot(48), hidden=(64, 64), features=64, normalize=False); "
    code += "config = QLearning(env=CliffWalk(), intrinsic=bonus, shaping=pbim.Raw()); "
    code += "[jax.block_until_ready(start(config, jax.random.split(jax.random.key(i), 5))) for i in range(400)]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=900)


@pytest.mark.parametrize(
    "bonus",
    [
        RND(encode=one_hot(15), hidden=(8,), features=4, normalize=False),
        ICM(encode=one_hot(15), num_actions=4, hidden=(8,), features=4),
        RND(encode=lambda cell: jnp.stack([cell // 5, cell % 5], axis=1).astype(jnp.float32), hidden=(8,), features=4),
    ],
)
def test_learning_bonuses_train_at_every_step_and_cancel(bonus):
    config = QLearning(env=ENV, episodes=10, intrinsic=bonus, intrinsic_scale=10.0, shaping=pbim.PBIM(gamma=0.99))
    result = train(config, jax.random.split(jax.random.key(0), 2))
    assert np.isfinite(result.q).all()
    assert result.residual.max() < 1e-4


def test_the_schedule_is_the_papers():
    config = QLearning(env=ENV)
    np.testing.assert_allclose(
        config.epsilon(jnp.array([0, 1, 1000, 2250, 4000])), [1, 0.9996, 0.6, 0.1, 0.1], rtol=1e-5
    )


def test_advice_is_chosen_by():
    """Without exploring and with an empty table, advice alone decides; PIES's fades with its coefficient."""
    advice = tuple((0.0, 0.0, 0.0, 1.0) for _ in range(15))
    fixed = {
        "env": ENV,
        "episodes": 1,
        "epsilon_start": 0.0,
        "epsilon_min": 0.0,
        "advice": advice,
        "learning_rate": 0.0,
    }
    keys = jax.random.split(jax.random.key(0), 1)
    assert train(QLearning(**fixed), keys).visits[0, :, 3].sum() == ENV.max_steps
    faded = train(QLearning(shaping=pbim.PIES(decay_steps=4), **fixed), keys).visits[0]
    assert faded[:, 3].sum() == 4


def test_look_ahead_advice_is_the_run_that_starts_from_the_advice():
    """Wiewiora et al. 2003: Q with advice Phi, plus Phi, is at every step the table of a plain run begun at Phi."""
    phi = np.random.default_rng(0).normal(size=(15, 4)).astype(np.float32)
    advised = QLearning(
        env=ENV,
        episodes=60,
        gamma=0.9,
        epsilon_decay=0.01,
        shaping=pbim.LookAhead(gamma=0.9),
        advice=tuple(map(tuple, phi.tolist())),
    )
    keys = jax.random.split(jax.random.key(2), 3)
    result = train(advised, keys)
    plainly = QLearning(env=ENV, episodes=60, gamma=0.9, epsilon_decay=0.01)
    begun = jax.vmap(lambda key: q_learning.init(plainly, key)._replace(q=jnp.asarray(phi)))(keys)
    expected = q_learning.result_of(q_learning.advance(plainly, begun, 1 << 20))
    np.testing.assert_array_equal(result.lengths, expected.lengths)
    np.testing.assert_array_equal(result.visits, expected.visits)
    np.testing.assert_allclose(result.q + phi, expected.q, rtol=1e-3, atol=1e-3)
    assert not np.allclose(result.q, train(plainly, keys).q, atol=0.1)


def test_bad_settings_are_named():
    with pytest.raises(InputError, match="num_states"):
        QLearning(env=DoorKey(size=5))
    with pytest.raises(InputError, match="episodes"):
        QLearning(env=ENV, episodes=0)
    with pytest.raises(InputError, match=r"shaping\.gamma"):
        QLearning(env=ENV, shaping=pbim.PBIM(gamma=0.5))
    ahead = {"env": ENV, "shaping": pbim.LookAhead(gamma=0.99), "advice": ((0.0,) * 4,) * 15}
    with pytest.raises(InputError, match="advice"):
        QLearning(**(ahead | {"advice": None}))
    with pytest.raises(InputError, match="leave intrinsic out"):
        QLearning(**ahead, intrinsic=EpisodicCount())
    with pytest.raises(InputError, match="truncation"):
        QLearning(**ahead, truncation="bootstrap")


def test_random_numbers_come_in_chunks():
    numbers = draw(jax.random.key(0))
    assert numbers.explore.shape == (CHUNK,)
    assert 0 <= float(numbers.choice.min()) <= float(numbers.choice.max()) < 1


def test_only_the_record_knows_where_a_window_of_an_endless_task_ends():
    def run(windows, width, truncation="continue"):
        conversion = pbim.GRM(gamma=0.9, delay=4)
        config = QLearning(
            env=RiverSwim(max_steps=width),
            episodes=windows,
            gamma=0.9,
            intrinsic=EpisodicCount(alpha=1.0),
            shaping=conversion,
            epsilon_start=0.5,
            epsilon_min=0.5,
            epsilon_decay=0.0,
            truncation=truncation,
        )
        return train(config, jax.random.split(jax.random.key(0), 2))

    many, one, cut = run(20, 7), run(1, 140), run(20, 7, "settle")
    np.testing.assert_array_equal(many.q, one.q)
    np.testing.assert_allclose(many.returns.sum(axis=1), one.returns[:, 0], rtol=1e-5)
    assert (many.lengths == 7).all()
    assert not many.terminated.any()
    assert not np.array_equal(many.q, cut.q)


def test_windows_follow_each_other_also_where_the_environment_marks_every_step_past_its_limit():
    config = QLearning(env=CliffWalk(max_steps=5), episodes=30, truncation="continue")
    result = train(config, jax.random.split(jax.random.key(0), 3))
    full = np.asarray(result.lengths) == 5
    assert full.sum() > 30
    assert (np.asarray(result.lengths)[~full] < 5).all()
    assert np.asarray(result.terminated)[~full].all()


def test_an_endless_task_leaves_pbim_unsettled():
    common = {"env": RiverSwim(max_steps=50), "episodes": 40, "gamma": 0.9, "intrinsic": EpisodicCount(alpha=1.0)}
    keys = jax.random.split(jax.random.key(0), 2)
    plain = train(QLearning(**common, shaping=pbim.Raw(), truncation="continue"), keys)
    unsettled = pbim.PBIM(gamma=0.9, normalize=False)  # owes more than float32 holds: 0.9^-2000
    never = train(QLearning(**common, shaping=unsettled, truncation="continue"), keys)
    np.testing.assert_array_equal(never.q, plain.q)
    settled = train(QLearning(**common, shaping=unsettled, truncation="settle"), keys)
    assert not np.array_equal(settled.q, plain.q)


def test_an_overflow_in_a_compiled_run_shows_in_its_residual():
    common = {"env": RiverSwim(max_steps=2000), "episodes": 2, "gamma": 0.9, "intrinsic": EpisodicCount(alpha=1.0)}
    keys = jax.random.split(jax.random.key(0), 2)
    assert np.isinf(train(QLearning(**common, shaping=pbim.PBIM(gamma=0.9)), keys).residual).all()
    bounded = train(QLearning(**common, shaping=pbim.Bounded(gamma=0.9, limit=1)), keys)
    assert (bounded.residual < 1e-3).all()
