"""A run of PPO whose environments Gymnasium steps on the host; all else is the compiled program's.

Environments restart in the step that ends an episode (Gymnasium's SAME_STEP), so a rollout has no dummy steps, and the
true last observation is the transition's. A Gymnasium environment cannot be saved: a resumed run keeps everything
else (parameters, optimiser, random key, statistics, bonus network) and begins new episodes. The episodes that were cut
off leave no trace: their ledgers, counts and sums are dropped, and the certificate says nothing about them.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import VectorEnv
from jax import Array
from numpy.typing import NDArray

from pbim._jit import jit
from pbim.adapters.batching import FinalInfo, with_rows
from pbim.agents import bonus as _bonus, episodes as _episodes, update as _update
from pbim.agents.networks import Network, Params
from pbim.agents.ppo import PPO, Carry, Metrics
from pbim.agents.rollout import Steps, World
from pbim.envs import HostEnv
from pbim.errors import InputTypeError
from pbim.intrinsic import Transition
from pbim.training.evaluate import HELD_OUT, Evaluation
from pbim.verification import Certificate

LONGEST_EVALUATION = 10_000
"""Steps after which the evaluation of an environment without a time limit stops."""


class HostSteps(NamedTuple):
    """A rollout in host memory, (T, num_envs, ...); ``memory``, ``core``, ``logits`` (T, rows, num_envs)."""

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


@jit(static_argnums=0)
def init(config: PPO, key: Array) -> Carry:
    """Return a run before its first update; the observations are filled in when the environments are reset."""
    params_key, world_key, key = jax.random.split(key, 3)
    return _update.start(config, params_key, _world(config, world_key), key)


class HostBackend:
    """Environments on the host and the compiled update.

    Args:
        config: The run; its ``env`` is a :class:`pbim.envs.HostEnv`.
        seed: The seed of parameters, actions and episodes.
        envs: The environments to step, in SAME_STEP mode; made from ``config.env`` if left out.

    Raises:
        InputTypeError: If the environment is not one for the host.

    """

    def __init__(self, config: PPO, seed: int, envs: VectorEnv[Any, Any, Any] | None = None) -> None:
        if not isinstance(config.env, HostEnv):
            raise InputTypeError(f"env must be a HostEnv, received {type(config.env).__name__}: pass HostEnv(id=...)")
        self.config, self.seed, self.env = config, seed, config.env
        self.envs = self.env.make_vector(config.num_envs) if envs is None else envs

    def start(self) -> Carry:
        """Return a run before its first update."""
        return self._reset(init(self.config, jax.random.key(self.seed)))

    def resume(self, carry: Carry) -> Carry:
        """Return a saved run with new episodes; the ones that were running are forgotten."""
        config, everywhere = self.config, jnp.ones(self.config.num_envs, bool)
        world = _world(config, jax.random.fold_in(jax.random.key(self.seed), carry.updates))
        if not getattr(config.intrinsic, "episodic", False):
            world = world._replace(bonus=carry.world.bonus)
        return self._reset(
            carry._replace(
                world=world,
                shaping=config.shaping.discard(carry.shaping, everywhere),
                certificate=Certificate(gamma=config.bonus_gamma).discard(carry.certificate, everywhere),
                running=_episodes.start(config.num_envs),
            )
        )

    def advance(self, carry: Carry, updates: int) -> tuple[Carry, Metrics]:
        """Return the run after ``updates`` more updates, and their metrics, (updates,) each."""
        rows = []
        for _ in range(updates):
            key, rollout_key, learn_key = jax.random.split(carry.key, 3)
            world, steps = self.collect(carry, rollout_key)
            carry, metrics = _learn(self.config, carry._replace(key=key), world, steps, learn_key)
            rows.append(jax.device_get(metrics))
        metrics = jax.tree.map(lambda *column: np.stack(column), *rows)
        return carry, metrics

    def collect(self, carry: Carry, key: Array) -> tuple[World, HostSteps]:
        """Act for one rollout; the actions' randomness is drawn as the compiled program draws it."""
        config, (obs, memory, mask) = self.config, jax.device_get(carry.world[1:4])
        shape = (config.num_steps, config.env.num_actions, config.num_envs)
        noise, steps = _noise(jax.random.split(key)[0], shape), []
        policy = config.way.policy(carry.method)
        for row in noise:
            action, following, core, logits = jax.device_get(
                act(config.network, carry.learner.params, obs, memory * mask, row, policy)
            )
            info: Any
            new_obs, reward, terminated, truncated, info = self.envs.step(action)
            ended, next_obs = terminated | truncated, new_obs
            if ended.any():
                finals = {int(i): info["final_obs"][i] for i in np.flatnonzero(ended)}
                next_obs = with_rows(self.envs.single_observation_space, new_obs, finals)
                info = FinalInfo(info, info.get("final_info", {}), ended)
            keys = self.env.count_keys(next_obs, info)
            reward = np.asarray(reward, np.float32)
            steps.append(
                HostSteps(obs, memory, mask, core, logits, action, reward, terminated, truncated, next_obs, keys)
            )
            obs, memory, mask = new_obs, following, (1.0 - ended).astype(np.float32)
        world = carry.world._replace(obs=jnp.asarray(obs), memory=jnp.asarray(memory), mask=jnp.asarray(mask))
        return world, HostSteps(*(np.stack(column) for column in zip(*steps, strict=True)))

    def evaluate(self, params: Params, *, episodes: int) -> Evaluation:
        """Play one greedy episode in each of ``episodes`` environments with held-out seeds, the same at every call."""
        network, envs = self.config.network, self.env.make_vector(episodes)
        seeds: Any = [HELD_OUT + index for index in range(episodes)]
        obs, _ = envs.reset(seed=seeds)
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

    def _reset(self, carry: Carry) -> Carry:
        """Reset the environments, with seeds that depend on the run's seed and on how far it is."""
        (seed,) = np.random.SeedSequence([self.seed, int(carry.updates)]).generate_state(1)
        obs, _ = self.envs.reset(seed=int(seed))
        return carry._replace(world=carry.world._replace(obs=jnp.asarray(obs)))


def _world(config: PPO, key: Array) -> World:
    env: Any = config.env
    num_envs = config.num_envs
    obs, no = jnp.zeros((num_envs, *env.obs_shape), env.obs_dtype), jnp.zeros(num_envs, bool)
    whole = jnp.zeros(num_envs, jnp.int32)
    example = Transition(obs, whole, obs, no, no, {"count_key": whole})
    memory = jnp.zeros((config.network.memory_size, num_envs))
    return World((), obs, memory, jnp.ones(num_envs), _bonus.start(config.intrinsic, env, key, example))


def _noise(key: Array, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.asarray(jax.random.gumbel(key, shape))


@jit(static_argnums=0)
def act(
    network: Network, params: Params, obs: Any, memory: Any, noise: Any, policy: Array | None = None
) -> tuple[Array, Array, Array, Array]:
    """Return an action, the memory after it, the core and the logits; a noise of zeros makes it greedy."""
    memory, core = network.step(params, network.embed(params, network.prepare(obs)), memory)
    logits = network.logits(params, core, policy)
    return jnp.argmax(logits + noise, axis=0), memory, core, logits


@jit(static_argnums=0)
def _learn(config: PPO, carry: Carry, world: World, steps: HostSteps, key: Array) -> tuple[Carry, Metrics]:
    return _update.finish(config, carry, world, _steps_of(config, steps), key)


def _steps_of(config: PPO, steps: HostSteps) -> Steps:
    """Return the rollout in the form the compiled loop collects it in."""
    prepare = jax.vmap(config.network.prepare)
    action = steps.action.astype(jnp.int32)
    transition = Transition(
        steps.obs, action, steps.next_obs, steps.terminated, steps.truncated, {"count_key": steps.count_key}
    )
    return Steps(
        rows=prepare(steps.obs),
        memory=steps.memory,
        mask=steps.mask,
        core=steps.core,
        logits=steps.logits,
        action=action,
        reward=steps.reward,
        terminated=steps.terminated,
        truncated=steps.truncated,
        bonus=jnp.zeros_like(steps.reward),
        final_rows=prepare(steps.next_obs) if config.truncation == "bootstrap" else None,
        transition=None if config.intrinsic is None else transition,
    )
