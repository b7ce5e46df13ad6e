"""Any Gymnasium environment with discrete actions, stepped on the host; all else of a run is the compiled program's.

Environments restart in the step that ends an episode (Gymnasium's SAME_STEP), so a rollout has no dummy steps, and the
true last observation is the transition's. A Gymnasium environment cannot be saved: a resumed run keeps everything
else (parameters, optimiser, random key, statistics, bonus network) and begins new episodes. The episodes that were cut
off leave no trace: their ledgers, counts and sums are dropped, and the certificate says nothing about them.
"""

import zlib
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from jax import Array

from pbim.adapters._batching import FinalInfo, with_rows
from pbim.agents import _bonus, _episodes
from pbim.agents._config import PPO
from pbim.agents._convert import abandoned
from pbim.agents._networks import Network, Params
from pbim.agents._rollout import Steps, World
from pbim.agents._update import Carry, Metrics, begin, finish
from pbim.intrinsic import Transition
from pbim.training.evaluate import HELD_OUT, Evaluation
from pbim.training.host_spaces import plain
from pbim.verification import Certificate

Host = np.ndarray[Any, Any]

COUNTERS = 2**16
"""How many states the counting bonuses tell apart: observations share a counter where their hashes agree."""

LONGEST_EVALUATION = 10_000
"""Steps after which the evaluation of an environment without a time limit stops."""


@dataclass(frozen=True, kw_only=True)
class HostEnv:
    """What a run knows of a Gymnasium environment; made by :func:`describe`. ``num_states`` is 0 unless Discrete.

    ``max_steps`` is 0 where neither the registration nor the environment names a time limit.
    """

    id: str
    num_actions: int
    obs_shape: tuple[int, ...]
    obs_dtype: Any
    num_states: int
    max_steps: int
    num_count_keys: int = COUNTERS

    def make(self, *, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """Return one environment with observations that are plain arrays."""
        return plain(gymnasium.make(self.id, render_mode=render_mode))

    def make_vector(self, num_envs: int) -> VectorEnv[Any, Any, Any]:
        """Return a batch of them that restarts episodes in the step that ends them."""
        return SyncVectorEnv([self.make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)

    def count_keys(self, obs: Host, info: Any) -> Host:
        """Return what counting bonuses count, (num_envs,): ``info["count_key"]`` if there is one, else observations.

        Real numbers are rounded to one decimal.
        """
        if "count_key" in info:
            return np.asarray(info["count_key"], np.int64) % COUNTERS
        if self.obs_shape == ():
            return obs.astype(np.int64) % COUNTERS
        rows = np.round(obs, 1) + 0.0 if obs.dtype.kind == "f" else obs  # adding 0 makes -0 the same number as 0
        return np.array([zlib.crc32(row.tobytes()) % COUNTERS for row in rows])


class Seen(NamedTuple):
    """A rollout as the host saw it, (T, num_envs, ...); ``memory``, ``core``, ``logits`` (T, rows, num_envs)."""

    obs: Any
    memory: Any
    mask: Any
    core: Any
    logits: Any
    action: Any
    reward: Any
    terminated: Any
    truncated: Any
    next_obs: Any
    count_key: Any


def describe(env_id: str) -> HostEnv:
    """Make the environment once, read its spaces and its time limit, and close it."""
    env = plain(gymnasium.make(env_id))
    space: Any = env.observation_space
    limit = (env.spec.max_episode_steps if env.spec else None) or getattr(env.unwrapped, "max_steps", None) or 0
    described = HostEnv(
        id=env_id,
        num_actions=int(env.action_space.n),  # type: ignore[attr-defined]
        obs_shape=tuple(space.shape),
        obs_dtype=np.dtype(np.int32) if space.shape == () else space.dtype,
        num_states=int(getattr(space, "n", 0)),
        max_steps=int(limit),
    )
    env.close()
    return described


@partial(jax.jit, static_argnums=0)
def init(config: PPO, key: Array) -> Carry:
    """Return a run before its first update; the observations are filled in when the environments are reset."""
    params_key, world_key, key = jax.random.split(key, 3)
    return begin(config, params_key, _world(config, world_key), key)


class HostRun:
    """Environments on the host and the compiled update: the same interface as a compiled run's."""

    def __init__(self, config: PPO, seed: int, envs: VectorEnv[Any, Any, Any] | None = None) -> None:
        env: Any = config.env
        self.config, self.seed, self.env = config, seed, env
        self.envs = env.make_vector(config.num_envs) if envs is None else envs

    def like(self) -> Any:
        """Return the shapes of a run's arrays."""
        return jax.eval_shape(partial(init, self.config), jax.random.key(0))

    def start(self) -> Carry:
        """Return a run before its first update."""
        return self._begun(init(self.config, jax.random.key(self.seed)))

    def resumed(self, carry: Carry) -> Carry:
        """Return a saved run with new episodes; the ones that were running are forgotten."""
        config, certificate = self.config, carry.certificate
        fresh = Certificate(gamma=config.bonus_gamma).init(config.num_envs, like=jnp.zeros(0))
        world = _world(config, jax.random.fold_in(jax.random.key(self.seed), carry.updates))
        if not getattr(config.intrinsic, "episodic", False):
            world = world._replace(bonus=carry.world.bonus)
        return self._begun(
            carry._replace(
                world=world,
                shaping=abandoned(config, carry.shaping),
                certificate=certificate._replace(total=fresh.total, scale=fresh.scale, discount=fresh.discount),
                running=_episodes.start(config.num_envs),
            )
        )

    def chunk(self, carry: Carry, updates: int) -> tuple[Carry, Metrics]:
        """Return the run after ``updates`` more updates, and their metrics, (updates,) each."""
        rows = []
        for _ in range(updates):
            key, rollout_key, learn_key = jax.random.split(carry.key, 3)
            world, seen = self.collect(carry, rollout_key)
            carry, metrics = _learnt(self.config, carry._replace(key=key), world, seen, learn_key)
            rows.append(jax.device_get(metrics))
        return carry, jax.tree.map(lambda *column: np.stack(column), *rows)

    def collect(self, carry: Carry, key: Array) -> tuple[World, Seen]:
        """Act for one rollout; the actions' randomness is drawn as the compiled program draws it."""
        config, (obs, memory, mask) = self.config, jax.device_get(carry.world[1:4])
        shape = (config.num_steps, config.env.num_actions, config.num_envs)
        noise, steps = _noise(jax.random.split(key)[0], shape), []
        for row in noise:
            action, following, core, logits = jax.device_get(
                act(config.network, carry.learner.params, obs, memory * mask, row)
            )
            new_obs, reward, terminated, truncated, info = self.envs.step(action)
            ended, next_obs = terminated | truncated, new_obs
            if ended.any():
                finals = {int(i): info["final_obs"][i] for i in np.flatnonzero(ended)}
                next_obs = with_rows(self.envs.single_observation_space, new_obs, finals)
                info = FinalInfo(info, info.get("final_info", {}), ended)
            keys = self.env.count_keys(next_obs, info)
            reward = np.asarray(reward, np.float32)
            steps.append(Seen(obs, memory, mask, core, logits, action, reward, terminated, truncated, next_obs, keys))
            obs, memory, mask = new_obs, following, (1.0 - ended).astype(np.float32)
        seen = Seen(*(np.stack(column) for column in zip(*steps, strict=True)))
        return carry.world._replace(obs=jnp.asarray(obs), memory=jnp.asarray(memory), mask=jnp.asarray(mask)), seen

    def evaluate(self, params: Params, *, episodes: int) -> Evaluation:
        """Play one greedy episode in each of ``episodes`` environments with held-out seeds, the same at every call."""
        network, envs = self.config.network, self.env.make_vector(episodes)
        obs, _ = envs.reset(seed=[HELD_OUT + index for index in range(episodes)])
        memory = np.zeros((network.memory_size, episodes), np.float32)
        none = np.zeros((network.num_actions, episodes), np.float32)
        returns, lengths, running = np.zeros(episodes), np.zeros(episodes), np.ones(episodes, bool)
        terminal = np.zeros(episodes, bool)
        for _ in range(self.env.max_steps or LONGEST_EVALUATION):
            action, memory, *_ = jax.device_get(act(network, params, obs, memory, none))
            obs, reward, terminated, truncated, _ = envs.step(action)
            returns, lengths, terminal = returns + running * reward, lengths + running, terminal | running & terminated
            running = running & ~(terminated | truncated)
            if not running.any():
                break
        envs.close()
        unknown = jnp.full(episodes, jnp.nan)
        return Evaluation(jnp.asarray(returns), jnp.asarray(lengths), jnp.asarray(terminal), unknown)

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()

    def _begun(self, carry: Carry) -> Carry:
        """Reset the environments, with seeds that depend on the run's seed and on how far it is."""
        (seed,) = np.random.SeedSequence([self.seed, int(carry.updates)]).generate_state(1)
        obs, _ = self.envs.reset(seed=int(seed))
        return carry._replace(world=carry.world._replace(obs=jnp.asarray(obs)))


def _world(config: PPO, key: Array) -> World:
    env, num_envs = config.env, config.num_envs
    obs, no = jnp.zeros((num_envs, *env.obs_shape), env.obs_dtype), jnp.zeros(num_envs, bool)
    whole = jnp.zeros(num_envs, jnp.int32)
    example = Transition(obs, whole, obs, no, no, {"count_key": whole})
    memory = jnp.zeros((config.network.memory_size, num_envs))
    return World((), obs, memory, jnp.ones(num_envs), _bonus.start(config.intrinsic, env, key, example))


def _noise(key: Array, shape: tuple[int, ...]) -> Host:
    return np.asarray(jax.random.gumbel(key, shape))


@partial(jax.jit, static_argnums=0)
def act(network: Network, params: Params, obs: Array, memory: Array, noise: Array) -> tuple[Array, ...]:
    """Return an action, the memory after it, the core and the logits; a noise of zeros makes it greedy."""
    memory, core = network.step(params, network.embed(params, network.prepare(obs)), memory)
    logits = network.logits(params, core)
    return jnp.argmax(logits + noise, axis=0), memory, core, logits


@partial(jax.jit, static_argnums=0)
def _learnt(config: PPO, carry: Carry, world: World, seen: Seen, key: Array) -> tuple[Carry, Metrics]:
    return finish(config, carry, world, steps_of(config, seen), key)


def steps_of(config: PPO, seen: Seen) -> Steps:
    """Return the rollout in the form the compiled loop collects it in."""
    prepare = jax.vmap(config.network.prepare)
    action = seen.action.astype(jnp.int32)
    transition = Transition(
        seen.obs, action, seen.next_obs, seen.terminated, seen.truncated, {"count_key": seen.count_key}
    )
    return Steps(
        rows=prepare(seen.obs),
        memory=seen.memory,
        mask=seen.mask,
        core=seen.core,
        logits=seen.logits,
        action=action,
        reward=seen.reward,
        terminated=seen.terminated,
        truncated=seen.truncated,
        bonus=jnp.zeros_like(seen.reward),
        final_rows=prepare(seen.next_obs) if config.truncation == "bootstrap" else None,
        transition=None if config.intrinsic is None else transition,
    )
