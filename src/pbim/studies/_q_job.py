"""Training a block of seeds of tabular Q-learning side by side.

A seed always learns in lane ``seed % lanes`` of a program of ``lanes`` lanes; lanes nobody asked for are through from
the start. So its numbers do not depend on the seeds beside it.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from pbim.agents import q_learning
from pbim.agents.q_learning import QLearning, SeedState
from pbim.config import canonical, key_of
from pbim.envs import CliffWalk
from pbim.intrinsic import Transition
from pbim.results import CHECKPOINT, RunCertificate, Store
from pbim.studies.job import Clock, Config, Job, Progress, begin, resume, status
from pbim.training import checkpoint
from pbim.verification import Certificate

CHUNKS, SECONDS = 16, 1.0
"""Chunks in the first piece, and how long a piece should take after that."""


def train(job: Job, store: Store) -> Iterator[Progress]:
    """Yield every run's progress, piece by piece; a run is written as soon as its last episode ended."""
    begin(job, store)
    learner: QLearning = job.learner
    lanes = _Lanes(job, store)
    runs, before = lanes.start(learner)
    clock, chunks, open_lanes = Clock(job.save_every, before), CHUNKS, dict(lanes.configs)
    while open_lanes:
        start = time.perf_counter()
        runs = q_learning.advance(learner, runs, chunks)
        episodes = np.asarray(runs.episode)
        chunks = _next(chunks, time.perf_counter() - start)
        save = clock.due()
        for lane, config in list(open_lanes.items()):
            files: tuple[str, ...] = ()
            over = bool(episodes[lane] >= learner.episodes)
            if over:
                _finish(job, store, learner, config, _lane(runs, lane), clock.seconds)
                del open_lanes[lane]
            elif save:
                lanes.save(config, _lane(runs, lane), clock.seconds)
                files = (CHECKPOINT,)
            yield _progress(learner, config, runs, lane, files)._replace(note=lanes.notes.pop(lane, ""))


@jax.jit
def _lane(runs: SeedState, lane: int) -> SeedState:
    """Return one lane's run."""
    run: SeedState = jax.tree.map(lambda leaf: leaf[lane], runs)
    return run


@jax.jit
def _replaced(runs: SeedState, lane: int, run: SeedState) -> SeedState:
    """Return all lanes with one of them replaced."""
    replaced: SeedState = jax.tree.map(lambda leaf, new: leaf.at[lane].set(new), runs, run)
    return replaced


class _Lanes:
    """Which run learns in which lane, and its checkpoints."""

    def __init__(self, job: Job, store: Store) -> None:
        self.store, self.width = store, int(job.learner.lanes)
        self.configs = {config["seed"] % self.width: config for config in job.configs}
        self.notes: dict[int, str] = {}

    def path(self, config: Config) -> Path:
        return self.store.folder(key_of(config)) / CHECKPOINT

    def start(self, learner: QLearning) -> tuple[SeedState, float]:
        """Return all lanes where they were last saved, else at the start, and the seconds spent on them so far."""
        idle = next(iter(self.configs.values()))
        keys = jnp.stack([jax.random.key(self.configs.get(lane, idle)["seed"]) for lane in range(self.width)])
        runs, seconds = q_learning.start(learner, keys), 0.0
        wanted = jnp.asarray([lane in self.configs for lane in range(self.width)])
        runs = runs._replace(episode=jnp.where(wanted, runs.episode, learner.episodes))
        for lane, config in self.configs.items():
            found = resume(self.store, config, _lane(runs, lane))
            if isinstance(found, str):
                self.notes[lane] = found
            elif found is not None:
                runs, seconds = _replaced(runs, lane, found[0]), max(seconds, found[1])
        return runs, seconds

    def save(self, config: Config, run: SeedState, seconds: float) -> None:
        """Write one lane's checkpoint."""
        checkpoint.save(self.path(config), run, config=canonical(config), about={"seconds": seconds})


def _next(chunks: int, seconds: float) -> int:
    """Return how many chunks the next piece has: about a second's worth, at most four times as many as before."""
    return max(1, min(4 * chunks, round(chunks * SECONDS / max(seconds, 1e-3))))


def _progress(learner: QLearning, config: Config, runs: SeedState, lane: int, files: tuple[str, ...]) -> Progress:
    episode, steps = int(np.asarray(runs.episode)[lane]), int(np.asarray(runs.steps)[lane])
    late = slice(max(0, episode - 100), max(1, episode))
    returns, lengths = np.asarray(runs.returns)[lane, late], np.asarray(runs.lengths)[lane, late]
    figures = {"return": float(returns.mean()), "length": float(lengths.mean())}
    over = episode >= learner.episodes
    return Progress(key_of(config), episode, learner.episodes, steps, figures, files, over)


def _finish(job: Job, store: Store, learner: QLearning, config: Config, run: SeedState, seconds: float) -> None:
    lengths = np.asarray(run.lengths)
    report = Certificate(gamma=learner.gamma).report(run.certificate)
    key = key_of(config)
    store.finish(
        key,
        metrics={
            "episode": np.arange(learner.episodes, dtype=np.int32),
            "steps": np.cumsum(lengths, dtype=np.int64),
            "return": np.asarray(run.returns),
            "length": lengths,
            "terminated": np.asarray(run.goals),
        },
        arrays={
            "q": np.asarray(run.q),
            "visits": np.asarray(run.visits),
            "path": greedy_path(learner.env, run.q),
            **state_bonuses(learner, config["seed"], run),
        },
        certificate=RunCertificate(
            episodes=report.episodes,
            worst=report.worst if np.isfinite(report.worst) else None,
            ok=report.ok,
            exact=learner.exact,
            tolerance=report.tolerance,
        ),
        status=status(job, state="done", steps=int(run.steps), seconds=seconds / len(job.configs)),
    )
    (store.folder(key) / CHECKPOINT).unlink(missing_ok=True)


def state_bonuses(learner: QLearning, seed: int, run: SeedState) -> dict[str, NDArray[np.float32]]:
    """Return F of every state, (num_states,), scaled, before and after a run; nothing where F reads more than that."""
    bonus = learner.intrinsic
    if getattr(bonus, "reads", None) != ("next_obs",):
        return {}
    states, no = jnp.arange(learner.num_states), jnp.zeros(learner.num_states, bool)
    every = Transition(states, jnp.zeros_like(states), states, no, no, {})
    first = q_learning.init(learner, jax.random.key(seed)).bonus
    return {
        name: np.asarray(learner.intrinsic_scale * bonus.reward_fn(state, every))
        for name, state in (("first_bonus", first), ("last_bonus", run.bonus))
    }


def greedy_path(env: Any, q: Any) -> NDArray[np.int32]:
    """Return the cells that the best actions lead through, (L,): to the end of the episode or the first repetition.

    Only a cliff walk has cells to draw; of any other task there is none.

    >>> from pbim.envs import CliffWalk
    >>> q = np.zeros((12, 4)); q[:, 1] = 1.0  # to the right: over the cliff
    >>> greedy_path(CliffWalk(width=4, height=3), q)
    array([8, 9], dtype=int32)
    """
    if not isinstance(env, CliffWalk):
        return np.zeros(0, np.int32)
    transition, _, _, terminal = env.arrays()
    best, path = np.asarray(q).argmax(axis=1), [env.start]
    while not terminal[path[-1]] and len(path) <= env.max_steps:
        following = int(transition[path[-1], best[path[-1]]].argmax())
        path.append(following)
        if following in path[:-1]:
            break
    return np.asarray(path, np.int32)
