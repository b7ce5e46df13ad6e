"""Small studies with a known truth, written through the real store."""

import msgspec
import numpy as np

from pbim.config import key_of
from pbim.results import Claim, GridMap, Plan, RunCertificate, Status, Store

WIDTH, HEIGHT = 12, 4
GRID = GridMap(
    width=WIDTH,
    height=HEIGHT,
    start=36,
    goal=47,
    cliff=tuple(range(37, 47)),
    actions=("up", "right", "down", "left"),
    shortest=13,
)
SHORTEST = [36, *range(24, 36), 47]


def claim(kind="less", **changes):
    base = {
        "id": f"c-{kind}",
        "statement": "RND ends with a lower return than no bonus",
        "source": "Fig. 3",
        "paper": "p < .05",
        "kind": kind,
        "cell": "rnd",
        "other": "none",
        "statistic": "final_return",
        "value": None,
        "margin": 1.0,
    }
    return Claim(**{**base, **changes})


CLAIMS = [
    claim("less"),
    claim("equal", id="pbim-equal", statement="PBIM ends with the return of no bonus", cell="pbim", margin=15.0),
    claim(
        "share",
        id="pbim-shortest",
        statement="PBIM's greedy path is the shortest",
        cell="pbim",
        statistic="greedy_length",
        value=13,
        paper="Fig. 4",
    ),
    claim("greater", id="open", statement="PBIM ends above no bonus", cell="pbim", margin=40.0),
]

CELLS = {
    "none": ("No IM", 41.0),
    "pbim": ("PBIM", 38.0),
    "pbim-no-norm": ("PBIM, no norm", -60.0),
    "rnd": ("RND", -95.0),
}


def study(cells, **changes):
    base = {
        "study": "cliff",
        "title": "Cliff walking",
        "summary": "Tabular Q-learning on the paper's 4x12 grid.",
        "quick": False,
        "command": "pbim reproduce cliff",
        "version": "0.1.0",
        "commit": "abc1234",
        "learner": "q-learning",
        "cells": cells,
        "groups": [],
        "curves": [
            {"metric": "return", "label": "Extrinsic return", "better": "higher"},
            {"metric": "length", "label": "Episode length", "better": "lower"},
        ],
        "x": {"metric": "episode", "label": "Episode"},
        "grid": GRID,
        "paper": None,
        "heat": [],
        "claims": CLAIMS,
    }
    return msgspec.convert({**base, **changes}, Plan, from_attributes=True)


def status(**changes):
    base = {
        "state": "done",
        "error": None,
        "seconds": 1.5,
        "steps": 1000,
        "commit": "abc1234",
        "finished": "2026-01-01",
    }
    versions = {"pbim": "0.1.0", "numpy": "2.4.6"}
    return Status(**{**base, "command": "pbim reproduce cliff", "versions": versions, **changes})


def certificate(**changes):
    return RunCertificate(**{"episodes": 400, "worst": 2e-7, "ok": True, "exact": True, "tolerance": 1e-4, **changes})


def q_run(rng, level, episodes):
    """Return metrics and arrays of a run that climbs to ``level``; at a high one the greedy path is the shortest."""
    rise = 1 - np.exp(-np.arange(episodes) / (episodes / 8))
    returns = -100 + (level + 100) * rise + rng.normal(0, 12, episodes) + rng.normal(0, 4)
    metrics = {
        "episode": np.arange(episodes, dtype=np.int32),
        "steps": np.cumsum(np.full(episodes, 20, np.int64)),
        "return": returns.astype(np.float32),
        "length": rng.integers(10, 40, episodes).astype(np.int32),
        "terminated": np.ones(episodes, bool),
    }
    q = rng.normal(-5, 1, (WIDTH * HEIGHT, 4)).astype(np.float32)
    path = np.array(SHORTEST if level > 0 else [36, 24, 12, 0, 12], np.int32)
    for i, cell in enumerate(SHORTEST[:-1]):
        q[cell, {1: 1, -12: 0, 12: 2}[SHORTEST[i + 1] - cell]] = 10.0 + 5 * i
    visits = rng.integers(0, 50, (WIDTH * HEIGHT, 4)).astype(np.int32)
    visits[3] = visits[40:] = 0
    return metrics, {"q": q, "visits": visits, "path": path}


def write_cliff(folder, *, seeds=5, episodes=400, unfinished=(), failed=(), **changes):
    """Write a cliff study; ``unfinished`` and ``failed`` are (cell, seed) pairs."""
    store, cells = Store(folder), []
    for name, (label, level) in CELLS.items():
        runs = []
        for seed in range(seeds):
            config = {"schema": 2, "learner": {"kind": "q-learning", "cell": name}, "defaults": {}, "seed": seed}
            key = key_of(config)
            runs.append({"seed": seed, "key": key})
            if (name, seed) in unfinished:
                continue
            store.begin(config, status())
            if (name, seed) in failed:
                from pbim.results import write_json

                write_json(store.folder(key) / "status.json", status(state="failed", error="<b>out of memory</b>"))
                continue
            rng = np.random.default_rng([seed, len(name)])
            metrics, arrays = q_run(rng, level, episodes)
            store.finish(key, metrics=metrics, arrays=arrays, certificate=certificate(), status=status())
        params = {"learning_rate": 0.1 if "pbim" in name else 0.5, "encoding": "one-hot" if name != "rnd" else "xy"}
        cells.append(
            {"name": name, "label": label, "group": "", "params": params, "exact": name != "rnd", "runs": runs}
        )
    heat = [{"title": "Rate", "x": "learning_rate", "y": "encoding", "statistic": "final_return", "cells": list(CELLS)}]
    store.write_plan(study(cells, **{"heat": heat, **changes}))
    return folder


def ppo_run(rng, level, updates=1200):
    """Return metrics and arrays of a run whose episodes shorten to ``level`` steps."""
    length = level + (640 - level) * np.exp(-np.arange(updates) / (updates / 12)) + rng.normal(0, 1, updates)
    length[0] = np.nan
    episodes = np.maximum(1, 2048 / np.nan_to_num(length, nan=640)).astype(np.int32)
    episodes[0] = 0
    other = ("residual", "entropy", "value", "policy_loss", "value_loss", "gradient_norm")
    zero = np.zeros(updates, np.float32)
    metrics = {
        "frames": (2048 * np.arange(1, updates + 1)).astype(np.int64),
        "episodes": episodes,
        "goals": np.where(length < 600, episodes, 0).astype(np.int32),
        "truncations": np.where(length < 600, 0, 1).astype(np.int32),
        "length": length.astype(np.float32),
        "extrinsic_return": (length < 600).astype(np.float32),
        **dict.fromkeys(("intrinsic_return", "shaping_return", *other), zero),
    }
    lengths = rng.integers(20, 40, 32).astype(np.int32)
    arrays = {"evaluation_lengths": lengths + 2, "evaluation_goals": np.ones(32, bool), "optimal_lengths": lengths}
    return metrics, arrays


def write_doorkey(folder, *, seeds=3, updates=1200):
    """Write a DoorKey study of two settings, with replays."""
    from PIL import Image

    store, cells, rows = Store(folder), [], []
    groups = [
        {"name": "005-99", "label": "alpha .005, gamma .99"},
        {"name": "025-995", "label": "alpha .025, gamma .995"},
    ]
    for group in groups:
        for scheme, level in (("pbim", 36.0), ("im", 42.0), ("none", 36.0 if group["name"] == "005-99" else 640.0)):
            name, runs = f"{scheme}-{group['name']}", []
            for seed in range(seeds):
                config = {"schema": 2, "learner": {"kind": "ppo", "cell": name}, "defaults": {}, "seed": seed}
                runs.append({"seed": seed, "key": key_of(config)})
                folder_of_run = store.begin(config, status())
                metrics, arrays = ppo_run(np.random.default_rng([seed, len(name), int(level)]), level, updates)
                done = {"certificate": certificate(), "status": status()}
                store.finish(key_of(config), metrics=metrics, arrays=arrays, **done)
                if seed == 0:
                    frames = [Image.new("RGB", (48, 48), (40 * i, 90, 120)) for i in range(4)]
                    frames[0].save(folder_of_run / "replay.gif", save_all=True, append_images=frames[1:], duration=100)
            label = {"pbim": "PBIM", "im": "IM", "none": "No IM"}[scheme]
            cells.append(
                {"name": name, "label": label, "group": group["name"], "params": {}, "exact": True, "runs": runs}
            )
            rows.append({"cell": name, "T": None if level == 640 else 1.67e6, "mean": level, "std": 12.5})
    shorter = claim("less", id="shorter", cell="pbim-005-99", other="im-005-99", statistic="converged_length")
    never = claim("never", id="never", cell="none-025-995", other=None, statistic="frames_to_converge")
    estimate = claim(
        "estimate", id="n", cell="pbim-005-99", other=None, statistic="converged_length", value=36.4, margin=1.0
    )
    store.write_plan(
        study(
            cells,
            study="doorkey",
            title="MiniGrid DoorKey 8x8",
            learner="ppo",
            groups=groups,
            grid=None,
            curves=[{"metric": "length", "label": "Episode length", "better": "lower"}],
            x={"metric": "frames", "label": "Frames"},
            paper={"caption": "Table 1", "rows": rows},
            claims=[shorter, never, estimate],
        )
    )
    return folder
