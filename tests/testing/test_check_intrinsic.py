"""The suite catches each kind of broken bonus and says which law it broke."""

import numpy as np
import pytest
from gymnasium import spaces

from pbim.intrinsic import Empowerment, EpisodicCount
from pbim.testing import ConformanceError, check_causal, check_intrinsic, random_transitions

STEPS = random_transitions(spaces.Discrete(9), spaces.Discrete(4))


class Counting:
    """A correct count, to be broken one method at a time."""

    def __init__(self):
        self.count = EpisodicCount()

    def reward(self, step):
        return self.count.reward(step)

    def update(self, step):
        self.count.update(step)

    def state_dict(self):
        return self.count.state_dict()

    def load_state_dict(self, arrays):
        self.count.load_state_dict(arrays)


class WrongShape(Counting):
    def reward(self, step):
        return self.count.reward(step)[:, None]


class Integers(Counting):
    def reward(self, step):
        return np.ones(len(step.terminated), dtype=int)


class NotFinite(Counting):
    def reward(self, step):
        return np.log(np.zeros(len(step.terminated)) * np.nan)


class Unseeded(Counting):
    def __init__(self):
        super().__init__()
        self.scale = np.random.default_rng().random()

    def reward(self, step):
        return self.scale * self.count.reward(step)


class LearnsInReward(Counting):
    def reward(self, step):
        paid = self.count.reward(step)
        self.count.update(step)
        return paid


class HiddenLearning(Counting):
    """Pays the same when asked again, but what it will save has changed."""

    asked = 0

    def reward(self, step):
        self.asked += 1
        return self.count.reward(step)

    def state_dict(self):
        return {**self.count.state_dict(), "asked": np.array(self.asked)}


class EditsItsInput(Counting):
    def update(self, step):
        super().update(step)
        step.next_obs[0] = 0


class RewritesThePast(Counting):
    """Edits the array it returned before, as bonuses computed at the end of a rollout do."""

    paid = None

    def reward(self, step):
        return self.count.reward(step)

    def update(self, step):
        if self.paid is not None:
            self.paid += 1.0 * step.next_obs.sum()
        super().update(step)

    def __init__(self):
        super().__init__()
        original = self.count

        class Remembering:
            def reward(_, step):  # noqa: N805
                self.last = original.reward(step)
                return self.last

            def update(_, step):  # noqa: N805
                original.update(step)
                self.paid = self.last

            state_dict = original.state_dict
            load_state_dict = original.load_state_dict

        self.count = Remembering()


class SavesNothing(Counting):
    def state_dict(self):
        return {}

    def load_state_dict(self, arrays):
        pass


class SavesObjects(Counting):
    def state_dict(self):
        return {"rows": np.array([{}], dtype=object)}


class CannotLoad(Counting):
    load_state_dict = property()


class NeverForgets(Counting):
    def update(self, step):
        down = np.zeros_like(step.terminated)
        self.count.update(step._replace(terminated=down, truncated=down))


class ForgetsOnTerminationOnly(Counting):
    def update(self, step):
        self.count.update(step._replace(truncated=np.zeros_like(step.truncated)))


class ForgetsAllTogether(Counting):
    def update(self, step):
        over = np.full_like(step.terminated, (step.terminated | step.truncated).any())
        self.count.update(step._replace(terminated=over))


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (WrongShape, "shape"),
        (Integers, "dtype"),
        (NotFinite, "finite"),
        (Unseeded, "determinism"),
        (LearnsInReward, "reward-learns"),
        (HiddenLearning, "reward-learns"),
        (EditsItsInput, "inputs-edited"),
        (RewritesThePast, "causality"),
        (SavesNothing, "save-load"),
        (SavesObjects, "save-load"),
        (CannotLoad, "save-load"),
        (NeverForgets, "episode-reset"),
        (ForgetsOnTerminationOnly, "episode-reset"),
        (ForgetsAllTogether, "episode-reset"),
    ],
)
def test_broken_bonus_is_caught_by_name(broken, check):
    steps = random_transitions(spaces.Discrete(9), spaces.Discrete(4))
    with pytest.raises(ConformanceError, match=f"^{check}: ") as caught:
        check_intrinsic(broken, steps, episodic=True)
    assert caught.value.check == check
    assert "\n" not in str(caught.value)


def test_the_bonus_they_were_broken_from_passes():
    check_intrinsic(Counting, STEPS, episodic=True)


def test_declared_future_dependence_is_refused():
    kernel = np.tile(np.eye(9)[:, None], (1, 2, 1))
    with pytest.raises(ConformanceError, match=r"^causality: Empowerment declares causal = False"):
        check_intrinsic(lambda: Empowerment(transition=kernel), STEPS)


def nearest_neighbour(steps):
    """Distance to the closest other observation of the rollout: later ones included."""
    points = np.array([step.next_obs for step in steps], dtype=float)
    gaps = np.abs(points[:, None] - points[None]) + 100.0 * np.eye(len(points))[..., None]
    return gaps.min(axis=1)


def test_rollout_bonus_that_reads_later_steps_is_caught():
    with pytest.raises(ConformanceError, match=r"^causality: the bonus of step \d+ depends on steps after"):
        check_causal(nearest_neighbour, STEPS)


def test_hindsight_empowerment_reads_later_actions():
    kernel = np.random.default_rng(0).dirichlet(np.ones(9), size=(9, 4))
    bonus = Empowerment(transition=kernel, steps=2)

    def rollout(steps):
        states = [int(steps[0].obs[0]), *(int(step.next_obs[0]) for step in steps)]
        return bonus.hindsight(states, [int(step.action[0]) for step in steps])[:, None]

    with pytest.raises(ConformanceError, match=r"^causality: "):
        check_causal(rollout, STEPS)
