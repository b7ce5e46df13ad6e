"""Tabular Q-learning, compiled end to end: all seeds of a configuration step together in one program.

Watkins 1989, with eligibility traces where they are asked for (Sutton & Barto 1998, Fig. 7.14), and the epsilon
schedule per episode of Forbes et al. 2024 (appendix "Cliff Walking Environment"). Seeds run in lockstep over steps, not
padded over episodes: each has its own episode counter, and idles when it is through.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pbim._jit import jit
from pbim.agents import bonus as _bonus
from pbim.agents._q_config import EpisodeRows as EpisodeRows, QLearning as QLearning
from pbim.envs import Timestep
from pbim.intrinsic import Transition
from pbim.shaping import PIES, State, advised_values
from pbim.truncation import Ends, ends
from pbim.verification import Certificate, CertificateState

CHUNK = 64
"""Steps between two looks at whether every seed is through; random numbers are drawn for as many at once."""


class SeedState(NamedTuple):
    """One seed's run: table (num_states, num_actions), environment, bonus, ledger, counters, records (episodes,).

    ``waiting`` holds the steps of the running episode, (max_steps,), where the bonus learns from whole episodes; else
    it is empty. ``trace`` (num_states, num_actions) is how much an error corrects each pair; empty without traces.
    """

    q: Array
    visits: Array
    state: Any
    obs: Array
    bonus: Any
    waiting: Any
    shaping: State
    certificate: CertificateState
    key: Array
    episode: Array
    steps: Array
    length: Array
    extrinsic: Array
    returns: Array
    lengths: Array
    goals: Array
    trace: Any = ()


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
    """Train one run per key as one compiled program; every field of the result gains that leading axis.

    Args:
        config: The run; compiled once for equal configurations.
        keys: Random keys, (seeds,).

    Raises:
        InputError: If the environment does not offer what the bonus reads.

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


@jit(static_argnums=0, donate_argnums=1)
def advance(config: QLearning, runs: SeedState, chunks: Array | int) -> SeedState:
    """Return runs (seeds,) after up to ``chunks`` times ``CHUNK`` more steps, fewer if all are through first.

    Args:
        config: The run.
        runs: The seeds so far, from :func:`start`; they are used up.
        chunks: How many chunks of steps to take at most.

    One compiled program whatever ``chunks`` is, and no seed's numbers depend on another's: a run
    advanced in pieces, or beside seeds that are through, is bit for bit the run advanced in one go.

    """

    def unfinished(carry: tuple[SeedState, Array]) -> Array:
        return (carry[1] > 0) & jnp.any(carry[0].episode < config.episodes)

    def once(carry: tuple[SeedState, Array]) -> tuple[SeedState, Array]:
        return step_seeds(config, carry[0]), carry[1] - 1

    return jax.lax.while_loop(unfinished, once, (runs, jnp.asarray(chunks, jnp.int32)))[0]


def result_of(runs: SeedState) -> Result:
    """Return what one run, or a batch of them, has recorded so far."""
    return Result(runs.returns, runs.lengths, runs.goals, runs.q, runs.visits, runs.certificate.worst, runs.steps)


def rows_of(run: SeedState) -> EpisodeRows:
    """Return the rows of one seed that has played all its episodes."""
    lengths = np.asarray(run.lengths)
    return EpisodeRows(
        episode=np.arange(len(lengths), dtype=np.int32),
        steps=np.cumsum(lengths, dtype=np.int64),
        return_=np.asarray(run.returns),
        length=lengths,
        terminated=np.asarray(run.goals),
    )


@jit(static_argnums=0)
def start(config: QLearning, keys: Array) -> SeedState:
    """Return runs (seeds,) before their first step."""
    return jax.vmap(partial(init, config))(keys)


def init(config: QLearning, key: Array) -> SeedState:
    """Return one seed's run before its first step."""
    env_key, bonus_key, key = jax.random.split(key, 3)
    state, obs = config.env.reset(env_key)
    no = jnp.zeros(1, bool)
    batched = jax.tree.map(lambda x: x[None], state)
    example = Transition(obs[None], jnp.zeros(1, jnp.int32), obs[None], no, no, _bonus.info(config.env, batched))
    table = (config.num_states, config.env.num_actions)
    like, zero = jnp.zeros(0), jnp.zeros((), jnp.int32)
    return SeedState(
        q=jnp.full(table, config.initial_value),
        visits=jnp.zeros(table, jnp.int32),
        state=state,
        obs=obs,
        bonus=_bonus.start(config.intrinsic, config.env, bonus_key, example),
        waiting=_room(config, example),
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
        trace=jnp.zeros(table) if config.trace_lambda else (),
    )


def step_seeds(config: QLearning, runs: SeedState) -> SeedState:
    """Take ``CHUNK`` steps in every seed that still has episodes to play; random numbers are drawn for all at once."""
    split = jax.vmap(jax.random.split)(runs.key)
    draws = jax.vmap(draw, out_axes=1)(split[:, 1])
    runs = runs._replace(key=split[:, 0])
    take = jax.vmap(partial(step, config))

    def body(runs: SeedState, row: Draws) -> tuple[SeedState, None]:
        runs = take(runs, row)
        if runs.waiting != ():
            # a length of 0 says that an episode is just over; one condition for all seeds saves the work if none is
            learn = jax.vmap(partial(_learn_episode, config))
            runs = jax.lax.cond(jnp.any(runs.length == 0), learn, lambda runs: runs, runs)
        return runs, None

    return jax.lax.scan(body, runs, draws)[0]


def draw(key: Array) -> Draws:
    """Return the random numbers of the next ``CHUNK`` steps of one seed."""
    act, step_key, reset = jax.random.split(key, 3)
    uniform = jax.random.uniform(act, (CHUNK, 2))
    return Draws(uniform[:, 0], uniform[:, 1], jax.random.split(step_key, CHUNK), jax.random.split(reset, CHUNK))


def step(config: QLearning, run: SeedState, draws: Draws) -> SeedState:
    """Take one step of one seed; a seed that has played its episodes stays as it is."""
    active = run.episode < config.episodes
    action = choose(config, run, draws)
    out = config.env.step(draws.step, run.state, action)
    full = run.length + 1 >= config.env.max_steps if config.truncation == "continue" else out.truncated
    row = out.terminated | full
    end = ends(config.truncation, out.terminated, out.truncated)
    best = jnp.argmax(_preferences(config, run, out.obs) if config.looks_ahead else run.q[out.obs])
    bonus, waiting, shaping, certificate, shaped = _reward(config, run, action, out, end, active, best)

    target = out.reward + shaped + config.gamma * jnp.where(end.stops, 0, run.q[out.obs, best])
    error = target - run.q[run.obs, action]
    extrinsic, length = run.extrinsic + out.reward, run.length + 1
    fresh, first = config.env.reset(draws.reset)
    state = jax.tree.map(lambda new, old: jnp.where(end.over, new, old), fresh, out.state)
    record = jnp.where(row & active, run.episode, config.episodes)  # past the end: dropped
    size, trace = jnp.where(active, config.learning_rate * error, 0), _trace(config, run, action)
    return SeedState(
        q=run.q + size * trace if config.trace_lambda else run.q.at[run.obs, action].add(size),
        visits=run.visits.at[run.obs, action].add(active.astype(jnp.int32)),
        state=state,
        obs=jnp.where(end.over, first, out.obs),
        bonus=bonus,
        waiting=waiting,
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
        trace=jnp.where(end.over, 0, trace) if config.trace_lambda else (),
    )


def _trace(config: QLearning, run: SeedState, action: Array) -> Any:
    """Return how much this step's error corrects each pair, (num_states, num_actions); empty without traces."""
    if not config.trace_lambda:
        return ()
    explored = run.q[run.obs, action] < jnp.max(run.q[run.obs])
    faded = jnp.where(explored, 0, config.gamma * config.trace_lambda * run.trace)
    return faded.at[run.obs, action].set(1.0)


def choose(config: QLearning, run: SeedState, draws: Draws) -> Array:
    """Return an epsilon-greedy action (); the first of equal values, chosen by Q plus advice where there is any."""
    anything = jnp.floor(draws.choice * config.env.num_actions).astype(jnp.int32)
    greedy = jnp.argmax(_preferences(config, run, run.obs))
    return jnp.where(draws.explore < config.epsilon(run.episode), anything, greedy)


def _preferences(config: QLearning, run: SeedState, obs: Array) -> Array:
    """Return what actions are chosen by in a state, (num_actions,)."""
    if config.advice is None:
        return run.q[obs]
    advice = jnp.asarray(config.advice)[obs]
    if isinstance(config.shaping, PIES):
        advice = advice * config.shaping.coefficient(run.steps.astype(jnp.float32))
    values: Array = advised_values(run.q[obs], advice)
    return values


def _reward(
    config: QLearning,
    run: SeedState,
    action: Array,
    out: Timestep[Any],
    end: Ends[Array],
    active: Array,
    best: Array,
) -> tuple[Any, Any, State, CertificateState, Array]:
    """Return the bonus, its waiting steps, conversion and certificate after this step, and its F' ().

    Nothing moves unless active.
    """
    end, valid = jax.tree.map(lambda mask: mask[None], end), active[None]
    info = _bonus.info(config.env, jax.tree.map(lambda x: x[None], out.state))
    truncated = out.truncated[None] & end.over
    transition = Transition(run.obs[None], action[None], out.obs[None], out.terminated[None], truncated, info, valid)
    state, waiting, paid = run.bonus, run.waiting, jnp.zeros(1)
    if config.intrinsic is not None:
        paid = config.intrinsic_scale * config.intrinsic.reward_fn(state, transition)
        if config.bonus_learns == "step":
            state = config.intrinsic.update_fn(state, transition)
        elif config.bonus_learns == "episode":
            waiting = jax.tree.map(lambda rows, row: rows.at[run.length].set(row[0]), waiting, transition)
    before, extra = run.shaping, {}
    if config.looks_ahead:  # every pair starts anew: an explored action is not the one that was looked ahead to
        advice = jnp.asarray(config.advice)
        before, extra = config.shaping.init(1, like=paid), {"start": advice[run.obs, action][None]}
        paid = advice[out.obs, best][None]
    shaping, shaped = config.shaping.step(before, paid, end.settled, valid=valid, **extra)
    certificate = Certificate(gamma=config.gamma)
    judged = certificate.update(run.certificate, shaped, end.settled, valid=valid)
    if config.truncation == "bootstrap":
        shaping = config.shaping.discard(shaping, end.left_open & valid)
        judged = certificate.discard(judged, end.left_open & valid)
    return state, waiting, shaping, judged, shaped[0]


def _room(config: QLearning, example: Transition) -> Any:
    """Return room for the steps of an episode, none of them valid, where a bonus learns from all of them at once."""
    if config.intrinsic is None or config.bonus_learns != "episode":
        return ()
    rows = example._replace(valid=jnp.zeros(1, bool))
    return jax.tree.map(lambda row: jnp.repeat(row, config.env.max_steps, axis=0), rows)


def _learn_episode(config: QLearning, run: SeedState) -> SeedState:
    """Return a run whose bonus has learned from the episode that is just over, if one is."""
    over = (run.length == 0) & jnp.any(run.waiting.valid)
    learned = config.intrinsic.update_fn(run.bonus, run.waiting)
    bonus = jax.tree.map(lambda new, old: jnp.where(over, new, old), learned, run.bonus)
    return run._replace(bonus=bonus, waiting=run.waiting._replace(valid=run.waiting.valid & ~over))
