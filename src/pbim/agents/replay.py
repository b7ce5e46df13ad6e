"""Pictures of a trained agent at work."""

from typing import Any

import jax
import jax.numpy as jnp

from pbim.agents._networks import Params
from pbim.agents.evaluate import HELD_OUT
from pbim.agents.ppo import PPO
from pbim.errors import InputError


def play(config: PPO, params: Params, *, episodes: int, seed: int = 0) -> tuple[list[Any], int]:
    """Return the pictures (Pillow images) of greedy episodes on held-out layouts, and the number of steps."""
    try:
        from PIL import Image
    except ImportError:
        raise InputError("pictures need Pillow, which is not installed: pip install pillow") from None
    from pbim.envs import CliffWalk, DoorKey, frame

    env, network = config.env, config.network
    if not isinstance(env, CliffWalk | DoorKey):
        raise InputError(
            f"env must be CliffWalk or DoorKey to be drawn, received {type(env).__name__}: watch one of those"
        )

    @jax.jit
    def step(state: Any, obs: Any, memory: Any, key: Any) -> Any:
        memory, core = network.step(params, network.embed(params, network.prepare(obs[None])), memory)
        return env.step(key, state, jnp.argmax(network.logits(params, core)[:, 0])), memory

    pictures, steps = [], 0
    for episode in range(episodes):
        key = jax.random.fold_in(jax.random.key(HELD_OUT), 1 + seed * 1000 + episode)
        state, obs = env.reset(key)
        memory, over = jnp.zeros((network.memory_size, 1)), False
        pictures.append(Image.fromarray(frame(env, state)))
        while not over:
            key, step_key = jax.random.split(key)
            out, memory = step(state, obs, memory, step_key)
            state, obs, over = out.state, out.obs, bool(out.terminated | out.truncated)
            steps += 1
            pictures.append(Image.fromarray(frame(env, state)))
    return pictures, steps
