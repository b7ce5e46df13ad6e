"""``update_every=n``: a learned bonus learns once from n vector steps, in order, and nothing gets lost."""

import copy
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv

import pbim
from driving import NUM_ENVS, SYNC, action, drive_env, drive_vector, makers
from pbim.adapters import sb3
from pbim.intrinsic import RND, EpisodicCount
from pbim.testing.scripted import KINDS, ScriptedEnv, codes

PLAIN = pbim.PBIM(gamma=0.5, normalize=False)


class Student:
    """A bonus that writes down every batch it learns from."""

    def __init__(self) -> None:
        self.batches: list[Any] = []

    def reward(self, step: Any) -> Any:
        return np.ones(len(step.terminated))

    def update(self, step: Any) -> None:
        self.batches.append(step)


class Pupil(Student):
    """One that must see every step."""

    stepwise = True


def rows(batches: list[Any]) -> list[tuple[Any, ...]]:
    """Return every real row that was learned from, in order."""
    found: list[tuple[Any, ...]] = []
    for batch in batches:
        valid = np.ones(len(batch.terminated), bool) if batch.valid is None else batch.valid
        columns = (codes(batch.obs), batch.action, codes(batch.next_obs), batch.terminated, batch.truncated)
        found += [tuple(np.ravel(column)[row].item() for column in columns) for row in np.flatnonzero(valid)]
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", SYNC)
@pytest.mark.parametrize("truncation", ["settle", "bootstrap"])
def test_the_same_rows_are_learned_in_the_same_order(mode: str, kind: str, truncation: Any) -> None:
    often, seldom = Student(), Student()
    for student, every in ((often, 1), (seldom, 4)):
        drive_vector(pbim.wrap(SYNC[mode](makers(kind=kind)), student, PLAIN, truncation, update_every=every), 30)
    assert {len(batch.terminated) for batch in often.batches} == {NUM_ENVS}
    assert {len(batch.terminated) for batch in seldom.batches} == {4 * NUM_ENVS}  # ends force no update
    assert len(seldom.batches) == len(often.batches) // 4
    learned = rows(seldom.batches)
    assert learned == rows(often.batches)[: len(learned)]


def test_a_single_environment_and_sb3_learn_from_the_same_rows() -> None:
    students = [Student() for _ in range(4)]
    drive_env(pbim.wrap(ScriptedEnv(), students[0], PLAIN), steps=24)
    drive_env(pbim.wrap(ScriptedEnv(), students[1], PLAIN, update_every=8), steps=24)
    for student, every in zip(students[2:], (1, 8), strict=True):
        venv = sb3.wrap(DummyVecEnv(makers(1)), student, PLAIN, "settle", update_every=every)
        venv.reset()
        for count in range(24):
            venv.step(np.array([action(0, count)]))
    assert [len(student.batches) for student in students] == [24, 3, 24, 3]
    assert rows(students[0].batches) == rows(students[1].batches)
    assert rows(students[2].batches) == rows(students[3].batches)


def test_what_environments_and_learners_write_into_is_copied() -> None:
    student = Student()
    env = pbim.wrap(SyncVectorEnv(makers(), copy=False), student, PLAIN, update_every=3)
    env.reset()
    actions = np.zeros(NUM_ENVS, int)
    for count in range(3):
        actions[:] = count
        env.step(actions)
    (batch,) = student.batches
    assert batch.action.reshape(3, NUM_ENVS).tolist() == [[0] * 3, [1] * 3, [2] * 3]
    times = batch.next_obs.reshape(3, NUM_ENVS)[:, 0] % 10
    assert times.tolist() == [1, 2, 3]
    assert not batch.info


def test_counts_and_functions_learn_every_step() -> None:
    pupil = Pupil()
    drive_env(pbim.wrap(ScriptedEnv(), pupil, PLAIN, update_every=8), steps=5)
    assert len(pupil.batches) == 5
    count = lambda every: pbim.wrap(ScriptedEnv(), EpisodicCount(key="at"), PLAIN, update_every=every)  # noqa: E731
    assert drive_env(count(1)) == drive_env(count(16))
    assert "pending.steps" not in count(16).state_dict()


@pytest.mark.parametrize("kind", ["discrete", "dict", "tuple"])
@pytest.mark.parametrize("mode", [*SYNC, "env"])
def test_what_waits_is_saved_and_learned_after_a_restore(mode: str, kind: str) -> None:
    def make(inner: Any) -> tuple[Any, Student]:
        student = Student()
        return pbim.wrap(inner, student, PLAIN, update_every=8), student

    inner = ScriptedEnv(kind=kind) if mode == "env" else SYNC[mode](makers(kind=kind))
    env, student = make(inner)
    drive: Any = drive_env if mode == "env" else drive_vector
    drive(env, steps=13)
    while "pending.steps" not in (saved := env.state_dict()):
        drive(env, steps=1)
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in saved.values())
    assert 0 < int(saved["pending.steps"]) < 8
    learned = len(student.batches)
    other, resumed = make(copy.deepcopy(inner))
    other.load_state_dict(saved)
    again = other.state_dict()
    assert saved.keys() == again.keys()
    for name, array in saved.items():
        np.testing.assert_array_equal(array, again[name])
    for each in (env, other):
        drive(each, steps=9)
    assert len(resumed.batches) >= 1
    assert rows(resumed.batches) == rows(student.batches[learned:])


def test_a_resumed_rnd_pays_what_it_would_have_paid() -> None:
    def make(inner: Any) -> Any:
        bonus = RND(hidden=(8,), features=4)
        return pbim.wrap(inner, bonus, pbim.PBIM(gamma=0.9), update_every=5)

    inner = SyncVectorEnv(makers(kind="box"), autoreset_mode=AutoresetMode.NEXT_STEP)
    env = make(inner)
    drive_vector(env, steps=12)
    other = make(copy.deepcopy(inner))
    other.load_state_dict(env.state_dict())
    for _ in range(17):
        here, there = env.step(np.ones(NUM_ENVS, int)), other.step(np.ones(NUM_ENVS, int))
        np.testing.assert_array_equal(here[1], there[1])
    assert env.certificate() == other.certificate()


def test_what_fits_no_array_is_learned_before_it_is_saved() -> None:
    class Growing(ScriptedEnv):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = spaces.Sequence(spaces.Discrete(99))

        def _observed(self) -> Any:
            return (1,) * self._time, {}

    student = Student()
    env = pbim.wrap(Growing(), student, PLAIN, update_every=8)
    env.reset()
    env.step(0)
    env.step(0)
    saved = env.state_dict()
    assert "pending.steps" not in saved
    (batch,) = student.batches
    assert batch.next_obs == ((1,), (1, 1))


def test_an_evaluation_leaves_what_waits_alone() -> None:
    student = Student()
    env = pbim.wrap(ScriptedEnv(), student, PLAIN, update_every=4)
    drive_env(env, steps=3)
    env.training = False
    drive_env(env, steps=9)
    assert not student.batches
    env.training = True
    env.reset()
    env.step(0)
    assert [len(batch.terminated) for batch in student.batches] == [4]


@pytest.mark.parametrize("every", [0, -1, 1.5, "8", True, None])
def test_update_every_must_be_a_count(every: Any) -> None:
    for make in (
        lambda: pbim.wrap(ScriptedEnv(), Student(), PLAIN, update_every=every),
        lambda: sb3.wrap(DummyVecEnv(makers()), Student(), PLAIN, update_every=every),
    ):
        with pytest.raises(pbim.InputError, match="update_every must be a whole number of at least 1") as caught:
            make()
        assert "\n" not in str(caught.value)
