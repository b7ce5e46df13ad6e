"""``pbim train``: arguments as data, and ``run() -> exit code``."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from pbim.errors import InputError
from pbim.training.compiled import keep_compiled as _keep_compiled

CHECKPOINT, SETTINGS, METRICS = "checkpoint.pbim", "settings.json", "metrics.jsonl"


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train recurrent PPO on an environment, with a bonus and its conversion; Ctrl-C leaves a checkpoint to resume.

    Example: pbim train DoorKey-8x8 --intrinsic count --alpha 0.025 --shaping geometric --rate 0.02 --gamma 0.995
    """

    env: Annotated[str, tyro.conf.Positional] = "DoorKey-8x8"
    """CliffWalk, CliffWalkLong, DoorKey-5x5, -6x6, -8x8, -16x16, gymnax:ID, navix:ID, xminigrid:ID (all compiled), or
    any Gymnasium id with discrete actions (stepped on the host; gymnasium:ID steps one of ours there too)."""
    intrinsic: str = "none"
    """The bonus: none, count, lifetime-count, rnd or icm. On the host, counts are of info["count_key"] if the
    environment reports it, else of hashed observations, real numbers rounded to one decimal."""
    alpha: float = 0.025
    """The bonus coefficient."""
    intrinsic_learning_rate: float = 1e-3
    """The learning rate of rnd and icm."""
    shaping: str = "none"
    """The conversion: pbim, grm, geometric, bounded, mixture (half geometric, half grm), pies, adops, adopes (both with
    two critics), raw or none."""
    rate: float = 0.02
    """The share of the ledger that geometric repays each step."""
    delay: int = 32
    """After how many steps grm repays."""
    ledger_limit: float = 1.0
    """What bounded may owe before it repays, in units of the extrinsic reward."""
    normalize: bool = True
    """Centre the bonus by its running mean before it is converted."""
    decay_steps: int = 1_000_000
    """After how many frames pies has faded out, or adopes corrects fully."""
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
    """Continue the run in --out, bit for bit; environments on the host begin new episodes."""
    chunk: int = 8
    """Updates between two lines of progress."""
    checkpoint_every: int = 100
    """Updates between two checkpoints."""
    evaluate_every: int = 200
    """Updates between two greedy evaluations on held-out layouts, by extrinsic reward alone; the last is at the end.
    0: none."""
    evaluation_episodes: int = 64
    """Episodes of an evaluation."""
    json: bool = False
    """Print the last metrics as one JSON object."""

    def run(self) -> int:
        """Train and return the exit code: 0 done, 130 stopped by Ctrl-C with a checkpoint written."""
        return _train(self)

    def settings(self) -> str:
        """Return what a resumed run must share with the one that was started, as JSON."""
        free = ("out", "resume", "json", "chunk", "checkpoint_every", "evaluate_every", "evaluation_episodes", "frames")
        return json.dumps({name: value for name, value in asdict(self).items() if name not in free}, sort_keys=True)


def config_of(arguments: Train) -> Any:
    """Return the PPO configuration that the arguments ask for."""
    from pbim.agents.ppo import PPO
    from pbim.training import names

    env = names.environment(arguments.env)
    bonus, scale = names.intrinsic(
        arguments.intrinsic, env, alpha=arguments.alpha, learning_rate=arguments.intrinsic_learning_rate
    )
    shaping, correction = names.shaping(
        arguments.shaping,
        gamma=arguments.gamma,
        rate=arguments.rate,
        delay=arguments.delay,
        limit=arguments.ledger_limit,
        normalize=arguments.normalize,
        decay_steps=arguments.decay_steps,
    )
    if bonus is None and arguments.shaping != "none":
        raise InputError(f"shaping {arguments.shaping} has no bonus to convert: add --intrinsic count, rnd or icm")
    same = {field.name for field in fields(PPO)} & {field.name for field in fields(Train)}
    shared = {name: getattr(arguments, name) for name in same - {"env", "intrinsic", "shaping"}}
    return PPO(
        env=env,
        intrinsic=bonus,
        intrinsic_scale=scale,
        shaping=shaping,
        correction=correction,
        critics="joint" if correction is None else "separate",
        total_frames=arguments.frames,
        **shared,
    )


def _train(arguments: Train) -> int:
    from rich.console import Console

    from pbim.training import checkpoint
    from pbim.training.run import Run, engine_of, forget_after

    _check_counts(arguments)
    config = config_of(arguments)
    _keep_compiled()
    path = arguments.out / CHECKPOINT
    _check_folder(arguments, path)
    engine = engine_of(config, arguments.seed)
    if arguments.resume:
        carry = engine.resumed(checkpoint.load(path, engine.like(), config=arguments.settings()))
        forget_after(arguments.out / METRICS, int(carry.updates) * config.frames)
    else:
        carry = engine.start()
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / METRICS).unlink(missing_ok=True)
    run = Run(arguments, config, engine, carry)
    console = Console(stderr=True)
    try:
        run.go(console)
    except KeyboardInterrupt:
        run.note()
        run.save()
        console.print(f"stopped at {run.frames:,} frames; continue with the same command and --resume")
        return 130
    finally:
        engine.close()
    run.save()
    summary = (
        json.dumps(run.summary()) if arguments.json else f"trained {run.frames:,} frames, written to {arguments.out}"
    )
    print(summary)
    return 0


def _check_counts(arguments: Train) -> None:
    for name in ("chunk", "checkpoint_every", "evaluation_episodes"):
        if getattr(arguments, name) < 1:
            raise InputError(f"{name} must be at least 1, received {getattr(arguments, name)}: raise it")
    if arguments.evaluate_every < 0:
        raise InputError(f"evaluate_every must be at least 0, received {arguments.evaluate_every}: 0 never evaluates")


def _check_folder(arguments: Train, path: Path) -> None:
    if arguments.resume and not path.exists():
        raise InputError(
            f"resume needs a run in {arguments.out}, which has no {CHECKPOINT}: leave --resume out to start"
        )
    if not arguments.resume and path.exists():
        raise InputError(f"{arguments.out} already holds a run: pass --resume to continue it, or another --out")
