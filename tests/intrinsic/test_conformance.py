"""Every bonus the library ships, alone and composed, passes the suite it ships for others."""

import numpy as np
import optax
import pytest
from gymnasium import spaces

from pbim import intrinsic
from pbim.testing import check_intrinsic, random_transitions

SMALL = {"hidden": (8,), "features": 4}
GRID = random_transitions(spaces.Discrete(9), spaces.Discrete(4), info=lambda obs: {"cell": np.stack([obs, -obs], 1)})
IMAGE = random_transitions(spaces.Box(0, 255, (3, 3, 2), np.uint8), spaces.Discrete(4))
VECTOR = random_transitions(spaces.Box(-1, 1, (5,)), spaces.Box(-1, 1, (2,)))
DICT = random_transitions(
    spaces.Dict(
        {"image": spaces.MultiBinary(4), "way": spaces.Tuple([spaces.Discrete(3), spaces.MultiDiscrete([2, 5])])}
    ),
    spaces.Discrete(4),
)
SKILLS = random_transitions(spaces.Box(-1, 1, (5,)), spaces.Discrete(4))  # 3 entries of state, 2 of skill
KERNEL = np.random.default_rng(0).dirichlet(np.ones(9), size=(9, 2))


def sign_key(step):
    return [tuple(row) for row in (step.next_obs > 0).tolist()]


CASES = {
    "episodic count of integers": (lambda: intrinsic.EpisodicCount(alpha=0.1), GRID),
    "episodic count of images": (intrinsic.EpisodicCount, IMAGE),
    "episodic count of dicts": (intrinsic.EpisodicCount, DICT),
    "episodic count of info": (lambda: intrinsic.EpisodicCount(key="cell"), GRID),
    "episodic count of a function": (lambda: intrinsic.EpisodicCount(key=sign_key), VECTOR),
    "lifetime count": (lambda: intrinsic.LifetimeCount(beta=2.0), IMAGE),
    "action recency": (lambda: intrinsic.ActionRecency(kappa=0.1), GRID),
    "pseudo-count": (lambda: intrinsic.PseudoCount(bits=6, seed=3), VECTOR),
    "rnd, one-hot": (lambda: intrinsic.RND(encode=intrinsic.one_hot(9), normalize=False, **SMALL), GRID),
    "rnd, images": (lambda: intrinsic.RND(batch_size=2, update_proportion=0.7, **SMALL), IMAGE),
    "rnd, dicts, sgd": (lambda: intrinsic.RND(encode=intrinsic.concatenate, optimizer=optax.sgd, **SMALL), DICT),
    "icm, discrete": (lambda: intrinsic.ICM(num_actions=4, **SMALL), IMAGE),
    "icm, continuous": (lambda: intrinsic.ICM(batch_size=2, **SMALL), VECTOR),
    "ride": (lambda: intrinsic.RIDE(num_actions=4, **SMALL), IMAGE),
    "ride, continuous": (lambda: intrinsic.RIDE(key=sign_key, **SMALL), VECTOR),
    "noveld": (lambda: intrinsic.NovelD(alpha=0.1, rnd=intrinsic.RND(learning_rate=1e-5, **SMALL)), IMAGE),
    "e3b": (lambda: intrinsic.E3B(num_actions=4, **SMALL), IMAGE),
    "disagreement": (lambda: intrinsic.Disagreement(num_actions=4, members=3, **SMALL), IMAGE),
    "re3": (lambda: intrinsic.RE3(k=2, capacity=8, **SMALL), IMAGE),
    "re3, fewer steps than neighbours": (lambda: intrinsic.RE3(k=99, **SMALL), VECTOR),
    "ngu": (lambda: intrinsic.NGU(num_actions=4, rnd=intrinsic.RND(**SMALL), **SMALL), IMAGE),
    "ngu, a small memory": (lambda: intrinsic.NGU(k=2, capacity=3, rnd=intrinsic.RND(**SMALL), **SMALL), VECTOR),
    "diayn": (lambda: intrinsic.DIAYN(count=2, hidden=(8,)), SKILLS),
    "a function": (lambda: lambda step: np.abs(step.next_obs).sum(axis=1), VECTOR),
    "scaled": (lambda: intrinsic.Scaled(intrinsic.EpisodicCount(), 0.1), GRID),
    "running std": (lambda: intrinsic.RunningStdScaled(intrinsic.EpisodicCount(), gamma=0.9), GRID),
    "normalized": (lambda: intrinsic.NormalizedObservations(intrinsic.PseudoCount(bits=6)), IMAGE),
    "warm-up": (lambda: intrinsic.WarmUp(intrinsic.EpisodicCount(), steps=2), GRID),
    "sum": (lambda: intrinsic.Sum(intrinsic.EpisodicCount(), intrinsic.LifetimeCount()), GRID),
}


@pytest.mark.parametrize("name", CASES)
def test_bonus_conforms(name):
    make_bonus, transitions = CASES[name]
    check_intrinsic(make_bonus, transitions)


def test_empowerment_conforms_but_for_assumption_1():
    check_intrinsic(lambda: intrinsic.Empowerment(transition=KERNEL), GRID, causal=False)


def test_every_public_bonus_is_among_the_cases():
    tested = {type(make()).__name__ for make, _ in CASES.values()} | {"Empowerment"}
    helpers = {"Bonus", "Intrinsic", "LearnedBonus", "Spec", "Transition"}
    classes = {name for name in intrinsic.__all__ if name[0].isupper()} - helpers
    assert classes <= tested
