"""Methods: EIPO against its equations in PyTorch on fixed batches, the others by hand, and what a bonus does."""

import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import pbim
from pbim.agents import BSRS, EIPO, Adopes, Adops, TwoCritics, _learn, ppo, rollout as _rollout, update as _update
from pbim.agents._learn import Minibatch
from pbim.agents.eipo import EXTRINSIC, MIXED, EIPOState
from pbim.agents.method import PLAIN, Experience
from pbim.agents.networks import Output
from pbim.config import Component, components
from pbim.envs import CliffWalk, Skills
from pbim.envs._table import Table, TableEnvironment
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic import EpisodicCount, Scaled
from pbim.shaping import Level
from pbim.truncation import ends

STEPS, ENVS, ACTIONS, GAMMA = 6, 3, 4, 0.9
METHODS = list(components("method"))


def learner(method, /, **changes):
    settings = {"env": CliffWalk(), "intrinsic": EpisodicCount(), "shaping": pbim.Raw(), "gamma": GAMMA}
    return ppo.PPO(**{**settings, **method.goes_with, "method": method, **changes})


@cache
def experience(values, seed=0):
    """A rollout with an end in each lane; the critics' values stop at ends."""
    rng = np.random.default_rng(seed)
    over = np.zeros((STEPS, ENVS), bool)
    over[[1, 3, 4], [0, 1, 2]] = True
    reward, bonus = rng.normal(size=(2, STEPS, ENVS))
    all_values = rng.normal(size=(values, STEPS + 1, ENVS))
    following = all_values[:, 1:]
    arrays = reward, bonus, all_values[:, :-1], np.where(over, 0, following), following
    frames = jnp.arange(STEPS)[:, None]
    return Experience(*(jnp.asarray(x, jnp.float32) for x in arrays), jnp.asarray(over), frames)


def tensor(x):
    return torch.tensor(np.asarray(x), dtype=torch.float64)


def gae(reward, value, next_value, over, gamma, lam):
    """Schulman et al. 2016, Eq. 16, as a loop."""
    found, following = torch.zeros_like(reward), torch.zeros_like(reward[0])
    for t in reversed(range(len(reward))):
        following = reward[t] + gamma * next_value[t] - value[t] + gamma * lam * (1 - over[t]) * following
        found[t] = following
    return found


@pytest.mark.parametrize("max_stage", [True, False])
def test_eipo_learns_from_the_papers_utilities(max_stage):
    """With lambda = 0, U_max and U_min as the paper prints them, and the auxiliary objectives' advantages."""
    method, alpha, seen = EIPO(), 0.3, experience(3)
    config = learner(method, gae_lambda=0.0, reward_scale=3.0)
    state = EIPOState(jnp.asarray(alpha), jnp.asarray(max_stage), jnp.zeros(2))
    reward, bonus, value, after = (tensor(x) for x in (seen.reward, seen.shaped, seen.value, seen.next_value))
    reward, bonus = 3 * reward, 3 * bonus
    if max_stage:
        own = reward + GAMMA * after[2] - value[2]
        utility = (1 + alpha) * reward + bonus + GAMMA * alpha * after[2] - alpha * value[2]
        wanted = [utility - utility.mean(), own]
    else:
        total, total_after = (1 + alpha) * value[0] + value[1], (1 + alpha) * after[0] + after[1]
        utility = alpha * reward + GAMMA * total_after - total
        wanted = [(1 + alpha) * reward + bonus + GAMMA * total_after - total, utility - utility.mean()]
    lesson = method.lesson(config, state, seen)
    np.testing.assert_allclose(lesson.advantage, torch.stack(wanted), atol=1e-5)
    assert lesson.critics.tolist() == ([0, 0, 1] if max_stage else [1, 1, 0])
    assert int(method.policy(state)) == (EXTRINSIC if max_stage else MIXED)


def values_of(chance, policy, reward):
    """Solve V = sum_a policy (reward + GAMMA sum_s' chance V), states (S,)."""
    moves = np.einsum("sa,sat->st", policy, chance)
    return np.linalg.solve(np.eye(len(policy)) - GAMMA * moves, (policy * reward).sum(1))


def test_eipos_utilities_sum_to_the_difference_of_the_objectives():
    """Solved exactly: who learns from U collects J(mixed) - alpha J_E(extrinsic) in the max stage, minus it in the min.

    The law holds for every pair of policies (performance difference lemma), so it knows nothing of how U is written.
    """
    rng, states, alpha, scale = np.random.default_rng(5), 4, 0.3, 2.0
    chance = rng.dirichlet(np.ones(states), size=(states, ACTIONS))
    reward, bonus = scale * rng.normal(size=(2, states, ACTIONS))
    mixed, extrinsic = rng.dirichlet(np.ones(ACTIONS), size=(2, states))
    task, extra = values_of(chance, mixed, reward), values_of(chance, mixed, bonus)
    own = values_of(chance, extrinsic, reward)
    critics = np.stack([task, extra, own])
    here = np.broadcast_to(critics[:, :, None], (3, states, ACTIONS))
    after = np.einsum("sat,ct->csa", chance, critics)
    seen = Experience(reward / scale, bonus / scale, here, after, after, np.ones_like(reward, bool), np.zeros((1, 1)))
    seen = Experience(*map(jnp.asarray, seen))  # a row per state, a lane per action, each an episode of one step
    method = EIPO()
    config, state = learner(method, reward_scale=scale), EIPOState(jnp.asarray(alpha), jnp.ones((), bool), jnp.zeros(2))
    _, up, down = method.utilities(config, state, seen, method.advantages(config, seen))
    difference = (1 + alpha) * task + extra - alpha * own
    np.testing.assert_allclose(values_of(chance, mixed, np.asarray(up)), difference, atol=1e-4)
    np.testing.assert_allclose(values_of(chance, extrinsic, np.asarray(down)), -difference, atol=1e-4)


def test_eipo_estimates_advantages_over_many_steps():
    """With lambda, each critic's target is its value plus its own generalised advantage; ends cut the sums."""
    method, seen, lam = EIPO(), experience(3), 0.8
    config = learner(method, gae_lambda=lam)
    lesson = method.lesson(config, method.init(), seen)
    for critic, reward in enumerate((seen.reward, seen.shaped, seen.reward)):
        rows = (tensor(x) for x in (reward, seen.value[critic], seen.next_value[critic], seen.over))
        wanted = tensor(seen.value[critic]) + gae(*rows, GAMMA, lam)
        np.testing.assert_allclose(lesson.target[critic], wanted, atol=1e-5)


def test_eipos_loss_and_gradient_equal_pytorchs():
    """Both policies over the one that acted, clipped, and only the critics of who acted."""
    config, n, rng = learner(EIPO(), clip=0.2, clip_values=False), 16, np.random.default_rng(2)
    logits, values = rng.normal(size=(2 * ACTIONS, n)), rng.normal(size=(3, n))
    action, before = rng.integers(0, ACTIONS, n), np.log(rng.uniform(0.1, 0.6, n))
    advantage, target, critics = rng.normal(size=(2, n)), rng.normal(size=(3, n)), np.array([1.0, 1.0, 0.0])
    single = [jnp.asarray(x, jnp.float32) for x in (before, advantage, values, target, np.ones(n))]
    empty = jnp.zeros((1, n))
    minibatch = Minibatch(empty, empty, empty, jnp.asarray(action), *single, critics=jnp.asarray(critics, jnp.float32))

    def loss(logits, values):
        return _learn.ppo_loss(config, Output(logits, values), minibatch)[0]

    mine, gradient = jax.value_and_grad(loss, argnums=(0, 1))(*(jnp.asarray(x, jnp.float32) for x in (logits, values)))
    theirs = [tensor(logits).requires_grad_(), tensor(values).requires_grad_()]
    total = 0.5 * (tensor(critics)[:, None] * (theirs[1] - tensor(target)) ** 2).sum(0).mean()
    for policy in range(2):
        found = torch.distributions.Categorical(logits=theirs[0][policy * ACTIONS : (policy + 1) * ACTIONS].T)
        ratio, gained = torch.exp(found.log_prob(torch.tensor(action)) - tensor(before)), tensor(advantage[policy])
        clipped = torch.min(ratio * gained, ratio.clamp(0.8, 1.2) * gained)
        total = total - clipped.mean() - config.entropy_coefficient * found.entropy().mean()
    total.backward()
    np.testing.assert_allclose(mine, total.item(), rtol=1e-5)
    for one, other in zip(gradient, theirs, strict=True):
        np.testing.assert_allclose(one, other.grad, atol=1e-6)


@pytest.mark.parametrize(("gain", "moved"), [(-0.02, 0.02), (0.01, -0.01), (-9.0, 0.05), (9.0, -0.05)])
def test_eipos_multiplier_steps_down_the_slope(gain, moved):
    """alpha <- alpha - rate * clip(J_E(mixed) - J_E(extrinsic)), in the max stage alone, and never below 0."""
    method, seen = EIPO(alpha=0.4, alpha_rate=20.0), experience(3)
    config, state = learner(method), method.init()
    own = method.lesson(config, state, seen).advantage[EXTRINSIC]

    def gains(policy, advantage):
        assert policy == MIXED
        return jnp.where(jnp.allclose(advantage, own), gain, jnp.nan)

    after = method.after(config, state, seen, gains)
    np.testing.assert_allclose(after.alpha, max(0.0, 0.4 + 20 * moved), rtol=1e-5)
    np.testing.assert_allclose(method.bonus_weight(after), 1 / (1 + after.alpha))
    still = method.after(config, state._replace(max_stage=jnp.zeros((), bool)), seen, gains)
    assert float(still.alpha) == pytest.approx(0.4)


def test_eipos_stage_ends_when_its_utility_does_not_rise():
    method, seen = EIPO(), experience(3)
    config, first = learner(method), method.init()
    step = lambda state: method.after(config, state, seen, lambda *_: jnp.zeros(()))  # noqa: E731
    stages = [first]
    for _ in range(4):
        stages.append(step(stages[-1]))
    assert [bool(state.max_stage) for state in stages] == [True, True, False, False, True]  # it rises from -inf once
    assert np.isneginf(stages[1].last).tolist() == [False, True]


def test_a_policy_that_did_not_change_gains_its_mean_advantage():
    """The gain of a rollout is PPO's surrogate, whose ratios are 1 under the policy that acted."""
    config = learner(EIPO(), num_envs=2, num_steps=8, minibatch_size=8, hidden_size=8, head_size=8)
    carry = ppo.init(config, jax.random.key(3))
    for policy in (MIXED, EXTRINSIC):
        world, steps = _rollout.collect(
            config.env,
            config.network,
            config.intrinsic,
            carry.learner.params,
            carry.world,
            jax.random.key(policy),
            num_steps=8,
            stepwise=True,
            truncation="settle",
            restart="settle",
            policy=jnp.asarray(policy),
        )
        end = ends("settle", steps.terminated, steps.truncated)
        values = _update._values(config, carry.learner.params, world, steps, end)
        seen = Experience(steps.reward, steps.bonus, *values, end.over, jnp.zeros((8, 1)))
        batch = _update._batch(config, steps, values[0], EIPO().lesson(config, carry.method, seen))
        advantage = jnp.asarray(np.random.default_rng(0).normal(size=(8, 2)), jnp.float32)
        gains = [_learn.gain(config, carry.learner.params, batch, each, advantage) for each in (MIXED, EXTRINSIC)]
        np.testing.assert_allclose(gains[policy], advantage.mean(), rtol=1e-4)
        assert abs(gains[1 - policy] - advantage.mean()) > 1e-3  # the other policy is another one


def test_bsrs_adds_differences_of_the_learners_value():
    """Over an episode that starts and ends in the rollout the potentials cancel but for the first."""
    method, seen = BSRS(eta=0.7), experience(1)
    config = learner(method, reward_scale=2.0)
    added = np.asarray(method.shape(config, seen) - seen.shaped)
    powers = GAMMA ** np.arange(STEPS)
    for lane, last in enumerate((1, 3, 4)):
        total = (powers[: last + 1] * added[: last + 1, lane]).sum()
        np.testing.assert_allclose(total, -0.7 * seen.value[0, 0, lane] / 2, rtol=1e-5)


def test_bsrs_is_a_learner_whose_critic_counts_more():
    """R + gamma V' - V + eta (gamma V' - V) is the error of a critic (1 + eta) V, at any lambda and scale."""
    seen, eta = experience(1), 0.7
    larger = seen._replace(value=(1 + eta) * seen.value, next_value=(1 + eta) * seen.next_value)
    found = BSRS(eta=eta).lesson(learner(BSRS(eta=eta), reward_scale=2.0), (), seen)
    plain = PLAIN.lesson(learner(PLAIN, method=None, reward_scale=2.0), (), larger)
    np.testing.assert_allclose(found.advantage, plain.advantage, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.target - seen.value, plain.target - larger.value, rtol=1e-4, atol=1e-5)


def test_two_critics_add_advantages_of_their_own_discounts():
    """A_E stops at ends; A_I, with lambda = 1, is the return that goes on into the next episode, less the value."""
    seen = experience(2)
    endless = TwoCritics(extrinsic=2.0, intrinsic=0.5)
    config = learner(endless, intrinsic_gamma=0.8, gae_lambda=1.0)
    found = endless.advantages(config, seen)
    rows = tensor(seen.reward), tensor(seen.value[0]), tensor(seen.next_value[0]), tensor(seen.over)
    np.testing.assert_allclose(found[0], gae(*rows, GAMMA, 1.0), atol=1e-5)
    returns = np.asarray(seen.following[1, -1], float)
    for t in reversed(range(STEPS)):
        returns = np.asarray(seen.shaped[t]) + 0.8 * returns
        np.testing.assert_allclose(found[1, t], returns - seen.value[1, t], atol=1e-5)
    lesson = endless.lesson(config, (), seen)
    np.testing.assert_allclose(lesson.advantage, 2 * found[0] + 0.5 * found[1], rtol=1e-6)
    episodic = TwoCritics(extrinsic=1.0, intrinsic=1.0, episodic=True)
    plain = PLAIN.lesson(learner(episodic, method=None, intrinsic_gamma=0.8), (), seen)
    ours = episodic.lesson(learner(episodic, intrinsic_gamma=0.8), (), seen)
    np.testing.assert_allclose(ours.advantage, plain.advantage, rtol=1e-6)
    np.testing.assert_allclose(ours.target, plain.target, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS, ids=lambda cls: cls.kind)
def test_a_method_states_its_guarantee_and_never_promises_to_cancel(method):
    assert method.summary
    assert method.guarantee.assumption
    assert method.guarantee.level in (Level.LIMIT, Level.NONE)
    exact = pbim.GRM(gamma=GAMMA)
    assert learner(method(), method=None, shaping=exact).exact
    assert not learner(method(), shaping=exact).exact


def test_the_methods_of_the_related_work_are_listed():
    assert {method.kind for method in METHODS} == {"eipo", "adops", "adopes", "bsrs", "two-critics"}


@pytest.mark.parametrize(
    ("method", "changes", "words"),
    [
        (Adops(), {"critics": "joint"}, "method adops needs two critics"),
        (Adopes(), {"intrinsic_gamma": 0.8}, "share one gamma"),
        (TwoCritics(), {"critics": "joint"}, "method two-critics needs two critics"),
        (TwoCritics(), {"intrinsic": None}, "needs a bonus"),
        (Adops(), {"intrinsic": None}, "needs a bonus"),
        (Adopes(), {"shaping": pbim.NoBonus()}, "needs a bonus, which shaping none keeps from it"),
        (EIPO(), {"shaping": pbim.NoBonus()}, "needs a bonus, which shaping none keeps from it"),
        (EIPO(), {"task_reward": "none"}, "method eipo needs the task's reward"),
        (Adops(), {"task_reward": "none"}, "method adops needs the task's reward"),
        (TwoCritics(), {"task_reward": "none"}, "method two-critics needs the task's reward"),
        (EIPO(), {"intrinsic": None}, "needs a bonus"),
        (EIPO(), {"critics": "separate"}, "own three critics"),
        (BSRS(), {"critics": "separate"}, "one critic"),
    ],
)
def test_a_learner_without_what_a_method_needs_is_refused(method, changes, words):
    with pytest.raises(InputError, match=words) as caught:
        learner(method, **changes)
    assert "\n" not in str(caught.value)


def test_settings_out_of_range_are_refused():
    for make, words in (
        (lambda: EIPO(alpha=-0.1), "alpha"),
        (lambda: EIPO(alpha_clip=0.0), "alpha_clip"),
        (lambda: BSRS(eta=-1.0), "eta"),
        (lambda: TwoCritics(extrinsic=0.0), "extrinsic"),
        (lambda: Adops(rise_frames=-1), "rise_frames"),
        (lambda: Adops(epsilon=0.0), "epsilon"),
        (lambda: Adops(epsilon=float("inf")), "epsilon"),
        (lambda: EIPO(alpha=1e308), r"alpha .* received 1e\+308, which is inf in single precision"),
        (lambda: EIPO(alpha_clip=1e-320), "alpha_clip .* which is 0.0 in single precision"),
        (lambda: BSRS(eta=1e39), "eta .* inf in single precision"),
        (lambda: TwoCritics(intrinsic=1e39), "intrinsic .* inf in single precision"),
        (lambda: Adopes(epsilon=1e-60), "epsilon .* which is 0.0 in single precision"),
        (lambda: Adopes(rise_frames=10**400), "rise_frames .* inf in single precision"),
    ):
        with pytest.raises(InputError, match=words):
            make()
    with pytest.raises(InputTypeError, match="method"):
        ppo.PPO(env=CliffWalk(), method="eipo")


def test_a_rise_longer_than_any_index_is_a_share_of_nearly_nothing():
    share = Adopes(rise_frames=10**20).coefficient(jnp.array([0, 2**30], jnp.int32))
    np.testing.assert_allclose(share, [0.0, 2**30 / 1e20], rtol=1e-6)


def test_the_example_draws_the_coefficients_course(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "eipo.py"
    done = subprocess.run([sys.executable, example, "512"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the bonus counts 0.67 at first") == 2
    assert (tmp_path / "eipo.png").read_bytes()[1:4] == b"PNG"


@cache
def _corridor():
    states, actions = np.arange(5), np.array([-1, 1, 0])
    successor = np.clip(states[:, None] + actions, 0, 4)[..., None].astype(np.int32)
    goal = successor == 4
    return Table(
        chance=np.ones(goal.shape),
        successor=successor,
        reward=1.0 * goal,
        terminal=goal,
        start=np.array([1.0, 1, 1, 1, 1]),
    )


@dataclass(frozen=True, kw_only=True)
class Corridor(TableEnvironment):
    """Left, right and stay; the right end pays 1 and terminates."""

    kind = "corridor"
    max_steps: int = 20

    @property
    def table(self):
        return _corridor()


@dataclass(frozen=True, kw_only=True)
class Paid(Component):
    """A bonus for one action."""

    action: int
    size: float
    stepwise = True

    def init(self, key, spec):
        del key, spec
        return ()

    def reward_fn(self, state, transition):
        del state
        return self.size * (transition.action == self.action)

    def update_fn(self, state, transition):
        del transition
        return state


@pytest.mark.learning
def test_a_harmful_bonus_loses_weight_and_a_helpful_one_does_not():
    """Means of five seeds: 0.3 for standing still is worth more than the goal; going right leads to it."""
    weight = {}
    for name, bonus in (("harmful", Paid(action=2, size=0.3)), ("helpful", Paid(action=1, size=0.05))):
        config = ppo.PPO(
            env=Corridor(),
            intrinsic=bonus,
            shaping=pbim.Raw(),
            method=EIPO(alpha_rate=1.0),
            num_envs=8,
            num_steps=32,
            minibatch_size=64,
            memory="none",
            recurrence=1,
            hidden_size=16,
            head_size=16,
            total_frames=256 * 80,
        )
        keys = jax.vmap(jax.random.key)(np.arange(5))
        course = jax.jit(jax.vmap(lambda key, config=config: ppo.train(config, key)[1].bonus_weight))(keys)
        weight[name] = np.asarray(course).mean(axis=0)
    assert weight["harmful"][-1] < weight["harmful"][0] - 0.05
    assert weight["helpful"][-1] >= weight["helpful"][0]


def test_skills_are_checked_inside_a_composition():
    scaled = Scaled(pbim.DIAYN(count=4), 0.1)
    for env, said in (
        (CliffWalk(), "needs episodes that follow skills"),
        (Skills(env=CliffWalk(), count=8), "count of 4"),
    ):
        with pytest.raises(InputError, match=said):
            ppo.PPO(env=env, intrinsic=scaled, shaping=pbim.Raw())


def test_a_method_is_no_conversion():
    with pytest.raises(InputTypeError, match=r"shaping must be an object of pbim\.shaping"):
        ppo.PPO(env=CliffWalk(), intrinsic=EpisodicCount(), shaping=BSRS())
