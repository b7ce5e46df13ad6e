"""``pbim train``: a learner with its components from the command line, trained with progress and checkpoints."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import tyro

from pbim.cli import components
from pbim.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

ENV = "DoorKey-8x8"
"""The environment where none is named."""
ALPHA = 0.025
"""The bonus coefficient where none is given: the paper's largest on DoorKey."""


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train recurrent PPO on an environment, with a bonus and its conversion; Ctrl-C leaves a checkpoint to resume.

    pbim train ENV --intrinsic BONUS --shaping CONVERSION [options]

    ENV: CliffWalk, CliffWalkLong, DoorKey-5x5, -6x6, -8x8, -16x16, gymnax:ID, navix:ID, xminigrid:ID (all compiled),
    any Gymnasium id with discrete actions (stepped on the host; gymnasium:ID steps one of ours there too), or your own
    package.module:Class. BONUS: none, or one that pbim list shows. CONVERSION: one that pbim list shows, or adops or
    adopes (two critics). Both may be your own package.module:Class. Their fields are the options below; --rate is
    short for --shaping.rate, --alpha for --intrinsic-scale, the coefficient that every bonus is multiplied by (0.025
    where a bonus is named), --frames for --total-frames. Without ENV it is DoorKey-8x8; a bonus without a named
    conversion is converted by geometric, with the rate that pbim recommend names for --gamma and --gae-lambda, and
    --shaping raw adds it as it is.

    Example: pbim train DoorKey-8x8 --intrinsic count --alpha 0.025 --shaping geometric --rate 0.02 --gamma 0.995
    """

    learner: Annotated[Any, tyro.conf.arg(name="")] = None
    seed: int = 0
    out: Path = Path("out/train")
    """The folder of the run: checkpoint, settings, metrics (one JSON object per line)."""
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
    tensorboard: bool = False
    """Write the metrics for TensorBoard too, below tensorboard/ in --out."""
    json: bool = False
    """Print the last metrics as one JSON object."""

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Self:
        """Return the command that the words after ``pbim train`` ask for."""
        learner, rest = learner_of_words(arguments)
        parts = {"shaping": learner.shaping, "intrinsic": learner.intrinsic, "correction": learner.correction}
        own = [name for name in components.options_of(type(learner)) + components.options_of(cls) if name not in parts]
        words = components.lengthen(write_out(rest), own, parts)
        with components.registry():
            return tyro.cli(cls, prog="pbim train", args=words, default=cls(learner=learner), config=components.STYLE)

    def run(self) -> int:
        """Train and return the exit code: 0 done, 1 diverged, 130 stopped by Ctrl-C with a checkpoint written."""
        return _train(self)

    def settings(self) -> str:
        """Return what a resumed run must share with the one that was started, as JSON."""
        from pbim.config import canonical, encode

        return canonical({**encode(self.learner), "total_frames": None, "seed": self.seed})


def learner_of_words(arguments: Sequence[str]) -> tuple[Any, list[str]]:
    """Return PPO with the components that the words name and every other setting by default, and the other words."""
    from pbim.agents import PPO, Adops
    from pbim.shaping import NoBonus, Raw, recommended
    from pbim.training.bonuses import bonus_for
    from pbim.training.environments import environment

    bonus_name, rest = components.take(arguments, "--intrinsic", "none")
    name, rest = components.take(rest, "--shaping", "none" if bonus_name == "none" else recommended(1).kind)
    gamma, rest = components.take(rest, "--gamma", "0.99")
    gae_lambda, rest = components.take(rest, "--gae-lambda", "0.95")
    env_name, rest = (rest[0], rest[1:]) if rest and not rest[0].startswith("-") else (ENV, rest)
    if ":" in env_name:
        components.import_from_here()
    env = environment(env_name)
    bonus = None if bonus_name == "none" else bonus_for(bonus_name, env)
    if bonus is None and name != "none":
        raise InputError(f"shaping {name} has no bonus to convert: add --intrinsic count, rnd or icm")
    settings: dict[str, Any] = {
        "env": env,
        "intrinsic": bonus,
        "gamma": _number("gamma", gamma),
        "gae_lambda": _number("gae-lambda", gae_lambda),
        "intrinsic_scale": 1.0 if bonus is None else ALPHA,
    }
    if name in ("adops", "adopes"):
        correction = Adops(rise_frames=0 if name == "adops" else 1_000_000)
        return PPO(**settings, shaping=Raw(), correction=correction, critics="separate"), rest
    known = settings["gamma"], settings["gae_lambda"]
    shaping = NoBonus() if name == "none" else components.conversion(name, *known)
    return PPO(**settings, shaping=shaping), rest


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--{option} must be a number, received {text!r}: leave it out for the usual one") from None


def write_out(arguments: Sequence[str]) -> list[str]:
    """Return the words with the short names ``--alpha`` and ``--frames`` written out."""
    names = {"--alpha": "--intrinsic-scale", "--frames": "--total-frames"}
    parts = [word.partition("=") for word in arguments]
    return [f"{names.get(name, name)}{equals}{text}" for name, equals, text in parts]


def _train(arguments: Train) -> int:
    from rich.console import Console

    from pbim._files import alone
    from pbim.training.compiled import keep_compiled

    _check_counts(arguments)
    if arguments.tensorboard and find_spec("tensorboard") is None:
        raise InputError("tensorboard is not installed: pip install tensorboard, or leave --tensorboard out")
    keep_compiled()
    console = Console(stderr=True, highlight=False)
    _check_folder(arguments)  # before anything is written, and again when nobody else can
    with alone(arguments.out):
        _check_folder(arguments)
        for line in filter(None, (_plan(arguments.learner), _felt(arguments.learner))):
            console.print(line, soft_wrap=True)
        return _run(arguments, console)


def _run(arguments: Train, console: "Console") -> int:
    from pbim.training import checkpoint
    from pbim.training.interrupts import Interrupts
    from pbim.training.run import CHECKPOINT, METRICS, DivergenceError, Trainer, backend_of, forget_after

    config, path = arguments.learner, arguments.out / CHECKPOINT
    run: Trainer | None = None

    def say(line: str) -> None:
        console.show_cursor(True)
        console.print(line, soft_wrap=True)

    with Interrupts(lambda: run is not None and run.unsaved, say) as interrupts:
        backend = backend_of(config, arguments.seed)
        try:
            if arguments.resume:
                carry = backend.resume(checkpoint.load(path, backend.shapes(), config=arguments.settings()))
                forget_after(arguments.out / METRICS, int(carry.updates) * config.frames)
            else:
                carry = backend.start()
                _set_aside(arguments.out / METRICS, say)
            run = Trainer(arguments, config, backend, carry)
            run.train(console, interrupts.check)
            run.save()
        except DivergenceError as error:
            say(f"pbim: {error}")
            return 1
        except KeyboardInterrupt:
            if run is not None:
                run.save()
                say(f"stopped at {run.frames:,} frames; continue with the same command and --resume")
            return 130
        finally:
            backend.close()
    summary = (
        json.dumps(run.summary()) if arguments.json else f"trained {run.frames:,} frames, written to {arguments.out}"
    )
    print(summary)
    return 0


def _set_aside(metrics: Path, say: Callable[[str], None]) -> None:
    """Keep the figures of a run that left no checkpoint under another name."""
    if metrics.exists():
        other = next(path for n in count(1) if not (path := metrics.with_name(f"metrics-{n}.jsonl")).exists())
        metrics.rename(other)
        say(f"{metrics.name} of a run without a checkpoint is now {other.name}")


def _check_counts(arguments: Train) -> None:
    components.check_seed(arguments.seed)
    for name in ("chunk", "checkpoint_every", "evaluation_episodes"):
        if getattr(arguments, name) < 1:
            raise InputError(f"{name} must be at least 1, received {getattr(arguments, name)}: raise it")
    if arguments.evaluate_every < 0:
        raise InputError(f"evaluate_every must be at least 0, received {arguments.evaluate_every}: 0 never evaluates")


def _plan(learner: Any) -> str:
    """Return what is trained, in one line: the environment, the bonus and what becomes of it."""
    from pbim.config import kind_of
    from pbim.shaping import NoBonus

    where = f"PPO on {describe(learner.env)}, {learner.updates * learner.frames:,} frames"
    if learner.intrinsic is None:
        return f"{where}: no bonus"
    bonus = f"{where}: bonus {kind_of(learner.intrinsic)} x {learner.intrinsic_scale:g}"
    if isinstance(learner.shaping, NoBonus):
        return f"{bonus}, which --shaping none keeps from the learner: name a conversion to use it"
    if learner.correction is not None:
        return f"{bonus}, corrected by {kind_of(learner.correction)}"
    return f"{bonus}, converted by {learner.shaping.label}: {learner.shaping.guarantee.level.value}"


def _felt(learner: Any) -> str:
    """Return how strongly the learner will feel the bonus, and what is owed; warns where that is little or much."""
    from pbim.shaping import announce_guidance

    if learner.intrinsic is None or learner.correction is not None:
        return ""
    endless = learner.truncation == "continue"
    return announce_guidance(
        learner.shaping,
        learner.gae_lambda,
        rollout=learner.num_steps,
        max_steps=None if endless else learner.env.max_steps or None,
        bonus=learner.intrinsic_scale,
    )


def describe(env: Any) -> str:
    """Return an environment with the settings that are not the default."""
    changed = [f for f in fields(env) if f.init and getattr(env, f.name) != f.default]
    return f"{type(env).__name__}({', '.join(f'{f.name}={getattr(env, f.name)!r}' for f in changed)})"


def _check_folder(arguments: Train) -> None:
    from pbim.training.run import CHECKPOINT

    path = arguments.out / CHECKPOINT
    if arguments.resume and not path.exists():
        raise InputError(
            f"resume needs a run in {arguments.out}, which has no {path.name}: leave --resume out to start"
        )
    if not arguments.resume and path.exists():
        raise InputError(f"{arguments.out} already holds a run: pass --resume to continue it, or another --out")
