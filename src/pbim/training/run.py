"""A run of ``pbim train`` in progress: chunks of updates, metrics, evaluation and checkpoints."""

import json
import math
import os
import resource
import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import jax
import numpy as np

from pbim._files import replacing
from pbim.agents import ppo
from pbim.agents.networks import Params
from pbim.agents.ppo import PPO, Carry, Metrics
from pbim.config import strict
from pbim.errors import InputError
from pbim.metric import combine
from pbim.shaping import NoBonus, Raw
from pbim.training import checkpoint
from pbim.training.evaluate import Evaluation, evaluate

if TYPE_CHECKING:
    from rich.console import Console

CHECKPOINT, SETTINGS, METRICS = "checkpoint.pbim", "settings.json", "metrics.jsonl"
TENSORBOARD = "tensorboard"
LINE_EVERY = 10.0
"""Seconds between two lines of progress where there is no terminal to draw a bar in."""


class Schedule(Protocol):
    """Where a run is written, and how often what is done; ``pbim train``'s arguments are one."""

    @property
    def out(self) -> Path:
        """The run's folder."""

    @property
    def chunk(self) -> int:
        """Updates between two lines of progress."""

    @property
    def checkpoint_every(self) -> int:
        """Updates between two checkpoints."""

    @property
    def evaluate_every(self) -> int:
        """Updates between two evaluations; 0: none."""

    @property
    def evaluation_episodes(self) -> int:
        """Episodes of an evaluation."""

    @property
    def tensorboard(self) -> bool:
        """Whether the metrics are written for TensorBoard too."""

    def settings(self) -> str:
        """Return what a resumed run must share with the one that was started, as JSON."""


class DivergenceError(ArithmeticError):
    """A learner whose losses are no numbers any more."""


class Backend(Protocol):
    """What turns a run into a longer run, on the device or with environments on the host."""

    def start(self) -> Carry:
        """Return a run before its first update."""

    def resume(self, carry: Carry) -> Carry:
        """Return a saved run, ready to go on."""

    def advance(self, carry: Carry, updates: int) -> tuple[Carry, Metrics]:
        """Return the run after more updates, and their metrics, (updates,) each; ``carry`` may be used up."""

    def evaluate(self, params: Params, *, episodes: int) -> Evaluation:
        """Play greedy episodes on held-out layouts."""

    def close(self) -> None:
        """Let go of what the backend holds."""


class CompiledBackend:
    """A run whose environments are part of the compiled program."""

    def __init__(self, config: PPO, seed: int) -> None:
        self.config, self.key = config, jax.random.key(seed)

    def start(self) -> Carry:
        """Return a run before its first update."""
        return ppo.init(self.config, self.key)

    def resume(self, carry: Carry) -> Carry:
        """Return the saved run: it holds everything."""
        return carry

    def advance(self, carry: Carry, updates: int) -> tuple[Carry, Metrics]:
        """Return the run after more updates; ``carry`` is used up."""
        return ppo.update_chunk(self.config, carry, updates)

    def evaluate(self, params: Params, *, episodes: int) -> Evaluation:
        """Play greedy episodes on held-out layouts."""
        return evaluate(self.config.compiled_env, self.config.network, params, episodes=episodes)

    def close(self) -> None:
        """Hold nothing."""


def backend_of(config: PPO, seed: int) -> Backend:
    """Return what steps the configuration's environment."""
    if hasattr(config.env, "reset"):
        return CompiledBackend(config, seed)
    from pbim.training.host import HostBackend

    return HostBackend(config, seed)


def shapes_of(config: PPO) -> Carry:
    """Return the shapes of a run's arrays."""
    from pbim.training import host

    init = ppo.init if hasattr(config.env, "reset") else host.init
    found: Carry = jax.eval_shape(partial(init, config), jax.random.key(0))
    return found


def check_memory(config: PPO) -> None:
    """Refuse a run whose arrays alone are larger than the memory of the device.

    Raises:
        InputError: With the least that it needs, and what there is.

    """
    device = jax.devices()[0]
    memory = (device.memory_stats() or {}).get("bytes_limit") or os.sysconf("SC_PAGE_SIZE") * os.sysconf(
        "SC_PHYS_PAGES"
    )
    obs = math.prod(config.env.obs_shape) * np.dtype(config.env.obs_dtype).itemsize
    try:
        kept = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes_of(config)))
    except (OverflowError, MemoryError):  # a size that no index reaches
        kept = math.inf
    needed = kept + config.frames * obs  # what an update makes on the way comes on top
    if needed > memory:
        amount = f"at least {needed / 2**30:,.0f} GiB" if math.isfinite(needed) else "more than can be counted"
        raise InputError(
            f"the run must fit into {memory / 2**30:,.0f} GiB of memory, it needs {amount}: lower --hidden-size, "
            "--num-envs, --num-steps, --skills or the sizes of bonus and environment"
        )


class Trainer:
    """A run, what has been computed of it, and what has been written."""

    def __init__(self, schedule: Schedule, config: PPO, backend: Backend, carry: Carry) -> None:
        self.schedule, self.config, self.backend, self.carry = schedule, config, backend, carry
        self.updates = self.saved = self.recorded = int(carry.updates)
        self.row: dict[str, Any] = {}
        self.sizes = set[int]()
        self.rate: float | None = None
        self.evaluation: dict[str, float | None] = {}
        self.writer: Any = None
        if schedule.tensorboard:
            from tensorboard.summary import Writer  # type: ignore[import-untyped]

            self.writer = Writer(str(schedule.out / TENSORBOARD))

    @property
    def unsaved(self) -> bool:
        """Whether the last checkpoint lacks updates."""
        return self.updates > self.saved

    @property
    def frames(self) -> int:
        """Frames so far."""
        return self.updates * self.config.frames

    def train(self, console: "Console", check: Callable[[], None] = lambda: None) -> None:
        """Train to the end, one chunk at a time, with a checkpoint and an evaluation every so often.

        Args:
            console: Where progress is shown: a bar in a terminal, a line every so often elsewhere.
            check: Called between chunks; what it raises ends the training there.

        """
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f}%"),
            TimeRemainingColumn(),
        )
        printed = 0.0
        scale_due = self.config.intrinsic is not None and not isinstance(self.config.shaping, NoBonus)
        if not console.is_terminal and self.updates < self.config.updates:
            console.print("compiling ...", soft_wrap=True)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("compiling", total=self.config.updates, completed=self.updates)
            while self.updates < self.config.updates:
                check()
                self.advance()
                progress.update(task, completed=self.updates, description=self.line())
                if scale_due and self.row["intrinsic_return"] is not None:
                    scale_due = False
                    console.print(self.scale(), soft_wrap=True)
                over = self.updates >= self.config.updates  # the bar goes, the last figures stay
                if over or (not console.is_terminal and time.monotonic() - printed > LINE_EVERY):
                    printed = time.monotonic()
                    console.print(f"{self.updates / self.config.updates:4.0%}  {self.line()}", soft_wrap=True)
                if self.updates - self.saved >= self.schedule.checkpoint_every:
                    self.save()

    def advance(self) -> None:
        """Run one chunk, the last of what is left, and record its metrics."""
        size = min(self.schedule.chunk, self.config.updates - self.updates)
        start = time.perf_counter()
        self.carry, metrics = self.backend.advance(self.carry, size)  # the old carry may be used up
        self.updates += size
        metrics = jax.device_get(metrics)
        if size in self.sizes:  # the first of a size is compiled first
            self.rate = size * self.config.frames / (time.perf_counter() - start)
        self.sizes.add(size)
        self.record(metrics)

    def record(self, metrics: Metrics) -> None:
        """Write the metrics of the last chunk as one line of strict JSON."""
        every = self.schedule.evaluate_every
        self.row = dict(combine(PPO.metrics, metrics._asdict()))
        self.row["frames_per_second"] = self.rate
        due = every and (self.updates // every > self.recorded // every or self.updates >= self.config.updates)
        if due:
            found = self.backend.evaluate(self.carry.learner.params, episodes=self.schedule.evaluation_episodes)
            self.evaluation = found.summary()
        self.row = strict(self.row | (self.evaluation if due else {}))
        with (self.schedule.out / METRICS).open("a") as file:
            file.write(json.dumps(self.row, allow_nan=False) + "\n")
        if self.writer is not None:
            for name, value in self.row.items():
                if value is not None and name != "frames":
                    self.writer.add_scalar(name, value, step=self.frames)
            self.writer.flush()
        self.recorded = self.updates
        lost = [name for name in ("policy_loss", "value_loss", "gradient_norm") if self.row[name] is None]
        if lost:
            names = [] if self.config.method is None else fields(self.config.method)
            method = "".join(f", --method.{field.name.replace('_', '-')}" for field in names)
            raise DivergenceError(
                f"the learner diverged: {', '.join(lost)} is no number at {self.frames:,} frames; the last checkpoint, "
                f"if there is one, is of before: lower --learning-rate, --alpha{method} or --reward-scale"
            )

    def line(self) -> str:
        """Return the figures of the last chunk, and of the last evaluation, for the progress bar."""
        row, best = self.row, self.evaluation
        greedy = f"  greedy {best['evaluation_return']:.2f} in {best['evaluation_length']:.1f}" if best else ""
        rate = "" if self.rate is None else f"{self.rate:,.0f}/s  "
        residual = f"  residual {_text(row['residual'], '.1g')}" if self.config.exact else ""
        weight = "" if self.config.method is None else f"  bonus weight {row['bonus_weight']:.3f}"
        return (
            f"{row['frames']:,} frames  {rate}length {_text(row['length'], '.1f')}  "
            f"return {_text(row['extrinsic_return'], '.2f')}{residual}{weight}{greedy}"
        )

    def scale(self) -> str:
        """Return how large the bonus is beside the task's reward, and how to change that."""
        row, paid, task = self.row, self.row["intrinsic_return"], self.row["extrinsic_return"]
        both = paid and task and task > 0 and self.config.task_reward == "full"
        level = f"; {self.config.intrinsic_scale * task / abs(paid):.2g} would pay as much as the task" if both else ""
        return (
            f"bonus: {paid / row['length']:.2g} per step, {paid:.3g} per episode"
            f"{'' if isinstance(self.config.shaping, Raw) else ', before it is converted'}; "
            f"the task paid {task:.3g} per episode. --alpha, now "
            f"{self.config.intrinsic_scale:g}, scales it{level}"
        )

    def save(self) -> None:
        """Write a checkpoint and the settings it needs."""
        about = {"frames": self.frames, "updates": self.updates}
        checkpoint.save(self.schedule.out / CHECKPOINT, self.carry, config=self.schedule.settings(), about=about)
        with replacing(self.schedule.out / SETTINGS) as file:
            file.write(self.schedule.settings().encode())
        self.saved = self.updates

    def summary(self) -> dict[str, Any]:
        """Return the last metrics, where the run is, its parameters' hash and the process's peak memory."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        digest = checkpoint.digest(self.carry.learner.params)
        return {**self.row, "out": str(self.schedule.out), "sha256": digest, "peak_memory_mib": round(peak)}


def forget_after(metrics: Path, frames: int) -> None:
    """Drop what a run that was killed recorded after its last checkpoint: it will be recorded again."""
    lines = metrics.read_text(errors="replace").splitlines(keepends=True) if metrics.exists() else []
    before = [line for line in lines if 0 < _frames_of(metrics, line) <= frames]
    if before != lines:
        with replacing(metrics) as file:
            file.write("".join(before).encode())


def _frames_of(metrics: Path, line: str) -> int:
    """Return the frames of a line of metrics; 0 for one that was cut off as it was written."""
    if not line.endswith("\n"):
        return 0
    try:
        return int(json.loads(line)["frames"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise InputError(
            f"{str(metrics)!r} must hold one JSON object with frames per line, received {line[:60]!r}: remove that "
            "line to go on without it"
        ) from None


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
