"""Pictures: DoorKey to the pixel as MiniGrid draws it, CliffWalk by what is where, policy maps by what they say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pbim.envs import CliffWalk, CliffWalkState, DoorKey
from pbim.envs.render import frame


@pytest.mark.parametrize(("size", "tile_size"), [(5, 32), (6, 16), (8, 32), (16, 8)])
def test_doorkey_is_drawn_to_the_pixel_as_by_minigrid(size: int, tile_size: int) -> None:
    envs = pytest.importorskip("minigrid.envs")
    from pbim.envs.foreign import doorkey_state

    theirs, ours = envs.DoorKeyEnv(size=size), DoorKey(size=size)
    rng = np.random.default_rng(size)
    drawn = set()
    for episode in range(4):
        theirs.reset(seed=episode)
        door = next(cell for cell in theirs.grid.grid if cell and cell.type == "door")
        door.is_open, door.is_locked = (False, True) if episode < 2 else (episode == 2, False)
        for _ in range(8):
            state = doorkey_state(theirs)
            for highlight in (True, False):
                np.testing.assert_array_equal(
                    frame(ours, state, tile_size=tile_size, highlight=highlight),
                    theirs.get_frame(highlight=highlight, tile_size=tile_size),
                )
            drawn.add((int(state.heading), int(state.door_state)))
            ahead = theirs.grid.get(*theirs.front_pos)
            theirs.step(3 if ahead and ahead.type == "key" else int(rng.integers(3)))
    assert {heading for heading, _ in drawn} == {0, 1, 2, 3}
    assert {door for _, door in drawn} == {0, 1, 2}


def test_cliff_walk_shows_ground_cliff_ends_and_walker() -> None:
    picture = frame(CliffWalk(), CliffWalkState(jnp.int32(24), jnp.int32(1)), tile_size=20)
    assert picture.shape == (80, 240, 3)
    tiles = picture.reshape(4, 20, 12, 20, 3).swapaxes(1, 2)
    assert len({tiles[3, x].tobytes() for x in range(1, 11)}) == 1  # all cliffs alike
    ground = [tiles[y, x].tobytes() for y in range(3) for x in range(12) if (y, x) != (2, 0)]
    assert len(set(ground)) == 1
    different = {tiles[3, 0].tobytes(), tiles[3, 1].tobytes(), tiles[3, 11].tobytes(), tiles[2, 0].tobytes(), ground[0]}
    assert len(different) == 5


def test_drawing_needs_no_tracing_and_takes_plain_states() -> None:
    env = DoorKey(size=5)
    state, _ = env.reset(jax.random.key(0))
    np.testing.assert_array_equal(frame(env, state), frame(env, jax.tree.map(np.asarray, state)))


def test_policy_map_draws_best_moves_question_marks_and_the_goal() -> None:
    pytest.importorskip("matplotlib")
    from pbim.envs.policy_map import policy_map

    q = np.zeros((48, 4))
    q[0] = [0, 5, 5, 0]  # two equally good moves
    q[1] = [1, 2, 3, 4]
    visited = np.zeros(48, int)
    visited[:2] = 7
    ax = policy_map(q, env=CliffWalk(), visited=visited, title="two tiles").axes[0]
    arrows = [(text.xy[0] - text.xyann[0], text.xy[1] - text.xyann[1]) for text in ax.texts if hasattr(text, "xyann")]
    assert sorted(tuple(np.sign(arrow).astype(int).tolist()) for arrow in arrows) == [(-1, 0), (0, 1), (1, 0)]
    words = [text.get_text() for text in ax.texts]
    assert words.count("?") == 48 - 11 - 2
    assert words.count("G") == 1
    assert float(np.nanmax(ax.images[0].get_array())) == 5


def test_policy_map_refuses_wrong_shapes() -> None:
    pytest.importorskip("matplotlib")
    from pbim.envs.policy_map import policy_map

    with pytest.raises(ValueError, match="q_values"):
        policy_map(np.zeros((47, 4)), env=CliffWalk())
    with pytest.raises(ValueError, match="visited"):
        policy_map(np.zeros((48, 4)), env=CliffWalk(), visited=np.zeros(3))
