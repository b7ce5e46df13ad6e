"""DoorKey with observations: ours, navix's, xminigrid's and Farama's, steps per second on one core in one run.

Every JAX environment runs in its best form: a compiled scan over 16 vmapped environments that stores every
observation, acts by stored random actions and resets ended episodes. ``ratio_<peer>`` compares with the peer as its
own users run it, with its own automatic reset; ``ratio_<peer>_our_reset`` with the peer inside our
``autoreset_batch``, which skips the resets nobody needs and speeds them up several times. What is compared is not
equal in all respects: xminigrid sees through walls and has two channels, navix always starts in the same corner; only
Farama's and ours play the same game. Farama's runs as a ``SyncVectorEnv`` with images only and without checkers.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks._timing import interleaved, one_core
from pbim.envs import DoorKey, Environment, Navix, XMiniGrid, autoreset_batch

INSTALL = "pip install -r benchmarks/requirements-envs.txt"
PEERS = ("navix", "xminigrid", "farama")
COMPARED = (*PEERS, "navix_our_reset", "xminigrid_our_reset")
STEPS = 1024


class Workload(NamedTuple):
    """Something to time, and how many environment steps one call of it takes."""

    steps: int
    work: Callable[[], object]


Forms = dict[str, Workload]


def run(quick: bool = False) -> dict[str, Any]:
    """Measure all cases; the ratios of the first (8x8, 16 environments) are also at the top, None if not installed."""
    cases = [(8, 16)] if quick else [(8, 16), (8, 256), (16, 16)]
    with one_core() as core:
        measured = [_case(size, num_envs, rounds=5 if quick else 15) for size, num_envs in cases]
    first = measured[0]
    return {
        "benchmark": "envs",
        "quick": quick,
        "core": core,
        "steps_per_second": first["steps_per_second"],
        **{f"ratio_{peer}": ratio for peer, ratio in first["ratios"].items()},
        "missing": {peer: INSTALL for peer in PEERS if first["steps_per_second"][peer] is None},
        "cases": measured,
    }


def _case(size: int, num_envs: int, *, rounds: int) -> dict[str, Any]:
    makers = [_ours, _navix, _xminigrid]
    if num_envs <= 16:
        makers.append(_farama)  # one step after the other: its speed does not depend on their number
    loads = {name: load for make in makers for name, load in make(size, num_envs).items()}
    seconds = interleaved({name: load.work for name, load in loads.items()}, rounds=rounds)
    rates = {name: [loads[name].steps / s for s in times] for name, times in seconds.items()}

    ours = rates.pop("pbim")
    return {
        "env": f"DoorKey-{size}x{size}",
        "num_envs": num_envs,
        "steps_per_second": {"pbim": round(median(ours))} | {name: _rounded(rates.get(name)) for name in COMPARED},
        "ratios": {
            name: _rounded([a / b for a, b in zip(ours, rates.get(name, []), strict=False)], 2) for name in COMPARED
        },
    }


def _rounded(values: list[float] | None, digits: int | None = None) -> float | None:
    return round(median(values), digits) if values else None


def _ours(size: int, num_envs: int) -> Forms:
    env: Any = DoorKey(size=size)  # type: ignore[arg-type]
    return {"pbim": _scan_protocol(env, num_envs)}


def _navix(size: int, num_envs: int) -> Forms:
    try:
        import navix  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return {}
    ours = Navix(id=f"Navix-DoorKey-{size}x{size}-v0", limit=10 * size**2)
    view = navix.observations.symbolic_first_person
    env = navix.make(ours.id, observation_fn=view, max_steps=ours.limit)
    own = _scan(env.reset, env.step, lambda t: (t.observation, t.reward, t.step_type), 7, num_envs)
    return {"navix": own, "navix_our_reset": _scan_protocol(ours, num_envs)}


def _xminigrid(size: int, num_envs: int) -> Forms:
    try:
        import xminigrid  # type: ignore[import-not-found, unused-ignore]
        from xminigrid.wrappers import GymAutoResetWrapper  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return {}
    ours = XMiniGrid(id=f"MiniGrid-DoorKey-{size}x{size}")
    env, params = xminigrid.make(ours.id)
    wrapped = GymAutoResetWrapper(env)
    reset, step = partial(wrapped.reset, params), partial(wrapped.step, params)
    own = _scan(reset, step, lambda t: (t.observation, t.reward, t.step_type), 6, num_envs)
    return {"xminigrid": own, "xminigrid_our_reset": _scan_protocol(ours, num_envs)}


def _farama(size: int, num_envs: int) -> Forms:
    try:
        import gymnasium
        import minigrid.wrappers as wrappers
    except ImportError:
        return {}
    steps = STEPS // 8  # slow enough that fewer steps are as precise

    def make() -> Any:
        env = gymnasium.make(f"MiniGrid-DoorKey-{size}x{size}-v0", disable_env_checker=True)
        return wrappers.ImgObsWrapper(env)  # type: ignore[no-untyped-call, unused-ignore]

    envs = gymnasium.vector.SyncVectorEnv([make] * num_envs)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(7, size=(steps, num_envs))

    def work() -> None:
        for row in actions:
            envs.step(row)

    return {"farama": Workload(steps * num_envs, work)}


def _scan_protocol(env: Environment[Any], num_envs: int) -> Workload:
    actions = jax.random.randint(jax.random.key(0), (STEPS, num_envs), 0, env.num_actions)
    states, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(1), num_envs))

    @jax.jit
    def rollout(states: Any, key: jax.Array) -> Any:
        def body(states: Any, inputs: tuple[jax.Array, jax.Array]) -> Any:
            out = autoreset_batch(env, inputs[0], states, inputs[1])
            return out.state, (out.obs, out.timestep.reward, out.timestep.terminated, out.timestep.truncated)

        return jax.lax.scan(body, states, (jax.random.split(key, STEPS), actions))

    key = jax.random.key(2)
    work = _keep_going(lambda states, count: rollout(states, jax.random.fold_in(key, count)), states)
    return Workload(STEPS * num_envs, work)


def _scan(
    reset: Callable[..., Any],
    step: Callable[..., Any],
    output: Callable[[Any], Any],
    num_actions: int,
    num_envs: int,
) -> Workload:
    actions = jax.random.randint(jax.random.key(0), (STEPS, num_envs), 0, num_actions)
    timesteps = jax.jit(jax.vmap(reset))(jax.random.split(jax.random.key(1), num_envs))

    @jax.jit
    def rollout(timesteps: Any) -> Any:
        def body(timesteps: Any, actions: jax.Array) -> Any:
            timesteps = jax.vmap(step)(timesteps, actions)
            return timesteps, output(timesteps)

        return jax.lax.scan(body, timesteps, actions)

    return Workload(STEPS * num_envs, _keep_going(lambda timesteps, _: rollout(timesteps), timesteps))


def _keep_going(rollout: Callable[[Any, int], Any], carry: Any) -> Callable[[], object]:
    """Continue from where the last call stopped, so that resets are part of what is measured."""
    kept, count = carry, 0

    def work() -> None:
        nonlocal kept, count
        kept, stored = rollout(kept, count)
        count += 1
        jax.block_until_ready(stored)  # type: ignore[no-untyped-call]

    return work
