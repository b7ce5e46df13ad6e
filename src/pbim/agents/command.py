"""The commands ``pbim train`` and ``pbim watch``: arguments as data, and ``run() -> exit code``."""

import json
import math
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from pbim.agents._compiled import keep_compiled as _keep_compiled
from pbim.errors import InputError

CHECKPOINT, SETTINGS, METRICS = "checkpoint.pbim", "settings.json", "metrics.jsonl"


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train recurrent PPO on an environment, with a bonus and its conversion; Ctrl-C leaves a checkpoint to resume.

    Example: pbim train DoorKey-8x8 --intrinsic count --alpha 0.025 --shaping geometric --rate 0.02 --gamma 0.995
    """

    env: Annotated[str, tyro.conf.Positional] = "DoorKey-8x8"
    """CliffWalk, CliffWalkLong, DoorKey-5x5, -6x6, -8x8, -16x16, or gymnax:ID, navix:ID, xminigrid:ID."""
    intrinsic: str = "none"
    """The bonus: none, count, lifetime-count, rnd or icm."""
    alpha: float = 0.025
    """The bonus coefficient."""
    intrinsic_learning_rate: float = 1e-3
    """The learning rate of rnd and icm."""
    shaping: str = "none"
    """The conversion: pbim, grm, geometric, pies, raw or none."""
    rate: float = 0.02
    """The share of the ledger that geometric repays each step."""
    delay: int = 1
    """After how many steps grm repays."""
    normalize: bool = True
    """Centre the bonus by its running mean before it is converted."""
    decay_steps: int = 1_000_000
    """After how many frames pies has faded out."""
    gamma: float = 0.99
    """The discount of the learner and of the conversion."""
    frames: int = 10_000_000
    """Frames in all."""
    seed: int = 0
    num_envs: int = 16
    num_steps: int = 128
    epochs: int = 4
    minibatch_size: int = 256
    recurrence: int = 4
    learning_rate: float = 1e-3
    entropy_coefficient: float = 0.01
    memory: Literal["lstm", "gru", "none"] = "lstm"
    truncation: Literal["end", "bootstrap"] = "end"
    out: Path = Path("out/train")
    """The folder of the run: checkpoint, settings, metrics (one JSON object a line)."""
    resume: bool = False
    """Continue the run in --out, bit for bit."""
    chunk: int = 8
    """Updates between two lines of progress."""
    checkpoint_every: int = 100
    """Updates between two checkpoints."""
    json: bool = False
    """Print the last metrics as one JSON object."""

    def run(self) -> int:
        """Train and return the exit code: 0 done, 130 stopped by Ctrl-C with a checkpoint written."""
        return _train(self)

    def settings(self) -> str:
        """Return what a resumed run must share with the one that was started, as JSON."""
        free = ("out", "resume", "json", "chunk", "checkpoint_every", "frames")
        return json.dumps({name: value for name, value in asdict(self).items() if name not in free}, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Write a GIF of a trained agent on a layout it has not been trained on.

    Example: pbim watch out/train --out agent.gif
    """

    folder: Annotated[Path, tyro.conf.Positional] = Path("out/train")
    """The folder of a run of pbim train."""
    out: Path = Path("agent.gif")
    episodes: int = 3
    """How many episodes to show."""
    frames_per_second: int = 8
    seed: int = 0
    """Which layouts."""

    def run(self) -> int:
        """Play, write the picture and return the exit code."""
        return _watch(self)


def config_of(arguments: Train) -> Any:
    """Return the PPO configuration that the arguments ask for."""
    from pbim.agents import names
    from pbim.agents.ppo import PPO

    env = names.environment(arguments.env)
    bonus, scale = names.intrinsic(
        arguments.intrinsic, env, alpha=arguments.alpha, learning_rate=arguments.intrinsic_learning_rate
    )
    shaping = names.shaping(
        arguments.shaping,
        gamma=arguments.gamma,
        rate=arguments.rate,
        delay=arguments.delay,
        normalize=arguments.normalize,
        decay_steps=arguments.decay_steps,
    )
    if bonus is None and arguments.shaping != "none":
        raise InputError(f"shaping {arguments.shaping} has no bonus to convert: add --intrinsic count, rnd or icm")
    same = {field.name for field in fields(PPO)} & {field.name for field in fields(Train)}
    shared = {name: getattr(arguments, name) for name in same - {"env", "intrinsic", "shaping"}}
    return PPO(
        env=env, intrinsic=bonus, intrinsic_scale=scale, shaping=shaping, total_frames=arguments.frames, **shared
    )


def _train(arguments: Train) -> int:
    import jax
    from rich.console import Console

    from pbim.agents import checkpoint, ppo

    if arguments.chunk < 1 or arguments.checkpoint_every < 1:
        raise InputError("chunk and checkpoint_every must be at least 1: raise them")
    config = config_of(arguments)
    _keep_compiled()
    path = arguments.out / CHECKPOINT
    _check_folder(arguments, path)
    key = jax.random.key(arguments.seed)
    if arguments.resume:
        carry = checkpoint.load(path, jax.eval_shape(lambda: ppo.init(config, key)), config=arguments.settings())
        _forget_after(arguments.out / METRICS, int(carry.updates) * config.frames)
    else:
        carry = ppo.init(config, key)
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / METRICS).unlink(missing_ok=True)
    run = _Run(arguments, config, carry)
    console = Console(stderr=True)
    try:
        run.go(console)
    except KeyboardInterrupt:
        run.save()
        console.print(f"stopped at {run.frames:,} frames; continue with the same command and --resume")
        return 130
    run.save()
    summary = {**run.last, "out": str(arguments.out), "sha256": checkpoint.digest(run.carry.learner.params)}
    print(json.dumps(summary) if arguments.json else f"trained {run.frames:,} frames, written to {arguments.out}")
    return 0


def _forget_after(metrics: Path, frames: int) -> None:
    """Drop what a run that was killed noted after its last checkpoint: it will be noted again."""
    lines = metrics.read_text().splitlines(keepends=True) if metrics.exists() else []
    kept = [line for line in lines if line.endswith("\n") and json.loads(line)["frames"] <= frames]
    if kept != lines:
        metrics.write_text("".join(kept))


def _check_folder(arguments: Train, path: Path) -> None:
    if arguments.resume and not path.exists():
        raise InputError(
            f"resume needs a run in {arguments.out}, which has no {CHECKPOINT}: leave --resume out to start"
        )
    if not arguments.resume and path.exists():
        raise InputError(f"{arguments.out} already holds a run: pass --resume to continue it, or another --out")


class _Run:
    """A run in progress: what is computed on the device, and what has been written of it."""

    def __init__(self, arguments: Train, config: Any, carry: Any) -> None:
        self.arguments, self.config, self.carry = arguments, config, carry
        self.updates = self.saved = int(carry.updates)
        self.last: dict[str, Any] = {}

    @property
    def frames(self) -> int:
        return self.updates * int(self.config.frames)

    def go(self, console: Any) -> None:
        """Train to the end, one chunk at a time, with a checkpoint every so often."""
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
        import jax

        from pbim.agents import ppo

        left = self.config.updates - self.updates
        size = self.arguments.chunk if left >= self.arguments.chunk else 1
        start = time.perf_counter()
        carry, metrics = ppo.update_chunk(self.config, self.carry, size)
        rows = jax.device_get(metrics)
        self.carry, self.updates = carry, self.updates + size
        self.last = _means(rows._asdict())
        self.last["frames_per_second"] = size * self.config.frames / (time.perf_counter() - start)
        with (self.arguments.out / METRICS).open("a") as file:
            file.write(json.dumps(self.last) + "\n")

    def line(self) -> str:
        """Return the figures of the last chunk for the progress bar."""
        m = self.last
        return (
            f"{m['frames']:,} frames  {m['frames_per_second']:,.0f}/s  length {m['length'] or math.nan:.1f}  "
            f"return {m['extrinsic_return'] or math.nan:.2f}  residual {m['residual']:.1g}"
        )

    def save(self) -> None:
        """Write a checkpoint and the settings it needs."""
        from pbim.agents import checkpoint

        about = {"frames": self.frames, "updates": self.updates}
        checkpoint.save(self.arguments.out / CHECKPOINT, self.carry, config=self.arguments.settings(), about=about)
        (self.arguments.out / SETTINGS).write_text(self.arguments.settings())
        self.saved = self.updates


def _means(rows: dict[str, Any]) -> dict[str, Any]:
    """Return a chunk's metrics as one row: episode figures weighted by episodes (None if none ended)."""
    episodes = int(rows["episodes"].sum())
    found: dict[str, Any] = {"frames": int(rows["frames"][-1])}
    for name, values in rows.items():
        if name in ("episodes", "goals", "truncations"):
            found[name] = int(values.sum())
        elif name == "length" or name.endswith("_return"):
            ended = rows["episodes"] > 0
            found[name] = float((values * rows["episodes"])[ended].sum() / episodes) if episodes else None
        elif name == "residual":
            found[name] = float(values.max())
        elif name != "frames":
            found[name] = float(values.mean())
    return found


def _watch(arguments: Watch) -> int:
    import jax

    from pbim.agents import checkpoint, ppo
    from pbim.agents.replay import play

    settings = arguments.folder / SETTINGS
    if not settings.exists():
        raise InputError(
            f"folder must hold a run of pbim train, received {str(arguments.folder)!r}: it has no {SETTINGS}"
        )
    trained = Train(**json.loads(settings.read_text()))
    config = config_of(trained)
    like = jax.eval_shape(lambda: ppo.init(config, jax.random.key(0)))
    carry = checkpoint.load(arguments.folder / CHECKPOINT, like, config=trained.settings())
    pictures, steps = play(config, carry.learner.params, episodes=arguments.episodes, seed=arguments.seed)
    first, *others = pictures
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    first.save(
        arguments.out, save_all=True, append_images=others, duration=round(1000 / arguments.frames_per_second), loop=0
    )
    print(f"{arguments.out}: {arguments.episodes} episodes, {steps} steps")
    return 0
