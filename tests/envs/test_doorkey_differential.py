"""DoorKey against the real MiniGrid: the same layouts, the same actions, the same everything at every step."""

import os
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pbim.envs import DoorKey, DoorKeyState

pytest.importorskip("minigrid")

from minigrid.core.constants import DIR_TO_VEC
from minigrid.envs import DoorKeyEnv

from pbim.envs.foreign import doorkey_state

LAYOUTS = int(os.environ.get("PBIM_DIFFERENTIAL_LAYOUTS", "600"))  # per size; 600 take about 30 s in all
STEPS = 30


def face(env: DoorKeyEnv, target: int, rng: np.random.Generator) -> None:
    """Put the agent before a cell, if it can stand there."""
    heading = int(rng.integers(4))
    dx, dy = DIR_TO_VEC[heading]
    x, y = target % env.width - dx, target // env.width - dy
    if 0 < x < env.width - 1 and 0 < y < env.width - 1 and env.grid.get(x, y) is None:
        env.agent_pos, env.agent_dir = (x, y), heading


def scramble(env: DoorKeyEnv, rng: np.random.Generator) -> None:
    """Move a fresh layout somewhere into an episode: key held, door open or shut, agent anywhere, little time left."""
    (door_index,) = (i for i, cell in enumerate(env.grid.grid) if cell and cell.type == "door")
    (key_index,) = (i for i, cell in enumerate(env.grid.grid) if cell and cell.type == "key")
    door, key = env.grid.grid[door_index], env.grid.grid[key_index]
    if rng.random() < 0.5:
        env.carrying, env.grid.grid[key_index] = key, None
    if rng.random() < 0.5:
        door.is_locked, door.is_open = False, bool(rng.random() < 0.5)
    if rng.random() < 0.5:
        face(env, (door_index, env.width * (env.width - 1) - 2, int(rng.integers(env.width**2)))[rng.integers(3)], rng)
    if rng.random() < 0.3:
        env.step_count = int(env.max_steps - rng.integers(1, STEPS))


def choose(env: DoorKeyEnv, rng: np.random.Generator) -> int:
    """Act at random, but rather often do what the cell ahead invites to."""
    ahead = env.grid.get(*env.front_pos)
    kind = ahead.type if ahead else None
    if env.carrying and kind in ("door", "goal") and rng.random() < 0.2:
        return 4
    if kind == "key" and rng.random() < 0.5:
        return 3
    if kind == "door" and rng.random() < 0.5:
        return 5 if rng.random() < 0.7 else 2
    if kind == "goal" and rng.random() < 0.5:
        return 2
    return int(rng.choice(7, p=[0.17, 0.17, 0.36, 0.08, 0.08, 0.08, 0.06]))


def describe(env: DoorKeyEnv, action: int) -> tuple[str, str]:
    ahead = env.grid.get(*env.front_pos)
    kind = ahead.type if ahead else "floor"
    if kind == "door":
        kind = "open door" if ahead.is_open else "locked door" if ahead.is_locked else "closed door"
    names = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
    return f"{names[action]}{'+key' if env.carrying else ''}", kind


def play(size: int, layouts: int, seed: int) -> tuple[DoorKeyState, dict[str, np.ndarray[Any, Any]], Counter[Any]]:
    rng = np.random.default_rng(seed)
    env = DoorKeyEnv(size=size)
    starts: list[DoorKeyState] = []
    seen: Counter[Any] = Counter()
    record: dict[str, np.ndarray[Any, Any]] = {
        "first": np.zeros((layouts, 7, 7, 3), np.uint8),
        "action": np.zeros((layouts, STEPS), np.int32),
        "obs": np.zeros((layouts, STEPS, 7, 7, 3), np.uint8),
        "reward": np.zeros((layouts, STEPS)),
        "terminated": np.zeros((layouts, STEPS), bool),
        "truncated": np.zeros((layouts, STEPS), bool),
    }
    for i in range(layouts):
        env.reset(seed=seed + i)
        if i % 3:
            scramble(env, rng)
        starts.append(doorkey_state(env))
        record["first"][i] = env.gen_obs()["image"]
        for t in range(STEPS):
            action = choose(env, rng)
            seen[describe(env, action)] += 1
            seen["heading", env.agent_dir] += 1
            obs, reward, terminated, truncated, _ = env.step(action)
            record["action"][i, t], record["obs"][i, t], record["reward"][i, t] = action, obs["image"], reward
            record["terminated"][i, t], record["truncated"][i, t] = terminated, truncated
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts), record, seen


def replay(env: DoorKey, starts: DoorKeyState, actions: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    def episode(state: DoorKeyState, actions: jax.Array) -> dict[str, jax.Array]:
        def step(state: DoorKeyState, action: jax.Array) -> tuple[DoorKeyState, dict[str, jax.Array]]:
            timestep = env.step(jax.random.key(0), state, action)
            return timestep.state, {k: v for k, v in timestep._asdict().items() if k != "state"}

        return {"first": env.observe(state), **jax.lax.scan(step, state, actions)[1]}

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(episode))(starts, jnp.asarray(actions)))


@pytest.mark.parametrize("size", [5, 6, 8, 16])
def test_every_step_is_minigrids(size: int, capsys: pytest.CaptureFixture[str]) -> None:
    starts, theirs, seen = play(size, LAYOUTS, seed=1000 * size)
    ours = replay(DoorKey(size=size, reward="minigrid"), starts, theirs["action"])
    with capsys.disabled():
        print(f"\n  DoorKey-{size}x{size}: {LAYOUTS} layouts, {LAYOUTS * STEPS} steps compared")

    for name in ("first", "obs", "terminated", "truncated"):
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    ended = theirs["terminated"] | theirs["truncated"]
    alive = np.cumsum(ended, axis=1) - ended == 0  # MiniGrid plays on after the end and pays ever less; we need not
    np.testing.assert_array_equal(ours["reward"][alive], theirs["reward"].astype(np.float32)[alive])

    paper = replay(DoorKey(size=size, reward="paper"), starts, theirs["action"])
    np.testing.assert_array_equal(paper["reward"], theirs["terminated"].astype(np.float32))

    must_happen = [
        ("pickup", "key"),
        ("pickup", "floor"),
        ("pickup+key", "floor"),
        ("forward", "key"),
        ("drop", "floor"),
        ("drop+key", "floor"),
        ("drop+key", "wall"),
        ("drop+key", "open door"),
        ("drop+key", "goal"),
        ("toggle", "locked door"),
        ("toggle+key", "locked door"),
        ("toggle+key", "open door"),
        ("toggle+key", "closed door"),
        ("toggle", "open door"),
        ("toggle", "closed door"),
        ("toggle", "key"),
        ("forward", "wall"),
        ("forward+key", "locked door"),
        ("forward+key", "open door"),
        ("forward+key", "closed door"),
        ("forward", "goal"),
        *(("heading", heading) for heading in range(4)),
    ]
    assert not [event for event in must_happen if not seen[event]]
    assert theirs["truncated"].any()
