"""What the ends of episodes do to ledgers and targets, worked out by hand on an episode of three steps.

gamma = 1/2, rewards 0, 1, 2, bonuses 1, 2, 3, values V = 3, 4, 2 and, after the third step, 6. PBIM pays 1 and 2, so
that its ledger is L = 0, 2, 8. At the third step it takes back 8, or, left open, pays 3 and then owes 22.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pbim
from pbim.agents import PPO, QLearning, ppo, q_learning
from pbim.agents._gae import next_values
from pbim.agents.conversion import certify, convert, ledger_ends
from pbim.agents.method import Experience
from pbim.config import decode, encode
from pbim.envs import CliffWalk, DoorKey, HostEnv, RiverSwim
from pbim.errors import InputError
from pbim.intrinsic import EpisodicCount
from pbim.truncation import ends

GAMMA = 0.5
SHORT = CliffWalk(max_steps=3)
REWARD, BONUS, VALUE, FINAL = (0, 1, 2), (1, 2, 3), (3, 4, 2), 6
CONVERSIONS = {
    "pbim": pbim.PBIM(gamma=GAMMA, normalize=False),
    "grm": pbim.GRM(gamma=GAMMA, delay=1, normalize=False),
    "geometric": pbim.Geometric(gamma=GAMMA, rate=0.5, normalize=False),
}
NEVER, THIRD, SECOND = (False, False, False), (False, False, True), (False, True, False)
CASES = {  # terminated, truncated, and the advantages of r alone: with lambda = 1, the return less V
    "settle": (NEVER, THIRD, (1 - 3, 2 - 4, 2 - 2)),
    "bootstrap": (NEVER, THIRD, (1.75 - 3, 3.5 - 4, 5 - 2)),
    "continue": (THIRD, SECOND, (1 - 3, 2 - 4, 2 - 2)),
}
LEDGER = {"settle": (0, 2, 8, 0), "bootstrap": (0, 2, 8, 22), "continue": (0, 2, 8, 0)}  # PBIM's, before each step


def column(numbers, dtype=jnp.float32):
    return jnp.asarray(numbers, dtype)[:, None]


def run(truncation, critics, conversion, *, knows_ledger):
    """The shaped advantages of the episode, through the functions that PPO trains with; also F' and L."""
    config = PPO(env=SHORT, shaping=conversion, truncation=truncation, critics=critics, gamma=GAMMA, gae_lambda=1.0)
    terminated, truncated, _ = CASES[truncation]
    terminated, truncated = column(terminated, bool), column(truncated, bool)
    end = ends(truncation, terminated, truncated)
    state = conversion.init(1, like=jnp.zeros(0))
    _, shaped = convert(config, state, column(BONUS), ledger_ends(config, terminated, truncated))
    ledger = [0.0]
    for paid in shaped[:, 0]:
        ledger.append((ledger[-1] + float(paid)) / GAMMA)
    owed = column(ledger) if knows_ledger else jnp.zeros((4, 1))
    true = column((*VALUE, FINAL))
    values = jnp.stack([true - owed]) if critics == "joint" else jnp.stack([true, -owed])
    value, final = values[:, :3], jnp.broadcast_to(values[:, 3:], (len(values), 3, 1))
    following = next_values(value, values[:, 3], end, final if truncation == "bootstrap" else None)
    seen = Experience(column(REWARD), shaped, value, following, following, end.over, jnp.zeros((3, 1)))
    advantage = config.way.lesson(config, (), seen).advantage
    return np.asarray(advantage[:, 0]), np.asarray(shaped[:, 0]), np.array(ledger)


@pytest.mark.parametrize("truncation", CASES)
def test_pbim_pays_and_takes_back_what_the_hand_says(truncation):
    _, shaped, ledger = run(truncation, "joint", CONVERSIONS["pbim"], knows_ledger=True)
    assert shaped.tolist() == [1, 2, 3 if truncation == "bootstrap" else -8]
    assert ledger.tolist() == list(LEDGER[truncation])


@pytest.mark.parametrize("critics", ["joint", "separate"])
@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("truncation", CASES)
def test_critics_that_know_the_ledger_leave_every_advantage_as_it_was(truncation, name, critics):
    advantage, _, _ = run(truncation, critics, CONVERSIONS[name], knows_ledger=True)
    np.testing.assert_allclose(advantage, CASES[truncation][2], atol=1e-6)


@pytest.mark.parametrize("critics", ["joint", "separate"])
@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("truncation", CASES)
def test_critics_that_do_not_know_it_shift_every_advantage_by_the_ledger(truncation, name, critics):
    """A'_t = A_t - L_t + gamma^(3 - t) L_3, and L_3 = 0 where the ledger was settled."""
    advantage, _, ledger = run(truncation, critics, CONVERSIONS[name], knows_ledger=False)
    shift = -ledger[:3] + GAMMA ** np.array([3, 2, 1]) * ledger[3]
    np.testing.assert_allclose(advantage, np.array(CASES[truncation][2]) + shift, atol=1e-6)
    if name == "pbim":
        by_hand = {"settle": (-2, -4, -8), "bootstrap": (1.5, 3, 6), "continue": (-2, -4, -8)}
        np.testing.assert_allclose(advantage, by_hand[truncation], atol=1e-6)


@pytest.mark.parametrize("settlement", ["episode", "termination"])
def test_a_ledger_left_open_is_forgotten_before_the_next_episode(settlement):
    """Two episodes of three steps, the first truncated: the second pays and is settled as if it were the first."""
    truncation = "bootstrap" if settlement == "episode" else "settle"
    conversion = CONVERSIONS["pbim"]
    config = PPO(env=SHORT, shaping=conversion, truncation=truncation, settlement=settlement, gamma=GAMMA)
    terminated, truncated = column((*NEVER, *THIRD), bool), column((*THIRD, *NEVER), bool)
    end = ledger_ends(config, terminated, truncated)
    state, shaped = convert(config, conversion.init(1, like=jnp.zeros(0)), column(BONUS * 2), end)
    assert shaped[:, 0].tolist() == [1, 2, 3, 1, 2, -8]
    assert float(state.ledger[0]) == 0
    certificate = certify(
        config,
        pbim.Certificate(gamma=GAMMA).init(1, like=jnp.zeros(0)),
        shaped,
        ends(truncation, terminated, truncated),
    )
    if settlement == "episode":  # the open episode owes nothing yet: only the settled one is judged
        assert (float(certificate.episodes), float(certificate.worst)) == (1, 0)
    else:  # the learner stopped although nothing was taken back: 1 + 2/2 + 3/4 is left of as much
        assert (float(certificate.episodes), float(certificate.worst)) == (2, 1)


def test_bootstrap_in_q_learning_adds_the_next_value_and_leaves_the_ledger_open():
    """One window of RiverSwim, two steps long, with a table of ones: targets by hand."""
    config = QLearning(
        env=RiverSwim(max_steps=2),
        episodes=1,
        intrinsic=EpisodicCount(alpha=1.0),
        shaping=CONVERSIONS["pbim"],
        gamma=GAMMA,
        learning_rate=1.0,
        initial_value=1.0,
        epsilon_start=0.0,
        epsilon_min=0.0,
        truncation="bootstrap",
    )
    # Left, the first of equal actions, drifts by one. From cell 2 to 1 to 0 both steps pay 1 for a first visit.
    keys = jax.random.split(jax.random.key(0), 4)
    open_, settled = (q_learning.train(replace(config, truncation=each), keys) for each in ("bootstrap", "settle"))
    from_two = np.asarray(open_.visits)[:, 2, 0] == 1
    assert from_two.any()
    for q in np.asarray(open_.q)[from_two]:  # both targets hold half of the next value, 1
        assert q[2, 0] == q[1, 0] == 0 + 1 + GAMMA * 1
    for q in np.asarray(settled.q)[from_two]:  # the second target takes the ledger, 1 / gamma, back
        assert (q[2, 0], q[1, 0]) == (0 + 1 + GAMMA * 1, 0 - 1 / GAMMA)
    after = q_learning.advance(config, q_learning.start(config, keys), 1)
    assert (np.asarray(after.shaping.ledger) == 0).all()
    assert (np.asarray(after.certificate.episodes) == 0).all()


@pytest.mark.learning
def test_a_time_limit_that_is_a_window_changes_nothing_but_the_rows_of_ppo():
    """Windows of 7 and of 1000 steps give one and the same run; episodes that terminate are settled in both."""

    def trained(window, truncation="continue"):
        config = PPO(
            env=CliffWalk(max_steps=window),
            intrinsic=EpisodicCount(alpha=1.0),
            shaping=pbim.GRM(gamma=0.9, delay=4),
            gamma=0.9,
            truncation=truncation,
            num_envs=4,
            num_steps=16,
            minibatch_size=16,
            total_frames=640,
        )
        return ppo.train(config, jax.random.key(0))

    (short, rows), (long, one), (cut, _) = trained(7), trained(1000), trained(7, "settle")
    for a, b in zip(jax.tree.leaves(short.learner.params), jax.tree.leaves(long.learner.params), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(rows.residual, one.residual)
    np.testing.assert_array_equal(rows.goals, one.goals)
    assert not np.array_equal(*(jax.tree.leaves(each.learner.params)[0] for each in (short, cut)))
    assert rows.truncations.sum() > 50 > one.truncations.sum() == 0
    assert rows.residual.max() < 1e-5
    total = np.nansum(rows.extrinsic_return * rows.episodes) + float(short.running.extrinsic.sum())
    np.testing.assert_allclose(
        total, np.nansum(one.extrinsic_return * one.episodes) + float(long.running.extrinsic.sum()), rtol=1e-5
    )
    assert np.isfinite(rows.length).any()
    assert np.nanmax(rows.length) <= 7
    assert np.isnan(rows.gap).all()


def test_endless_doorkeys_have_no_shortest_way():
    config = PPO(
        env=DoorKey(size=5, max_steps=9),
        truncation="continue",
        num_envs=4,
        num_steps=32,
        minibatch_size=32,
        total_frames=256,
    )
    carry, metrics = ppo.train(config, jax.random.key(0))
    assert metrics.truncations.sum() > 20
    assert carry.running.optimal is None
    assert int(carry.world.state.step.max()) > 9


@pytest.mark.learning
def test_an_environment_that_restarts_at_the_goal_only_goes_on_past_its_time_limit():
    """As torch-ac's first port to Gymnasium: memory and targets stop at every truncation, layout and counts do not."""
    config = PPO(
        env=DoorKey(size=8, max_steps=5),  # too few steps to reach the goal
        intrinsic=EpisodicCount(alpha=1.0, key="count_key"),
        shaping=pbim.Raw(),
        resets="terminations",
        num_envs=2,
        num_steps=8,
        minibatch_size=8,
        total_frames=48,
    )
    key = jax.random.key(3)
    carry, metrics = ppo.update_chunk(config, ppo.init(config, key), 3)
    assert carry.world.state.step.tolist() == [24, 24]
    np.testing.assert_array_equal(carry.world.state.door, ppo.init(config, key).world.state.door)
    np.testing.assert_array_equal(carry.world.bonus.sum(axis=1), [24, 24])
    assert metrics.truncations.tolist() == [2 * 4, 2 * 8, 2 * 8]
    np.testing.assert_allclose(metrics.length, [(5 + 3 * 1) / 4, 1, 1])
    assert carry.world.mask.tolist() == [0, 0]
    config = replace(config, resets="ends")
    usual, _ = ppo.update_chunk(config, ppo.init(config, key), 3)
    assert usual.world.state.step.tolist() == [4, 4]


@pytest.mark.parametrize(
    ("learner", "fields", "message"),
    [
        (
            PPO,
            {"resets": "terminations", "truncation": "bootstrap"},
            "resets 'terminations' is for a learner that stops",
        ),
        (PPO, {"resets": "terminations", "env": HostEnv(id="CartPole-v1")}, "needs a compiled environment"),
        (PPO, {"resets": "goals"}, "resets must be one of ends, terminations"),
        (PPO, {"truncation": "end"}, "truncation must be one of settle, bootstrap, continue, received 'end'"),
        (PPO, {"critics": "two"}, "critics must be one of joint, separate, received 'two'"),
        (PPO, {"settlement": "rolout"}, "did you mean 'rollout'"),
        (PPO, {"memory": "lst"}, "did you mean 'lstm'"),
        (PPO, {"bonus_learns": "never"}, "bonus_learns must be one of rollout, step"),
        (PPO, {"learning_rate_schedule": "cosine"}, "learning_rate_schedule must be one of constant, linear"),
        (PPO, {"init_scheme": "torch"}, "init_scheme must be one of"),
        (PPO, {"settlement": "rollout", "truncation": "bootstrap"}, "settlement 'rollout'"),
        (PPO, {"settlement": "termination", "truncation": "continue"}, "settlement 'termination'"),
        (QLearning, {"truncation": "stop"}, "truncation must be one of settle, bootstrap, continue, received 'stop'"),
        (QLearning, {"lanes": 0}, "lanes must be a whole number of at least 1"),
        (QLearning, {"env": HostEnv(id="FrozenLake-v1")}, "env must be compiled"),
        (PPO, {"env": HostEnv(id="CartPole-v1"), "truncation": "continue"}, "needs a compiled environment"),
    ],
)
def test_words_that_are_not_known_are_refused_on_construction(learner, fields, message):
    with pytest.raises(InputError, match=message) as caught:
        learner(**({"env": SHORT} | fields))
    assert "\n" not in str(caught.value)


def test_what_a_run_promises():
    exact, none = CONVERSIONS["grm"], pbim.NoBonus()
    for learner in (PPO, QLearning):
        common = {"env": SHORT, "gamma": GAMMA}
        for truncation in ("settle", "bootstrap", "continue"):
            assert learner(**common, shaping=exact, truncation=truncation).exact
            assert learner(**common, shaping=none, truncation=truncation).exact
            assert not learner(**common, shaping=pbim.Raw(), truncation=truncation).exact
            endless = truncation == "continue"  # PBIM waits for a last step that does not come
            assert learner(**common, shaping=CONVERSIONS["pbim"], truncation=truncation).exact is not endless
            mixture = pbim.Mixture(members=(CONVERSIONS["pbim"], exact))
            assert learner(**common, shaping=mixture, truncation=truncation).exact is not endless
    for settlement in ("termination", "rollout"):
        assert not PPO(env=SHORT, gamma=GAMMA, shaping=exact, settlement=settlement).exact
    two = {"critics": "separate", "intrinsic": pbim.EpisodicCount(), "method": pbim.agents.Adops()}
    assert not PPO(env=SHORT, gamma=GAMMA, shaping=exact, **two).exact


@pytest.mark.parametrize(
    "learner",
    [
        PPO(env=DoorKey(size=5), shaping=pbim.GRM(gamma=0.99, delay=8), critics="separate"),
        PPO(
            env=HostEnv(id="CartPole-v1"),
            intrinsic=pbim.RND(),
            shaping=pbim.Raw(),
            critics="separate",
            method=pbim.agents.Adops(rise_frames=9),
        ),
        QLearning(env=RiverSwim(max_steps=9), truncation="continue", lanes=2, advice=((0.0, 1.0),) * 6),
    ],
)
def test_learners_are_components(learner):
    assert decode(encode(learner)) == learner
    assert hash(decode(encode(learner))) == hash(learner)
