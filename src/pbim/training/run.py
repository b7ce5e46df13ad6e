"""A run of ``pbim train`` in progress: chunks of updates, metrics, evaluation and checkpoints."""

import json
import math
import resource
import time
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import jax

from pbim.agents import ppo
from pbim.agents._update import Carry, Metrics
from pbim.training import checkpoint
from pbim.training.evaluate import Evaluation, evaluate

CHECKPOINT, SETTINGS, METRICS = "checkpoint.pbim", "settings.json", "metrics.jsonl"


class Engine(Protocol):
    """What turns a run into a longer run, on the device or with environments on the host."""

    def like(self) -> Any:
        """Return the shapes of a run's arrays."""

    def start(self) -> Carry:
        """Return a run before its first update."""

    def resumed(self, carry: Carry) -> Carry:
        """Return a saved run, ready to go on."""

    def chunk(self, carry: Carry, updates: int) -> tuple[Carry, Metrics]:
        """Return the run after more updates, and their metrics, (updates,) each."""

    def evaluate(self, params: Any, *, episodes: int) -> Evaluation:
        """Play greedy episodes on held-out layouts."""

    def close(self) -> None:
        """Let go of what the engine holds."""


class Compiled:
    """A run whose environments are part of the compiled program."""

    def __init__(self, config: ppo.PPO, seed: int) -> None:
        self.config, self.key = config, jax.random.key(seed)

    def like(self) -> Any:
        """Return the shapes of a run's arrays."""
        return jax.eval_shape(partial(ppo.init, self.config), self.key)

    def start(self) -> Carry:
        """Return a run before its first update."""
        carry: Carry = ppo.init(self.config, self.key)
        return carry

    def resumed(self, carry: Carry) -> Carry:
        """Return the saved run: it holds everything."""
        return carry

    def chunk(self, carry: Carry, updates: int) -> tuple[Carry, Metrics]:
        """Return the run after more updates; ``carry`` is used up."""
        following: tuple[Carry, Metrics] = ppo.update_chunk(self.config, carry, updates)
        return following

    def evaluate(self, params: Any, *, episodes: int) -> Evaluation:
        """Play greedy episodes on held-out layouts."""
        found: Evaluation = evaluate(self.config.env, self.config.network, params, episodes=episodes)
        return found

    def close(self) -> None:
        """Hold nothing."""


def engine_of(config: ppo.PPO, seed: int) -> Engine:
    """Return the engine for the configuration's environment."""
    if hasattr(config.env, "reset"):
        return Compiled(config, seed)
    from pbim.training.host import HostRun

    return HostRun(config, seed)


class Run:
    """What has been computed, and what has been written of it."""

    def __init__(self, arguments: Any, config: ppo.PPO, engine: Engine, carry: Carry) -> None:
        self.arguments, self.config, self.engine, self.carry = arguments, config, engine, carry
        self.updates = self.saved = self.noted = int(carry.updates)
        self.last: dict[str, Any] = {}
        self.evaluation: dict[str, Any] = {}
        self._metrics: Any = None

    @property
    def frames(self) -> int:
        """Frames so far."""
        return self.updates * self.config.frames

    def go(self, console: Any) -> None:
        """Train to the end, one chunk at a time, with a checkpoint and an evaluation every so often."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f}%"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("compiling", total=self.config.updates, completed=self.updates)
            while self.updates < self.config.updates:
                self.chunk()
                progress.update(task, completed=self.updates, description=self.line())
                if self.updates - self.saved >= self.arguments.checkpoint_every:
                    self.save()

    def chunk(self) -> None:
        """Run one chunk (single updates near the end, which need no new program) and note its metrics."""
        left = self.config.updates - self.updates
        size = self.arguments.chunk if left >= self.arguments.chunk else 1
        start = time.perf_counter()
        self.carry, self._metrics = self.engine.chunk(self.carry, size)  # the old carry may be used up
        self.updates += size
        jax.device_get(self._metrics)
        self.note(time.perf_counter() - start)

    def note(self, seconds: float = math.nan) -> None:
        """Write the metrics of the last chunk, if they are not written yet."""
        if self.noted == self.updates:
            return
        size, every = self.updates - self.noted, self.arguments.evaluate_every
        self.last = means(jax.device_get(self._metrics)._asdict())
        self.last["frames_per_second"] = None if math.isnan(seconds) else size * self.config.frames / seconds
        due = every and (self.updates // every > self.noted // every or self.updates >= self.config.updates)
        if due:
            found = self.engine.evaluate(self.carry.learner.params, episodes=self.arguments.evaluation_episodes)
            self.evaluation = found.summary()
            self.last |= self.evaluation
        with (self.arguments.out / METRICS).open("a") as file:
            file.write(json.dumps(self.last) + "\n")
        self.noted = self.updates

    def line(self) -> str:
        """Return the figures of the last chunk, and of the last evaluation, for the progress bar."""
        m, e = self.last, self.evaluation
        evaluated = f"  greedy {e['evaluation_return']:.2f} in {e['evaluation_length']:.1f}" if e else ""
        return (
            f"{m['frames']:,} frames  {m['frames_per_second']:,.0f}/s  length {_shown(m['length'], 1)}  "
            f"return {_shown(m['extrinsic_return'], 2)}  residual {m['residual']:.1g}{evaluated}"
        )

    def save(self) -> None:
        """Write a checkpoint and the settings it needs."""
        about = {"frames": self.frames, "updates": self.updates}
        checkpoint.save(self.arguments.out / CHECKPOINT, self.carry, config=self.arguments.settings(), about=about)
        (self.arguments.out / SETTINGS).write_text(self.arguments.settings())
        self.saved = self.updates

    def summary(self) -> dict[str, Any]:
        """Return the last metrics, where the run is, its parameters' hash and the process's peak memory."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        digest = checkpoint.digest(self.carry.learner.params)
        return {**self.last, "out": str(self.arguments.out), "sha256": digest, "peak_memory_mib": round(peak)}


def means(rows: dict[str, Any]) -> dict[str, Any]:
    """Return a chunk's metrics as one row: figures of episodes weighted by how many (None if there were none)."""
    found: dict[str, Any] = {"frames": int(rows["frames"][-1])}
    for name, values in rows.items():
        if name in ("episodes", "goals", "truncations"):
            found[name] = int(values.sum())
        elif name in ("length", "gap") or name.endswith("_return"):
            weights = rows["goals" if name == "gap" else "episodes"]
            mean = float((values * weights)[weights > 0].sum() / weights.sum()) if weights.sum() else math.nan
            found[name] = None if math.isnan(mean) else mean
        elif name == "residual":
            found[name] = float(values.max())
        elif name != "frames":
            found[name] = float(values.mean())
    return found


def forget_after(metrics: Path, frames: int) -> None:
    """Drop what a run that was killed noted after its last checkpoint: it will be noted again."""
    lines = metrics.read_text().splitlines(keepends=True) if metrics.exists() else []
    kept = [line for line in lines if line.endswith("\n") and json.loads(line)["frames"] <= frames]
    if kept != lines:
        metrics.write_text("".join(kept))


def _shown(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
