"""An audit finds the potential of a safe term, and of an unsafe one what a person understands."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import pbim
from pbim.verification.audit_report import REASONS
from verification.audit_logs import complete_log, corridor, cycle_space, shaped

GAMMA = 0.9
PHI = np.array([1.0, 4.0, -2.0, 3.0, 0.5, 7.0])


@pytest.fixture(scope="module")
def log():
    return corridor()


def report_on(log, term, gamma=GAMMA, **options):
    return pbim.audit(**log, term=term, gamma=gamma, **options)


# --- exactness ---


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_the_verdict_is_that_of_the_cycle_space_and_every_unsafe_term_changes_a_task(start):
    """200 random MDPs: F is safe iff adding it to the columns of gamma Phi(s') - Phi(s) does not raise the rank."""
    for seed in range(start, start + 50):
        rng = np.random.default_rng(seed)
        log, states = complete_log(rng)
        gamma = float(rng.choice([0.5, 0.9, 0.99, 1.0]))
        matrix = cycle_space(log, states, gamma)
        term = matrix @ rng.integers(-4, 5, states)
        if seed % 3:
            term = term + rng.integers(-2, 3, len(term)) * (rng.random(len(term)) < 0.3)
        report = report_on(log, term, gamma)
        rank, with_term = (np.linalg.matrix_rank(m, tol=1e-8) for m in (matrix, np.column_stack([matrix, term])))
        assert report.potential_based == (rank == with_term), seed
        assert report.coverage.checks == len(term) - rank, seed
        if report.potential_based:
            found = np.array([report.potential[state] for state in sorted(report.potential)])
            np.testing.assert_allclose(matrix[:, sorted(report.potential)] @ found, term, atol=1e-9)
            continue
        task = report.witness.task()
        raw, converted = (
            pbim.verify(task.mdp, intrinsic=task.bonus, shaping=shaping, horizon=task.horizon, max_histories=10**9)
            for shaping in (pbim.Raw(), pbim.Geometric(gamma=gamma, rate=0.5))
        )
        assert raw.costly is not None, seed
        assert converted.preserved or converted.undecided, seed


@pytest.mark.parametrize("seed", range(40))
def test_what_a_witness_says_is_in_the_log_and_adds_up(seed):
    rng = np.random.default_rng(1000 + seed)
    log, states = complete_log(rng)
    gamma = float(rng.choice([0.5, 0.9, 1.0]))
    term = cycle_space(log, states, gamma) @ rng.integers(-4, 5, states) + rng.integers(-2, 3, len(log["obs"]))
    witness = report_on(log, term, gamma).witness
    if witness is None:
        return
    for way in filter(None, (witness.way, witness.instead)):
        here = way.start
        for step in way.steps:
            row = step.row
            assert step.state == here == log["obs"][row]
            assert (step.next_state, step.pay) == (log["next_obs"][row], term[row])
            here = step.next_state
        if way.repeats is not None:
            assert here == way.steps[way.repeats].state
    if witness.kind == "ways":
        assert witness.difference == pytest.approx(witness.way.total - witness.instead.total)
    elif witness.kind == "cycle":
        once = sum(gamma**step * part.pay for step, part in enumerate(witness.way.steps))
        after = 0 if witness.instead is None else witness.instead.total
        assert witness.difference == pytest.approx(once + (gamma ** len(witness.way.steps) - 1) * after)


# --- numbers ---


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("gamma", [0.9, 0.99, 1.0])
def test_long_corridors_are_judged_right_in_either_precision(gamma, ends, dtype):
    """A potential propagated backward over 1,000 states would be off by 0.9^-1000; one pay off by 1/1000 is found."""
    length = 1000
    here = np.concatenate([np.arange(length - 1), np.arange(1, length)])
    there = np.concatenate([np.arange(1, length), np.arange(length - 1)])
    kept = ~((here == length - 1) & ends)
    log = {"obs": here[kept], "next_obs": there[kept], "terminated": ((there == length - 1) & ends)[kept]}
    potential = np.random.default_rng(0).normal(size=length).astype(dtype)
    term = shaped(log, potential, dtype(gamma)).astype(dtype)
    assert report_on(log, term, gamma).potential_based
    assert report_on(log, term.astype(float), gamma).potential_based  # single precision kept in double
    term[300] += dtype(1e-3)
    assert not report_on(log, term, gamma).potential_based


def test_the_fitted_potential_is_the_one_that_was_used(log):
    report = report_on(log, shaped(log, PHI, GAMMA))
    assert report.potential_based
    assert report.violation < 1e-12
    assert report.potential == pytest.approx({state: PHI[state] for state in range(5)} | {5: 0.0})
    assert report.witness is None


def test_a_safe_term_inverts_no_pair_of_whole_episodes_from_one_start(log):
    whole = np.isin(log["episode"], log["episode"][log["terminated"]])
    log = {name: column[whole] for name, column in log.items()}
    assert report_on(log, shaped(log, PHI, GAMMA)).inversions == 0
    assert report_on(log, shaped(log, PHI, 1.0)).inversions > 0


def test_a_tolerance_forgives_rounded_logs(log):
    term = np.round(shaped(log, PHI, GAMMA) / 3, 4)
    assert not report_on(log, term).potential_based
    assert report_on(log, term, tolerance=1e-4).potential_based


@pytest.mark.parametrize("library", [list, jnp.asarray, torch.as_tensor])
def test_lists_and_arrays_of_any_library_give_the_same_verdict(log, library):
    term = shaped(log, PHI, GAMMA).astype(np.float32)
    columns = {name: library(column.tolist()) for name, column in log.items()}
    assert report_on(columns, library(term.tolist())).potential_based
    assert not report_on(columns, library((log["next_obs"] == 4).astype(float).tolist())).potential_based


def test_states_are_anything_hashable_rows_or_keys(log):
    term = shaped(log, PHI, GAMMA)
    names = np.array(["far", "a", "b", "c", "near", "goal"])
    pairs = np.stack([np.arange(6) // 2, np.arange(6) % 2], axis=1)
    for table in (names, list(names), pairs, pairs / 8, [tuple(pair) for pair in pairs.tolist()]):
        change = {part: [table[state] for state in log[part]] for part in ("obs", "next_obs")}
        assert report_on(log | change, term).potential_based
    images = {part: np.stack([log[part], np.arange(len(term))], axis=1) for part in ("obs", "next_obs")}
    assert report_on(log | images, term).coverage.checks == 0  # every row a state of its own
    assert report_on(log | images, term, key=lambda row: int(row[0])).potential == report_on(log, term).potential
    both = {part: {"place": log[part], "zero": np.zeros_like(log[part])} for part in ("obs", "next_obs")}
    assert report_on(log | both, term).potential_based


def test_large_whole_numbers_and_other_precisions_stay_one_state(log):
    term = shaped(log, PHI, GAMMA)
    checks = report_on(log, term).coverage.checks
    for one, other in (
        (lambda cell: (cell + 2**60).astype(np.uint64), lambda cell: cell + 2**60),
        (lambda cell: cell, lambda cell: cell.astype(float)),
        (lambda cell: cell * 0.1, lambda cell: (cell * 0.1).astype(np.float32)),
    ):
        report = report_on(log | {"obs": one(log["obs"]), "next_obs": other(log["next_obs"])}, term)
        assert (report.potential_based, report.coverage.checks) == (True, checks)


@pytest.mark.parametrize("library", [lambda x: torch.as_tensor(x).bfloat16(), lambda x: jnp.asarray(x, jnp.bfloat16)])
def test_pays_in_half_precision_are_judged_by_its_rounding(log, library):
    assert report_on(log, library(shaped(log, PHI, GAMMA))).potential_based
    assert not report_on(log, library(0.5 * (log["next_obs"] == 4))).potential_based


# --- names of mistakes ---


def test_a_cycle_that_pays_is_the_witness_of_dwelling(log):
    report = report_on(log, 0.5 * (log["next_obs"] == 4))
    assert (report.potential_based, report.reason) == (False, "not-potential-based")
    assert report.witness.kind == "cycle"
    assert [step.state for step in report.witness.way.steps] == [4]
    assert "4 -> 4 pays 0.5 in each round" in str(report)
    assert "pbim.wrap(env, intrinsic=term, shaping=pbim.Geometric(gamma=0.9))" in str(report)


def test_two_episodes_are_enough_where_one_fits_and_the_other_judges():
    rng = np.random.default_rng(0)
    walk = rng.normal(size=(2, 101, 2)).cumsum(axis=1)
    obs, next_obs = (walk[:, rows].reshape(-1, 2) for rows in (slice(-1), slice(1, None)))
    log = {"obs": obs, "next_obs": next_obs, "terminated": np.zeros(200, bool), "episode": np.repeat([0, 1], 100)}
    safe, unsafe = (
        pbim.audit(**log, term=term, gamma=0.9, features=lambda obs: obs[:, :1])
        for term in (0.9 * next_obs[:, 0] - obs[:, 0], 0.9 * next_obs[:, 0] - obs[:, 0] + 0.5 * obs[:, 1])
    )
    assert safe.potential_based
    assert not unsafe.potential_based


def test_a_forgotten_gamma_with_two_ends_of_different_worth_is_both_mistakes():
    """With one end a constant would make its potential zero, and gamma alone would be at fault."""
    obs = np.array([0, 1, 1, 0, 1, 0, 0, 1])
    next_obs = np.array([1, 0, 2, 3, 2, 1, 3, 0])
    worth = np.array([1.0, 4.0, 2.0, 7.0])
    report = pbim.audit(
        obs=obs, next_obs=next_obs, term=worth[next_obs] - worth[obs], terminated=next_obs >= 2, gamma=0.9
    )
    assert (report.potential_based, report.reason) == (False, "gamma-forgotten")
    assert "not zero at the end" in str(report)


def test_states_may_be_things_of_ones_own():
    states = [("a", 1), "b", frozenset("c")]
    column = np.empty(4, object)
    column[:] = [states[0], states[1], states[0], states[2]]
    after = np.empty(4, object)
    after[:] = [states[1], states[0], states[2], states[0]]
    report = pbim.audit(obs=column, next_obs=after, term=np.eye(4)[0], terminated=np.zeros(4, bool), gamma=0.9)
    assert not report.potential_based  # (a, 1) -> b -> (a, 1) pays 1, over {c} it pays 0


def test_a_bonus_for_coming_closer_pays_for_going_back_and_forth(log):
    witness = report_on(log, 0.1 * (log["next_obs"] > log["obs"])).witness
    assert witness.kind == "cycle"
    assert len(witness.way.steps) == 2
    assert witness.difference > 0


@pytest.mark.parametrize(
    ("make", "reason", "words"),
    [
        (lambda log: shaped(log, PHI, 1.0), "gamma-forgotten", "gamma is forgotten"),
        (lambda log: shaped(log, PHI, GAMMA, zero_at_end=False), "ends-not-zero", "7 at 5"),
        (lambda log: shaped(log, PHI, 1.0, zero_at_end=False), "gamma-forgotten", "gamma is forgotten"),
        (lambda log: shaped(log, PHI, 0.95), "other-gamma", "0.95 Phi(s')"),
        (lambda log: shaped(log, PHI, 0.937), "other-gamma", "0.937 Phi(s')"),
        (lambda log: np.full(len(log["obs"]), -0.01), "ends-not-zero", "0.1 at 5"),
    ],
)
def test_common_mistakes_are_named(log, make, reason, words):
    report = report_on(log, make(log))
    assert report.reason == reason
    assert words in str(report.witness)
    assert report.witness.task() is not None


def test_without_discount_a_constant_is_free_where_nothing_ends():
    log = {"obs": [0, 1, 2], "next_obs": [1, 2, 0], "terminated": [False] * 3}
    assert report_on(log, [5.0, -2.0, -3.0], gamma=1).potential_based
    report = report_on(log, [5.0, -2.0, -2.0], gamma=1)
    assert not report.potential_based
    assert str(report.witness).endswith("pays 1 in each round (rows 0, 1, 2); a potential pays 0 per round.")


def test_truncated_transitions_are_ordinary(log):
    """The state in which a time limit cuts off keeps its potential; only termination sets it to zero."""
    term = shaped(log, PHI, GAMMA)
    assert report_on(log, term).potential_based
    wrong = np.where(log["truncated"], -PHI[log["obs"]], term)
    assert not report_on(log, wrong).potential_based
    assert not report_on(log | {"terminated": log["terminated"] | log["truncated"]}, term).potential_based


def test_a_term_that_counts_is_recognised_and_sent_to_the_conversions():
    counts = np.zeros(6)
    log, term = corridor(), []
    for state in log["next_obs"]:
        counts[state] += 1
        term.append(1 / counts[state])
    report = report_on(log, term)
    assert report.reason == "history-dependent"
    one, other = report.witness.way.steps[0], report.witness.instead.steps[0]
    assert (one.state, one.next_state) == (other.state, other.next_state)
    assert one.pay > other.pay
    assert "env.certificate()" in str(report)
    assert report.witness.task() is None


def test_a_term_that_depends_on_the_action_is_called_so():
    log = {"obs": [0, 0, 0], "next_obs": [1, 1, 1], "terminated": [True] * 3}
    assert report_on(log, [1.0, 2.0, 1.0]).reason == "history-dependent"
    assert report_on(log, [1.0, 2.0, 1.0], action=["left", "right", "left"]).reason == "action-dependent"
    assert report_on(log, [1.0, 2.0, 1.5], action=["left", "right", "left"]).reason == "history-dependent"


def test_actions_that_never_recur_are_no_evidence_about_actions():
    log = {"obs": [0, 0, 0], "next_obs": [1, 1, 1], "terminated": [True] * 3}
    assert report_on(log, [1.0, 2.0, 3.0], action=[0.1, 0.2, 0.3]).reason == "history-dependent"


def test_an_end_and_a_state_that_goes_on_are_not_one_place_without_discount():
    """Both ways lead into 2, but one of them ends there: paid differently, they alone contradict nothing."""
    log = {"obs": [1, 1, 0, 0, 3], "next_obs": [2, 0, 2, 3, 2], "terminated": [False, False, True, False, False]}
    report = report_on(log, [1.5, 0.0, 0.5, 0.0, 0.0], gamma=1)
    assert (report.potential_based, report.witness.kind) == (False, "open ways")


def test_one_step_episodes_may_end_in_different_places_only_for_the_same_pay():
    log = {"obs": [0, 0], "next_obs": [1, 2], "terminated": [True, True]}
    assert report_on(log, [3.0, 3.0]).potential_based
    report = report_on(log, [3.0, 1.0])
    assert not report.potential_based
    assert report.witness.task() is not None


# --- coverage, inversions, plain data ---


def test_coverage_says_what_was_not_tested():
    chain = {"obs": [0, 1, 5], "next_obs": [1, 2, 6], "terminated": [False, True, False]}
    report = report_on(chain, [1.0, 2.0, 3.0])
    coverage = report.coverage
    assert report.potential_based
    assert (coverage.states, coverage.components, coverage.ends, coverage.dead_ends, coverage.checks) == (5, 2, 1, 1, 0)
    assert "Nothing was tested" in str(report)


def brute_force(returns, totals):
    pairs = [(a, b) for a in range(len(returns)) for b in range(len(returns))]
    inverted = [(a, b) for a, b in pairs if returns[a] > returns[b] and totals[a] < totals[b]]
    worst = max((returns[a] - returns[b] for a, b in inverted), default=None)
    return len(inverted), worst


@pytest.mark.parametrize("seed", range(8))
def test_inversions_are_all_the_pairs_that_change_places(seed):
    rng = np.random.default_rng(seed)
    episodes = int(rng.integers(2, 200))
    returns, pays = rng.integers(0, 6, episodes) / 1.0, rng.integers(-4, 5, episodes) / 1.0
    order = rng.permutation(episodes)
    report = pbim.audit(
        obs=np.zeros(episodes), next_obs=np.ones(episodes), term=pays, extrinsic=returns, episode=order,
        terminated=np.ones(episodes, bool), gamma=GAMMA,
    )  # fmt: skip
    count, worst = brute_force(returns, returns + pays)
    assert report.inversions == report.ranking.same_start == count
    if worst is None:
        assert report.worst_inversion is None
    else:
        better, worse = report.worst_inversion.returns
        assert better - worse == worst


def test_returns_are_discounted_and_rows_of_episodes_may_alternate():
    report = pbim.audit(
        obs=[0, 0, 1, 1], next_obs=[1, 1, 2, 2], term=[0, 0, 0, 1.0], extrinsic=[0, 0.85, 1, 0], gamma=GAMMA,
        terminated=[False, False, True, True], episode=["a", "b", "a", "b"],
    )  # fmt: skip
    assert report.inversions == 1
    assert report.worst_inversion.returns == pytest.approx((0.9, 0.85))
    assert report.worst_inversion.totals == pytest.approx((0.9, 1.75))


def test_without_episodes_rows_that_do_not_follow_each_other_are_not_ranked(log):
    columns = {name: column for name, column in log.items() if name != "episode"}
    term = 0.5 * (log["next_obs"] == 4)
    assert report_on(columns, term).inversions == report_on(log, term).inversions > 0
    mixed = {name: column[::-1] for name, column in columns.items()}
    assert report_on(mixed, term[::-1]).inversions is None


def test_continuous_rows_that_do_not_follow_each_other_are_not_ranked_either(plane):
    rows = len(plane["obs"])
    last = np.append(plane["episode"][1:] != plane["episode"][:-1], True)
    columns = {name: plane[name] for name in ("obs", "next_obs", "terminated")} | {"truncated": last}
    columns |= {"extrinsic": np.ones(rows)}
    term = distance(plane, GAMMA)
    assert report_on(columns, term).inversions is not None
    order = np.argsort(np.arange(rows) % 2, kind="stable")
    assert report_on({name: column[order] for name, column in columns.items()}, term[order]).inversions is None


def test_a_report_is_plain_data(log):
    for term in (shaped(log, PHI, GAMMA), shaped(log, PHI, 1.0), np.arange(len(log["obs"]))):
        report = report_on(log, term)
        data = json.loads(report.to_json())
        assert data["potential_based"] == report.potential_based
        assert data["reason"] in REASONS
        assert (data["witness"] is None) == report.potential_based


# --- continuous observations ---


@pytest.fixture(scope="module")
def plane():
    rng, rows = np.random.default_rng(0), []
    for episode in range(60):
        here = rng.uniform(-1, 1, 2)
        for _ in range(40):
            there = np.clip(here + 0.1 * rng.normal(size=2), -1.5, 1.5)
            over = bool(np.linalg.norm(there) < 0.15)
            rows.append((here, there, over, episode))
            here = there
            if over:
                break
    names = ("obs", "next_obs", "terminated", "episode")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def distance(plane, gamma):
    before, after = (np.linalg.norm(plane[name], axis=1) for name in ("obs", "next_obs"))
    return gamma * np.where(plane["terminated"], 0, -after) + before


def test_a_class_of_potentials_judges_continuous_observations(plane):
    safe = report_on(plane, distance(plane, GAMMA))
    assert safe.potential_based
    assert "no proof" in str(safe)
    near = np.exp(-np.linalg.norm(plane["next_obs"], axis=1))
    dwelling = report_on(plane, near)
    assert not dwelling.potential_based
    assert dwelling.share < 0.9
    assert "no potential of this class" in str(dwelling)
    assert safe.potential(plane["obs"]).shape == (len(plane["obs"]),)


def walks(size, *, count=80, steps=40):
    rng = np.random.default_rng(size)
    goal = rng.normal(size=size)
    walk = np.cumsum(rng.normal(0, 0.15, (count, steps + 1, size)), axis=1) + rng.uniform(-1, 1, (count, 1, size))
    log = {"obs": walk[:, :-1].reshape(-1, size), "next_obs": walk[:, 1:].reshape(-1, size)}
    log |= {"terminated": np.zeros(count * steps, bool), "episode": np.repeat(np.arange(count), steps)}
    return log, goal


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("gamma", [0.9, 0.99])
def test_a_forgotten_gamma_is_told_from_a_distance_to_an_unknown_place(size, gamma):
    log, goal = walks(size)
    before, after = (-np.linalg.norm(log[name] - goal, axis=1) for name in ("obs", "next_obs"))
    right = pbim.audit(**log, term=gamma * after - before, gamma=gamma)
    wrong = pbim.audit(**log, term=after - before, gamma=gamma)
    assert right.rival is None
    assert right.share > 0.995
    assert right.potential_based or (size > 2 and right.reason == "undecided")  # few rows for a class of 4 dimensions
    assert (wrong.potential_based, wrong.reason) == (False, "gamma-forgotten")
    assert wrong.rival_share > wrong.share


def test_a_rival_names_what_a_potential_of_the_class_cannot_explain():
    log, goal = walks(2)
    at, step = log["obs"] - goal, log["next_obs"] - log["obs"]
    before, after = (-np.linalg.norm(log[name] - goal, axis=1) for name in ("obs", "next_obs"))
    circling = pbim.audit(**log, term=at[:, 0] * step[:, 1] - at[:, 1] * step[:, 0], gamma=0.99)
    dwelling = pbim.audit(**log, term=0.99 * after - before + np.exp(after), gamma=0.99)
    assert "reward for the step" in circling.rival
    assert "reward for the state" in dwelling.rival
    for report in (circling, dwelling):
        assert (report.potential_based, report.reason) == (False, "not-potential-based")
        assert "UNSAFE as far as this class tells" in str(report)
        assert json.loads(report.to_json())["rival_share"] > 0.9


def test_what_neither_a_potential_nor_a_rival_explains_is_undecided():
    log, _ = walks(2)
    report = pbim.audit(**log, term=np.random.default_rng(1).normal(size=len(log["obs"])), gamma=0.99)
    assert (report.potential_based, report.reason, report.rival) == (False, "undecided", None)
    assert str(report).startswith("UNDECIDED")
    assert "pbim.wrap" not in str(report)


def test_given_features_are_judged_to_the_last_digit(plane):
    def squares(obs):
        return np.column_stack([np.ones(len(obs)), obs**2])

    before, after = ((plane[name] ** 2) @ [1, 2] + 3 for name in ("obs", "next_obs"))
    term = GAMMA * np.where(plane["terminated"], 0, after) - before
    report = report_on(plane, term, features=squares)
    assert report.potential_based
    np.testing.assert_allclose(report.potential(plane["obs"]), before, atol=1e-6)
    assert not report_on(plane, term + 1e-4 * (after < 3.1), features=squares).potential_based
    assert not report_on(plane, term, features=lambda obs: obs).potential_based
