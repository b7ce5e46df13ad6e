"""Workers that learn together: merges lose nothing and count nothing twice, whatever their order and number."""

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from hypothesis import given, strategies as st

import pbim
from pbim.adapters._bonus import Spaces
from pbim.adapters._engine import RewardPath
from pbim.adapters._pool import Pool
from pbim.intrinsic.protocol import Transition

SPACES = Spaces(Discrete(6), Discrete(2))
LANES = 2


class Worker:
    """One worker of an imagined framework: a path, and a pool that knows of the others."""

    def __init__(self, bonus: Any, shaping: Any) -> None:
        self.path, self.pool, self.steps = RewardPath(bonus, shaping, LANES, SPACES), Pool(bonus, shaping), 0

    def step(self, places: Any, last: bool = False) -> Any:
        arrivals, no = np.array(places), np.zeros(LANES, bool)
        step = Transition(arrivals[::-1].copy(), arrivals % 2, arrivals, no | last, no, {})
        if self.steps == 0:
            self.path.intrinsic.reward(step)
            self.pool.give(self.path, 0)
        rewards = self.path.step(step, np.zeros(LANES))
        self.steps += LANES
        return rewards.shaping

    def state(self) -> Any:
        if self.steps:
            self.pool.note(self.path, self.steps)
        return self.pool.state()

    def take(self, state: Any) -> None:
        self.pool.join([state])
        if self.steps:
            self.pool.give(self.path, self.steps)


def counts_of(worker: Worker) -> dict[str, int]:
    arrays = worker.path.state_dict()
    return dict(zip(arrays["intrinsic.key"].tolist(), arrays["intrinsic.value"].tolist(), strict=True))


def make(bonus: Any, number: int, shaping: Any = None) -> list[Worker]:
    return [Worker(bonus(), pbim.PBIM(gamma=0.9) if shaping is None else shaping) for _ in range(number)]


def driver_of(bonus: Any) -> Pool:
    return Pool(bonus(), pbim.PBIM(gamma=0.9))


places = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=4)
rounds = st.lists(st.tuples(places, places, st.booleans(), st.integers(0, 2)), min_size=1, max_size=5)


@given(rounds)
def test_sums_are_those_of_all_steps_however_often_states_meet(history: Any) -> None:
    """Steps of two workers, merges in between that may come twice, late, or not at all."""
    one, other = make(pbim.LifetimeCount, 2)
    driver = driver_of(pbim.LifetimeCount)
    expected: dict[str, int] = {}
    old: Any = None
    for first, second, merged, again in history:
        for worker, steps in ((one, first), (other, second)):
            for pair in steps:
                worker.step(pair)
                for place in pair:
                    expected[str(place)] = expected.get(str(place), 0) + 1
        if merged:
            states = [one.state(), other.state()]
            for _ in range(1 + again):
                driver.merge(states if again < 2 or old is None else [*states, *old, *states])
                one.take(driver.state())
                other.take(driver.state())
            old = states
            assert counts_of(one) == counts_of(other) == expected
            assert driver.mean().count == sum(expected.values())
            centre = one.path.shaping_state.centre
            assert centre.count == sum(expected.values())
            np.testing.assert_allclose(centre.mean, driver.mean().mean, rtol=1e-12)


def test_f_bar_of_two_workers_is_the_mean_of_all_their_bonuses() -> None:
    def bonus(step: Any) -> Any:
        return step.next_obs * 1.0

    one, other = (Worker(bonus, pbim.PBIM(gamma=0.9)) for _ in range(2))
    one.step([1, 2])
    other.step([5, 4])
    other.step([3, 3])
    one.take(other.state())
    assert one.path.shaping_state.centre == pbim.shaping.Mean(6.0, 3.0)
    np.testing.assert_allclose(one.step([4, 5]), [1.0, 2.0])


def test_a_merge_leaves_running_episodes_alone() -> None:
    one, other = make(pbim.LifetimeCount, 2, pbim.GRM(gamma=0.9, delay=2))
    for pair in ([1, 2], [3, 3], [1, 1]):
        one.step(pair)
        other.step(pair)
        one.take(other.state())
    one.step([2, 2], last=True)
    assert one.path.report().ok
    assert one.path.report().episodes == LANES


def test_a_new_worker_knows_what_the_dead_ones_learned() -> None:
    one, late = make(pbim.LifetimeCount, 2)
    one.step([1, 1])
    driver = driver_of(pbim.LifetimeCount)
    driver.merge([one.state(), late.state()])
    late.take(driver.state())
    late.step([1, 2])
    assert counts_of(late) == {"1": 3, "2": 1}
    driver.merge([late.state()])
    assert driver.mean().count == 4


def test_networks_meet_in_the_mean_weighted_by_steps() -> None:
    def bonus() -> Any:
        return pbim.RND(hidden=(4,), features=2, seed=3)

    one, other = make(bonus, 2)
    one.step([0, 1])
    for pair in ([2, 3], [4, 5], [5, 5]):
        other.step(pair)
    name = next(key for key in one.path.state_dict() if key.startswith("intrinsic.predictor.params"))
    mine, theirs = (worker.path.state_dict()[name] for worker in (one, other))
    driver = driver_of(bonus)
    for _ in range(2):  # the second meeting brings nothing new
        driver.merge([one.state(), other.state()])
        one.take(driver.state())
        other.take(driver.state())
        for worker in (one, other):
            np.testing.assert_allclose(worker.path.state_dict()[name], 0.25 * mine + 0.75 * theirs, rtol=1e-6)
    fresh = make(bonus, 1)[0]
    fresh.take(driver.state())
    fresh.path.intrinsic.reward(Transition(*[np.zeros(LANES, int)] * 3, *[np.zeros(LANES, bool)] * 2, {}))
    fresh.pool.give(fresh.path, 0)
    np.testing.assert_allclose(fresh.path.state_dict()[name], 0.25 * mine + 0.75 * theirs, rtol=1e-6)


class Learned:
    """A bonus that learns 10 from every arrival at 5; ``spread`` is what a variance does: it only shrinks."""

    averaged = ("w", "spread")

    def __init__(self) -> None:
        self.w, self.spread = np.zeros(()), np.full((), 64.0)

    def __repr__(self) -> str:
        return "Learned()"

    def reward(self, step: Any) -> Any:
        return np.zeros(len(step.terminated))

    def update(self, step: Any) -> None:
        fives = int(np.count_nonzero(step.next_obs == 5))
        self.w, self.spread = self.w + 10 * fives, self.spread / 8**fives

    def state_dict(self) -> dict[str, Any]:
        return {"w": self.w, "spread": self.spread}

    def load_state_dict(self, arrays: Any) -> None:
        self.w, self.spread = np.array(arrays["w"]), np.array(arrays["spread"])


def weights(*workers: Worker) -> list[float]:
    return [float(worker.path.state_dict()["intrinsic.w"]) for worker in workers]


def workers_that_learned_0_and_40() -> tuple[Worker, Worker, Pool]:
    one, other = make(Learned, 2)
    for pair in ([0, 0], [0, 0]):
        one.step(pair)
    for pair in ([5, 5], [5, 5]):
        other.step(pair)
    return one, other, driver_of(Learned)


def meet(driver: Pool, *workers: Worker) -> None:
    driver.merge([worker.state() for worker in workers])
    for worker in workers:
        worker.take(driver.state())


@pytest.mark.parametrize("late", [(), (0,), (1,), (0, 1)])
def test_a_worker_that_steps_while_a_merge_travels_loses_nothing_that_was_learned(late: tuple[int, ...]) -> None:
    one, other, driver = workers_that_learned_0_and_40()
    driver.merge([one.state(), other.state()])
    for number in late:
        (one, other)[number].step([number * 5, 0])  # the second one learns 10 more
    for worker in (one, other):
        worker.take(driver.state())
    assert weights(one, other) == [20.0, 20.0 + 10.0 * (1 in late)]
    meet(driver, one, other)
    both = 20.0 + {(1,): 10.0, (0, 1): 5.0}.get(late, 0.0)
    assert weights(one, other) == [both, both]
    meet(driver, one, other)
    assert weights(one, other) == [both, both]


def test_states_that_were_sent_before_the_last_average_came_bring_only_what_is_new() -> None:
    one, other, driver = workers_that_learned_0_and_40()
    driver.merge([one.state(), other.state()])
    first = driver.state()
    one.step([5, 0])
    driver.merge([one.state()])  # sent before the first average came
    one.take(first)
    assert weights(one) == [30.0]
    for worker in (one, other):
        worker.take(driver.state())
    assert weights(one, other) == [30.0, 30.0]
    meet(driver, one, other)
    assert weights(one, other) == [30.0, 30.0]


def test_what_cannot_be_negative_stays_so_when_two_late_changes_meet() -> None:
    one, other, driver = workers_that_learned_0_and_40()
    for worker in (one, other):
        worker.step([5, 5])
    driver.merge([one.state(), other.state()])
    for worker in (one, other):
        worker.step([5, 5])
        worker.take(driver.state())
    meet(driver, one, other)
    spreads = [float(worker.path.state_dict()["intrinsic.spread"]) for worker in (one, other)]
    assert spreads[0] == spreads[1] > 0


def test_networks_that_are_in_the_average_are_not_sent_again() -> None:
    one, other, driver = workers_that_learned_0_and_40()
    meet(driver, one, other)
    assert not any(entry["averaged"] or entry["learned"] for entry in driver.state()["workers"].values())
    new = make(Learned, 1)[0]
    new.take(driver.state())  # the others are dead
    new.step([0, 0])
    assert weights(new) == [20.0]
    new.step([5, 0])
    meet(driver, new)
    assert weights(new) == [30.0]


BONUSES = {
    "RND": lambda: pbim.RND(hidden=(4,), features=2),
    "ICM": lambda: pbim.ICM(hidden=(32,), features=8, num_actions=2),
    "RIDE": lambda: pbim.RIDE(hidden=(32,), features=8, num_actions=2),
    "NovelD": lambda: pbim.NovelD(),
    "E3B": lambda: pbim.E3B(hidden=(32,), features=8, num_actions=2),
    "Disagreement": lambda: pbim.Disagreement(hidden=(4,), features=2, num_actions=2),
    "NGU": lambda: pbim.NGU(hidden=(32,), features=8, num_actions=2),
    "PseudoCount": lambda: pbim.PseudoCount(bits=4),
    "LifetimeCount": lambda: pbim.LifetimeCount(),
    "scaled": lambda: pbim.intrinsic.RunningStdScaled(pbim.LifetimeCount(), gamma=0.9),
}


@pytest.mark.parametrize("name", BONUSES)
def test_every_bonus_that_learns_is_shared_and_memories_of_episodes_are_not(name: str) -> None:
    one, other = make(BONUSES[name], 2)
    for pair in ([0, 1], [1, 2]):
        one.step(pair)
        other.step([4, 5])
    before = one.path.state_dict()
    entry = next(iter(other.state()["workers"].values()))
    assert any(part.startswith("intrinsic.") for part in {**entry["added"], **entry["averaged"]})
    shared = {**entry["added"], **entry["averaged"]}
    lanes = [part for part in shared if "visits" in part or part.endswith(("inverse", "sums")) or "memory" in part]
    assert lanes == []
    driver = driver_of(BONUSES[name])
    driver.merge([one.state(), other.state()])
    one.take(driver.state())
    after = one.path.state_dict()
    moved = {part for part in before if not np.array_equal(before[part], after[part])}
    assert moved <= set(shared) | {part.replace(".total", ".mean") for part in shared}
    assert any(part.startswith("intrinsic.") for part in moved)


def test_a_bonus_that_says_nothing_of_sharing_is_taken_over_by_new_workers() -> None:
    one, late = make(pbim.ActionRecency, 2)
    one.step([1, 1])
    late.take(one.state())
    late.step([2, 2])
    assert late.path.state_dict()["intrinsic.clock"] == 2


def test_another_bonus_is_refused() -> None:
    with pytest.raises(pbim.InputError, match="of the same bonus"):
        make(pbim.LifetimeCount, 1)[0].take(make(pbim.EpisodicCount, 1)[0].state())
