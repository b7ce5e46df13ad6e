"""Logs for the tests of audits: random walks in a corridor, and finite MDPs visited completely."""

import numpy as np


def corridor(*, length=6, episodes=200, steps=30, seed=0):
    """Return a random walk over 0 .. length-1 that terminates at the right, as audit's arguments without a term."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(episodes):
        here = 0
        for step in range(steps):
            there = int(np.clip(here + rng.integers(-1, 2), 0, length - 1))
            over = there == length - 1
            rows.append((here, there, over, step == steps - 1 and not over, episode, float(over)))
            here = there
            if over:
                break
    names = ("obs", "next_obs", "terminated", "truncated", "episode", "extrinsic")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def shaped(log, potential, gamma, *, zero_at_end=True):
    """Return gamma Phi(s') - Phi(s) along a log, with Phi an array over states."""
    after = potential[log["next_obs"]]
    if zero_at_end:
        after = np.where(log["terminated"], 0, after)
    return gamma * after - potential[log["obs"]]


def complete_log(rng):
    """Return every transition of a random finite MDP once, and its number of states."""
    states = int(rng.integers(2, 9))
    ends = rng.random(states) < rng.choice([0, 0.3])
    ends[0] = False
    links = rng.random((states, states)) < 0.35
    links[np.arange(states), rng.integers(states, size=states)] = True  # every state has a way on
    here, there = np.nonzero(links & ~ends[:, None])
    return {"obs": here, "next_obs": there, "terminated": ends[there]}, states


def cycle_space(log, states, gamma):
    """Return the matrix whose columns are the states: row (s, s') of gamma Phi(s') - Phi(s), 0 for ended s'."""
    matrix = np.zeros((len(log["obs"]), states))
    rows = np.arange(len(matrix))
    np.add.at(matrix, (rows, log["obs"]), -1)
    on = ~log["terminated"]
    np.add.at(matrix, (rows[on], log["next_obs"][on]), gamma)
    return matrix
