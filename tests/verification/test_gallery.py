"""The gallery teaches what it says."""

import pytest

import pbim
from pbim.errors import InputError
from pbim.verification import verify
from pbim.verification.bonuses import BONUSES
from pbim.verification.fold import is_folding, readable
from pbim.verification.gallery import MDPS, grid
from pbim.verification.picture import draw

LESSONS = {
    ("corridor", "count"): "wait",
    ("corridor", "home"): "wait",
    ("noisy-tv", "surprise"): "watch",
    ("noisy-tv", "count"): "watch",
    ("cliff", "count"): "left",
    ("two-goals", "count"): "left",
    ("two-goals", "alive"): "left",
}


@pytest.mark.parametrize(("world", "bonus"), LESSONS, ids=lambda name: name)
def test_raw_bonuses_mislead_and_pbim_does_not(world, bonus):
    entry = MDPS[world]
    mdp = entry.make(entry.gamma)
    intrinsic = BONUSES[bonus].make(mdp, entry.alpha)
    raw = verify(mdp, intrinsic=intrinsic, shaping=pbim.Raw(), horizon=entry.horizon)
    assert raw.costly is not None
    assert LESSONS[world, bonus] in [mdp.action_name(action) for action in raw.costly.shaped_actions]
    assert verify(mdp, intrinsic=intrinsic, shaping=pbim.PBIM(gamma=entry.gamma), horizon=entry.horizon).preserved


@pytest.mark.parametrize("name", [name for name in BONUSES if name not in ("hindsight-count", "empowerment")])
def test_folds_and_histories_agree(name):
    entry = MDPS["cliff"]
    mdp = entry.make(entry.gamma)
    bonus = readable(BONUSES[name].make(mdp, entry.alpha))
    assert is_folding(bonus)
    memory = bonus.start(3)
    history = (3,)
    for action, state in ((0, 0), (1, 1), (3, 0), (1, 1), (1, 2), (2, 5)):
        memory, paid = bonus.step(memory, action, state)
        history = (*history, action, state)
        assert bonus(history) == paid


def test_grids_are_drawn_with_characters():
    mdp = grid(["S#", ".G"], gamma=1, endings={"G": 5}, step_reward=-1)
    assert mdp.num_states == 3
    assert mdp.transition[0, 1, 0] == 1  # into the wall
    assert mdp.reward[1, 1, 2] == 5
    assert mdp.cells == [(0, 0), (1, 0), (1, 1)]
    with pytest.raises(InputError, match="layout must have a start"):
        grid([".G"], gamma=1, endings={"G": 1})


@pytest.mark.parametrize(("world", "best"), [("corridor", "right"), ("cliff", "up")])
def test_counterexamples_in_grids_are_drawn(world, best, tmp_path):
    entry = MDPS[world]
    mdp = entry.make(entry.gamma)
    report = verify(mdp, intrinsic=BONUSES["count"].make(mdp, entry.alpha), shaping=pbim.Raw(), horizon=entry.horizon)
    figure = draw(report.counterexample, tmp_path / "picture.png")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0] == f"The task alone: {best}"
    assert titles[1].startswith("With 'count' through Raw: ")
    assert (tmp_path / "picture.png").stat().st_size > 5_000


def test_other_worlds_cannot_be_drawn():
    entry = MDPS["noisy-tv"]
    mdp = entry.make(entry.gamma)
    report = verify(mdp, intrinsic=BONUSES["surprise"].make(mdp, entry.alpha), shaping=pbim.Raw(), horizon=4)
    with pytest.raises(InputError, match="grid world"):
        draw(report.counterexample)
