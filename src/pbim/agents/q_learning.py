"""Tabular Q-learning, compiled end to end: all seeds of a configuration step together in one program.

Watkins 1989, with the epsilon schedule per episode of Forbes et al. 2024 (appendix "Cliff Walking Environment"). Seeds
run in lockstep over steps, not padded over episodes: each has its own episode counter, and idles when it is through.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.agents import _bonus
from pbim.envs import Environment
from pbim.errors import InputError
from pbim.intrinsic import Transition
from pbim.shaping import PIES, LookAhead, NoBonus, Shaping, advised_values
from pbim.verification import Certificate

CHUNK = 64
"""Steps between two looks at whether every seed is through; random numbers are drawn for as many at once."""


@dataclass(frozen=True, kw_only=True)
class QLearning:
    """A tabular run; ``epsilon`` falls from 1 to ``epsilon_min`` by ``epsilon_decay`` after every episode.

    ``intrinsic`` is a bonus of ``pbim.intrinsic`` (learning ones train at every step), multiplied by
    ``intrinsic_scale`` and converted by ``shaping``. ``advice`` (num_states, num_actions), a nested tuple, is what
    look-ahead advice and PIES choose actions by: Q + advice, the latter fading with its coefficient (Wiewiora et al.
    2003; Behboudian et al. 2022). With ``shaping=LookAhead(...)`` the advice is paid as well, F' = gamma * Phi(s', a')
    - Phi(s, a), where a' is the action of the learning rule, the best by Q + Phi: the run is the one that an unshaped
    learner with the table Q + Phi would have, and its residual, off policy, need not be 0. ``truncation="end"`` sets
    the target at a time limit to the reward alone, ``"bootstrap"`` to the usual one; F' is settled at either. With
    ``"continue"`` a time limit is the edge of a window in a task that goes on: it makes a row of the records and moves
    epsilon, and neither the environment, the bonus, the ledger nor the target takes notice.
    """

    env: Environment[Any]
    episodes: int = 4000
    intrinsic: Any = None
    intrinsic_scale: float = 1.0
    shaping: Shaping = field(default_factory=NoBonus)
    gamma: float = 0.99
    learning_rate: float = 0.1
    epsilon_start: float = 1.0
    epsilon_min: float = 0.1
    epsilon_decay: float = 4e-4
    initial_value: float = 0.0
    truncation: Literal["end", "bootstrap", "continue"] = "end"
    advice: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if getattr(self.env, "num_states", None) is None or self.env.obs_shape != ():
            raise InputError(
                f"env must have a finite number of states (num_states, observations ()), received {self.env}: "
                "use CliffWalk or pbim.envs.toy_text.ToyText, or train PPO"
            )
        if isinstance(self.episodes, bool) or not isinstance(self.episodes, int) or self.episodes < 1:
            raise InputError(f"episodes must be a whole number of at least 1, received {self.episodes!r}: raise it")
        for name, low, high in (("learning_rate", 0, 1), ("epsilon_start", 0, 1), ("epsilon_min", 0, 1)):
            if not low <= getattr(self, name) <= high:
                raise InputError(f"{name} must be in [{low}, {high}], received {getattr(self, name)}: 0.1 is usual")
        converted = getattr(self.shaping, "gamma", None)
        if converted is not None and float(converted) != self.gamma:
            raise InputError(
                f"shaping.gamma must be the learner's gamma, {self.gamma}, received {converted}: pass the same to both"
            )
        if isinstance(self.shaping, LookAhead) and self.advice is None:
            raise InputError("shaping LookAhead needs advice, Phi(s, a): without it the optimal policy is lost")
        if isinstance(self.shaping, LookAhead) and self.intrinsic is not None:
            raise InputError("shaping LookAhead pays advice, not a bonus: leave intrinsic out")
        if isinstance(self.shaping, LookAhead) and self.truncation != "end":
            raise InputError("shaping LookAhead settles at a time limit: pass truncation='end'")
        shape = (self.num_states, self.env.num_actions)
        if self.advice is not None and jnp.shape(jnp.asarray(self.advice)) != shape:
            raise InputError(f"advice must have shape {shape}, received {jnp.shape(jnp.asarray(self.advice))}")

    @property
    def num_states(self) -> int:
        """Rows of the table."""
        return int(self.env.num_states)  # type: ignore[attr-defined]

    def epsilon(self, episode: Array) -> Array:
        """Return the exploration rate in the given episode (counted from 0)."""
        return jnp.maximum(self.epsilon_start - self.epsilon_decay * episode, self.epsilon_min)


class Run(NamedTuple):
    """One seed: its table (num_states, num_actions), environment, bonus, ledger, counters and records (episodes,)."""

    q: Array
    visits: Array
    state: Any
    obs: Array
    bonus: Any
    shaping: Any
    certificate: Any
    key: Array
    episode: Array
    steps: Array
    length: Array
    extrinsic: Array
    returns: Array
    lengths: Array
    goals: Array


class Draws(NamedTuple):
    """One step's random numbers: explore? and which action then, uniform in [0, 1); keys for the environment."""

    explore: Array
    choice: Array
    step: Array
    reset: Array


class Result(NamedTuple):
    """What a run leaves: per episode (episodes,) the return of R, the length and whether it terminated; Q and visits.

    ``residual`` () is the largest relative discounted sum of F' over the episodes, ``steps`` () how many were taken.
    """

    returns: Array
    lengths: Array
    terminated: Array
    q: Array
    visits: Array
    residual: Array
    steps: Array


def train(config: QLearning, keys: Array) -> Result:
    """Train one run per key, (seeds,), as one compiled program; every field of the result gains that leading axis.

    >>> import jax
    >>> from pbim.agents.q_learning import QLearning, train
    >>> from pbim.envs import CliffWalk
    >>> result = train(QLearning(env=CliffWalk(), episodes=20), jax.random.split(jax.random.key(0), 3))
    >>> result.returns.shape, result.q.shape
    ((3, 20), (3, 48, 4))
    """
    runs = start(config, keys)
    while jnp.any(runs.episode < config.episodes):
        runs = advance(config, runs, 1 << 20)
    return result_of(runs)


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def advance(config: QLearning, runs: Run, chunks: Array | int) -> Run:
    """Return runs (seeds,) after up to ``chunks`` times ``CHUNK`` more steps, fewer if all are through first.

    ``runs`` is used up. One compiled program whatever ``chunks`` is, and no seed's numbers depend on another's: a run
    advanced in pieces, or beside seeds that are through, is bit for bit the run advanced in one go.
    """

    def unfinished(carry: tuple[Run, Array]) -> Array:
        return (carry[1] > 0) & jnp.any(carry[0].episode < config.episodes)

    def once(carry: tuple[Run, Array]) -> tuple[Run, Array]:
        return step_seeds(config, carry[0]), carry[1] - 1

    return jax.lax.while_loop(unfinished, once, (runs, jnp.asarray(chunks, jnp.int32)))[0]


def result_of(runs: Run) -> Result:
    """Return what one run, or a batch of them, has recorded so far."""
    return Result(runs.returns, runs.lengths, runs.goals, runs.q, runs.visits, runs.certificate.worst, runs.steps)


@partial(jax.jit, static_argnums=0)
def start(config: QLearning, keys: Array) -> Run:
    """Return runs (seeds,) before their first step."""
    runs: Run = jax.vmap(partial(init, config))(keys)
    return runs


def init(config: QLearning, key: Array) -> Run:
    """Return one seed's run before its first step."""
    env_key, bonus_key, key = jax.random.split(key, 3)
    state, obs = config.env.reset(env_key)
    no = jnp.zeros(1, bool)
    batched = jax.tree.map(lambda x: x[None], state)
    example = Transition(obs[None], jnp.zeros(1, jnp.int32), obs[None], no, no, _bonus.info(config.env, batched))
    table = (config.num_states, config.env.num_actions)
    like, zero = jnp.zeros(0), jnp.zeros((), jnp.int32)
    return Run(
        q=jnp.full(table, config.initial_value),
        visits=jnp.zeros(table, jnp.int32),
        state=state,
        obs=obs,
        bonus=_bonus.start(config.intrinsic, config.env, bonus_key, example),
        shaping=config.shaping.init(1, like=like),
        certificate=Certificate(gamma=config.gamma).init(1, like=like),
        key=key,
        episode=zero,
        steps=zero,
        length=zero,
        extrinsic=jnp.zeros(()),
        returns=jnp.zeros(config.episodes),
        lengths=jnp.zeros(config.episodes, jnp.int32),
        goals=jnp.zeros(config.episodes, bool),
    )


def step_seeds(config: QLearning, runs: Run) -> Run:
    """Take ``CHUNK`` steps in every seed that still has episodes to play; random numbers are drawn for all at once."""
    split = jax.vmap(jax.random.split)(runs.key)
    draws = jax.vmap(draw, out_axes=1)(split[:, 1])
    runs = runs._replace(key=split[:, 0])
    take = jax.vmap(partial(step, config))
    return jax.lax.scan(lambda runs, row: (take(runs, row), None), runs, draws)[0]


def draw(key: Array) -> Draws:
    """Return the random numbers of the next ``CHUNK`` steps of one seed."""
    act, step_key, reset = jax.random.split(key, 3)
    uniform = jax.random.uniform(act, (CHUNK, 2))
    return Draws(uniform[:, 0], uniform[:, 1], jax.random.split(step_key, CHUNK), jax.random.split(reset, CHUNK))


def step(config: QLearning, run: Run, draws: Draws) -> Run:
    """Take one step of one seed; a seed that has played its episodes stays as it is."""
    active = run.episode < config.episodes
    action = choose(config, run, draws)
    out = config.env.step(draws.step, run.state, action)
    row = out.terminated | out.truncated
    if config.truncation == "continue":
        out = out._replace(truncated=jnp.zeros_like(out.truncated))
    ended = out.terminated | out.truncated
    best = jnp.argmax(_preferences(config, run, out.obs) if _looks_ahead(config) else run.q[out.obs])
    bonus, shaping, certificate, shaped = _rewarded(config, run, action, out, active, best)

    known = out.terminated | (out.truncated & (config.truncation == "end"))
    target = out.reward + shaped + config.gamma * jnp.where(known, 0, run.q[out.obs, best])
    error = target - run.q[run.obs, action]
    extrinsic, length = run.extrinsic + out.reward, run.length + 1
    fresh, first = config.env.reset(draws.reset)
    state = jax.tree.map(lambda new, old: jnp.where(ended, new, old), fresh, out.state)
    record = jnp.where(row & active, run.episode, config.episodes)  # past the end: dropped
    return Run(
        q=run.q.at[run.obs, action].add(jnp.where(active, config.learning_rate * error, 0)),
        visits=run.visits.at[run.obs, action].add(active.astype(jnp.int32)),
        state=state,
        obs=jnp.where(ended, first, out.obs),
        bonus=bonus,
        shaping=shaping,
        certificate=certificate,
        key=run.key,
        episode=run.episode + (row & active),
        steps=run.steps + active,
        length=jnp.where(row, 0, length),
        extrinsic=jnp.where(row, 0, extrinsic),
        returns=run.returns.at[record].set(extrinsic, mode="drop"),
        lengths=run.lengths.at[record].set(length, mode="drop"),
        goals=run.goals.at[record].set(out.terminated, mode="drop"),
    )


def choose(config: QLearning, run: Run, draws: Draws) -> Array:
    """Return an epsilon-greedy action (); the first of equal values, chosen by Q plus advice where there is any."""
    anything = jnp.floor(draws.choice * config.env.num_actions).astype(jnp.int32)
    greedy = jnp.argmax(_preferences(config, run, run.obs))
    return jnp.where(draws.explore < config.epsilon(run.episode), anything, greedy)


def _preferences(config: QLearning, run: Run, obs: Array) -> Array:
    """Return what actions are chosen by in a state, (num_actions,)."""
    if config.advice is None:
        return run.q[obs]
    advice = jnp.asarray(config.advice)[obs]
    if isinstance(config.shaping, PIES):
        advice = advice * config.shaping.coefficient(run.steps.astype(jnp.float32))
    values: Array = advised_values(run.q[obs], advice)
    return values


def _looks_ahead(config: QLearning) -> bool:
    return isinstance(config.shaping, LookAhead)


def _rewarded(
    config: QLearning, run: Run, action: Array, out: Any, active: Array, best: Array
) -> tuple[Any, Any, Any, Array]:
    """Return the bonus, conversion and certificate after this step, and its F' (); nothing moves unless active."""
    terminated, truncated = out.terminated[None], out.truncated[None]
    valid = active[None]
    info = _bonus.info(config.env, jax.tree.map(lambda x: x[None], out.state))
    transition = Transition(run.obs[None], action[None], out.obs[None], terminated, truncated, info, valid)
    state, paid = run.bonus, jnp.zeros(1)
    if config.intrinsic is not None:
        paid = config.intrinsic_scale * config.intrinsic.reward_fn(state, transition)
        state = config.intrinsic.update_fn(state, transition)
    ended = terminated | truncated
    before, extra = run.shaping, {}
    if _looks_ahead(config):  # every pair starts anew: an explored action is not the one that was looked ahead to
        advice = jnp.asarray(config.advice)
        before, extra = config.shaping.init(1, like=paid), {"start": advice[run.obs, action][None]}
        paid = advice[out.obs, best][None]
    shaping, shaped = config.shaping.step(before, paid, ended, valid=valid, **extra)
    certificate = Certificate(gamma=config.gamma).update(run.certificate, shaped, ended, valid=valid)
    return state, shaping, certificate, shaped[0]
