"""``pbim train``: a learner with its components from the command line, trained with progress and checkpoints."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
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
MOST_DIGITS = 18
"""Of a whole number on the command line: Python refuses to read thousands of them."""


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a recurrent PPO agent on an environment, with a bonus and its conversion.

    pbim train ENV --intrinsic BONUS --shaping CONVERSION [--method METHOD] [options]

    ENV: CliffWalk, CliffWalkLong, DoorKey-5x5, -6x6, -8x8 (the default) or -16x16; gymnax:ID, navix:ID, xminigrid:ID
    or craftax:ID; any Gymnasium id with discrete actions; or your own class, package.module:Class.

    BONUS: none (the default), a bonus that pbim list shows, or your own class. --alpha is what it is multiplied by; the
    default is 0.025 where you name a bonus.

    CONVERSION: a conversion that pbim list shows, or your own class. The default is geometric with the rate that pbim
    recommend names for --gamma and --gae-lambda. raw adds the bonus as it is.

    METHOD: none (the default), a method that pbim list shows, or your own class. It brings the critics that it needs,
    and takes the raw bonus unless you name a conversion.

    --skills 8 gives every episode one of 8 skills, for --intrinsic diayn. --task-reward none trains on the bonus alone.

    The settings of bonus, conversion and method are options: --shaping.rate 0.02, or --rate 0.02 for short. Name the
    component to see them: pbim train --method eipo --help. --alpha is short for --intrinsic-scale, --frames for
    --total-frames. Ctrl-C saves a checkpoint; --resume continues.

    Example: pbim train DoorKey-8x8 --intrinsic count --alpha 0.025 --shaping geometric --rate 0.02 --gamma 0.995
    """

    learner: Annotated[Any, tyro.conf.arg(name="")] = None
    seed: int = 0
    """The seed of the run."""
    out: Path = Path("out/train")
    """The folder of the run: checkpoint, settings and metrics."""
    resume: bool = False
    """Continue the run in --out with the same numbers. A Gymnasium environment starts new episodes."""
    init_from: Path | None = None
    """The folder of another run. This run starts with its parameters, for example with its skills."""
    chunk: int = 8
    """Updates per line of progress."""
    checkpoint_every: int = 100
    """Updates per checkpoint."""
    evaluate_every: int = 200
    """Updates per evaluation: greedy episodes on new layouts, by the task's reward alone, also at the end. 0: none."""
    evaluation_episodes: int = 64
    """Episodes per evaluation."""
    tensorboard: bool = False
    """Write the metrics for TensorBoard too, into the folder tensorboard in --out."""
    json: bool = False
    """Print the last metrics as one JSON object."""

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Self:
        """Return the command that the words after ``pbim train`` ask for."""
        learner, rest = learner_of_words(arguments)
        parts = {"shaping": learner.shaping, "intrinsic": learner.intrinsic, "method": learner.method}
        own = [name for name in components.options_of(type(learner)) + components.options_of(cls) if name not in parts]
        words = components.lengthen(write_out(rest), own, parts)
        return components.read(cls, "train", words, cls(learner=learner))

    def run(self) -> int:
        """Train and return the exit code: 0 done, 1 diverged, 130 stopped by Ctrl-C with a checkpoint written."""
        return _train(self)

    def settings(self) -> str:
        """Return what a resumed run must share with the one that was started, as JSON."""
        from pbim.config import canonical, encode

        started = {} if self.init_from is None else {"init_from": str(self.init_from)}
        schedule = self.learner.learning_rate_schedule  # a rate that falls to 0 needs to know where the run ends
        frames = None if schedule == "constant" else self.learner.total_frames
        return canonical({**encode(self.learner), "total_frames": frames, "seed": self.seed, **started})


def learner_of_words(arguments: Sequence[str]) -> tuple[Any, list[str]]:
    """Return PPO with the components that the words name and every other setting by default, and the other words."""
    from pbim.agents import PPO
    from pbim.shaping import recommended
    from pbim.training.bonuses import bonus_for
    from pbim.training.environments import environment

    words = {word.partition("=")[0] for word in arguments}
    example = words & {"--method", "--shaping"} and words & {"-h", "--help"}  # help needs no bonus
    bonus_name, rest = components.take(arguments, "--intrinsic", "count" if example else "none")
    task_reward, rest = components.take(rest, "--task-reward", "full")
    name, rest = components.take(rest, "--shaping", "")
    method_name, rest = components.take(rest, "--method", "none")
    skills, rest = components.take(rest, "--skills", "none")
    gamma, rest = components.take(rest, "--gamma", "0.99")
    gae_lambda, rest = components.take(rest, "--gae-lambda", "0.95")
    frames, _ = components.take(write_out(rest), "--total-frames", str(PPO.total_frames))
    env_name, rest = (rest[0], rest[1:]) if rest and not rest[0].startswith("-") else (ENV, rest)
    if ":" in env_name:
        components.import_from_here()
    env = _with_skills(environment(env_name), skills)
    bonus = None if bonus_name == "none" else bonus_for(bonus_name, env)
    if name and components.is_method(name):
        if method_name not in ("none", name):
            raise InputError(f"shaping {name} is a method, received method {method_name} too: choose one of the two")
        name, method_name = "", name  # --shaping adops: a method is the answer to the same question
    method = components.method(method_name)
    if bonus is None and name not in ("", "none"):
        raise InputError(f"shaping {name} has no bonus to convert: add --intrinsic count, rnd or icm")
    settings: dict[str, Any] = {
        "env": env,
        "intrinsic": bonus,
        "task_reward": task_reward,
        "gamma": _number("gamma", gamma),
        "gae_lambda": _number("gae-lambda", gae_lambda),
        "intrinsic_scale": 1.0 if bonus is None else ALPHA,
    }
    if method is not None:
        settings |= {"method": method, **method.goes_with}
    if name or "shaping" not in settings:
        usual = "raw" if task_reward == "none" else recommended(1).kind
        name = name or ("none" if bonus is None else usual)
        length = (
            int(frames) if frames.isdecimal() and len(frames) <= MOST_DIGITS else PPO.total_frames
        )  # what is no number, tyro refuses
        settings["shaping"] = components.conversion(name, settings["gamma"], settings["gae_lambda"], length)
    return PPO(**settings), rest


def _with_skills(env: Any, count: str) -> Any:
    from pbim.envs import Skills

    if count == "none":
        return env
    if not count.isdecimal() or len(count) > MOST_DIGITS or int(count) < 2:
        raise InputError(f"--skills must be a whole number of at least 2, received {count[:40]}: 8 is usual")
    return Skills(env=env, count=int(count))


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
    from pbim.training.run import check_memory

    _check_counts(arguments)
    if arguments.tensorboard and find_spec("tensorboard") is None:
        raise InputError("tensorboard is not installed: pip install tensorboard, or leave --tensorboard out")
    keep_compiled()
    console = Console(stderr=True, highlight=False)
    _check_folder(arguments)  # before anything is written, and again when nobody else can
    check_memory(arguments.learner)
    start = _start(arguments)
    with alone(arguments.out):
        _check_folder(arguments)
        for line in filter(None, (_plan(arguments.learner), feels(arguments.learner))):
            console.print(line, soft_wrap=True)
        return _run(arguments, console, start)


def _start(arguments: Train) -> Callable[[Any], Any]:
    """Return what a first state becomes: that of --init-from, which is read here, before anything is written."""
    from pbim.training import saved

    if arguments.init_from is None or arguments.resume:
        return lambda carry: carry
    source, found = saved.load_run(arguments.init_from)
    saved.check_start(arguments.learner, source)
    return lambda carry: saved.start_from(arguments.learner, carry, source, found)


def _run(arguments: Train, console: "Console", start: Callable[[Any], Any]) -> int:
    from pbim.training import checkpoint
    from pbim.training.interrupts import Interrupts
    from pbim.training.run import CHECKPOINT, METRICS, DivergenceError, Trainer, backend_of, forget_after, shapes_of

    config, path = arguments.learner, arguments.out / CHECKPOINT
    run: Trainer | None = None

    def say(line: str) -> None:
        console.show_cursor(True)
        console.print(line, soft_wrap=True)

    with Interrupts(lambda: run is not None and run.unsaved, say) as interrupts:
        backend = backend_of(config, arguments.seed)
        try:
            if arguments.resume:
                carry = backend.resume(checkpoint.load(path, shapes_of(config), config=arguments.settings()))
                forget_after(arguments.out / METRICS, int(carry.updates) * config.frames)
            else:
                carry = start(backend.start())
                _set_aside(arguments.out / METRICS, say)
            run = Trainer(arguments, config, backend, carry)
            if run.updates >= config.updates:
                say(f"nothing is left to train: the run has {run.frames:,} frames; raise --frames to go on")
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
    if learner.method is not None:
        where += f", by {kind_of(learner.method)} (guarantee: {learner.method.guarantee.level.value})"
    if learner.intrinsic is None:
        return f"{where}: no bonus"
    bonus = f"{where}: bonus {kind_of(learner.intrinsic)} x {learner.intrinsic_scale:g}"
    if isinstance(learner.shaping, NoBonus):
        return f"{bonus}, which --shaping none keeps from the learner: name a conversion to use it"
    if learner.task_reward == "none":
        return f"{bonus}, by which alone it learns ({learner.shaping.label}); the task's reward is reported"
    if learner.method is not None:
        return f"{bonus}, {learner.shaping.label}"
    return f"{bonus}, converted by {learner.shaping.label}: {learner.shaping.guarantee.level.value}"


def feels(learner: Any) -> str:
    """Return how strongly the learner will feel the bonus, and what is owed; warns where that is little or much."""
    from pbim.shaping import announce_guidance

    if learner.intrinsic is None or learner.method is not None or learner.task_reward == "none":
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
    values = [(f.name, getattr(env, f.name)) for f in fields(env) if f.init and getattr(env, f.name) != f.default]
    shown = (f"{name}={describe(value) if is_dataclass(value) else repr(value)}" for name, value in values)
    return f"{type(env).__name__}({', '.join(shown)})"


def _check_folder(arguments: Train) -> None:
    from pbim.training.run import CHECKPOINT

    path = arguments.out / CHECKPOINT
    if arguments.resume and not path.exists():
        raise InputError(
            f"resume needs a run in {arguments.out}, which has no {path.name}: leave --resume out to start"
        )
    if not arguments.resume and path.exists():
        raise InputError(f"{arguments.out} already holds a run: pass --resume to continue it, or another --out")
