"""Pictures of a trained agent at work."""

import subprocess
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pbim._files import first_line, replacing
from pbim.agents.networks import Params
from pbim.agents.ppo import PPO
from pbim.envs.render import Picture, frame
from pbim.errors import InputError
from pbim.training.evaluate import HELD_OUT


def play(
    config: PPO, params: Params, *, episodes: int, seed: int = 0, most: int | None = None
) -> tuple[list[Picture], int]:
    """Return the pictures (height, width, 3) uint8 of greedy episodes on held-out layouts, and the number of steps.

    Args:
        config: The run.
        params: Its trained parameters.
        episodes: How many episodes to play.
        seed: Which layouts.
        most: How many steps of each episode are shown; all of them if left out.

    Raises:
        InputError: If there is no picture of the environment.

    """
    if not hasattr(config.env, "reset"):
        return _play_on_host(config, params, episodes=episodes, seed=seed, most=most)
    env, network = config.compiled_env, config.network

    @jax.jit
    def step(state: Any, obs: Any, memory: Any, key: Any) -> Any:
        memory, core = network.step(params, network.embed(params, network.prepare(obs[None])), memory)
        return env.step(key, state, jnp.argmax(network.logits(params, core)[:, 0])), memory

    pictures, steps = [], 0
    for episode in range(episodes):
        key = jax.random.fold_in(jax.random.key(HELD_OUT), 1 + seed * 1000 + episode)
        state, obs = env.reset(key)
        memory, over, last = jnp.zeros((network.memory_size, 1)), False, steps + (most or env.max_steps)
        pictures.append(frame(env, state))
        while not over and steps < last:
            key, step_key = jax.random.split(key)
            out, memory = step(state, obs, memory, step_key)
            state, obs, over = out.state, out.obs, bool(out.terminated | out.truncated)
            steps += 1
            pictures.append(frame(env, state))
    return pictures, steps


def _play_on_host(
    config: PPO, params: Params, *, episodes: int, seed: int, most: int | None
) -> tuple[list[Picture], int]:
    from pbim.training.host import LONGEST_EVALUATION, act

    host: Any = config.env
    try:
        env, network = host.make(render_mode="rgb_array"), config.network
        env.reset()
        env.render()
    except Exception as error:  # what a foreign renderer raises without its package or a screen is its own affair
        raise InputError(
            f"env {host.id} cannot be drawn ({type(error).__name__}: {first_line(error)}): install what it draws with"
        ) from error
    silent = np.zeros((network.num_actions, 1), np.float32)
    pictures, steps = [], 0
    for episode in range(episodes):
        obs, _ = env.reset(seed=HELD_OUT + 1 + seed * 1000 + episode)
        memory = np.zeros((network.memory_size, 1), np.float32)
        pictures.append(env.render())
        for _ in range(most or host.max_steps or LONGEST_EVALUATION):
            action, memory, *_ = jax.device_get(act(network, params, np.asarray(obs)[None], memory, silent))
            obs, _, terminated, truncated, _ = env.step(int(action[0]))
            steps += 1
            pictures.append(env.render())
            if terminated or truncated:
                break
    env.close()
    return pictures, steps


def write(path: Path, pictures: list[Picture], *, frames_per_second: int) -> None:
    """Write pictures of one size as a moving picture, whole or not at all: MP4 (H.264) or, for any other name, GIF."""
    if path.suffix.lower() == ".mp4":
        return _write_mp4(path, pictures, frames_per_second)
    try:
        from PIL import Image
    except ImportError:
        raise InputError("a GIF needs Pillow, which is not installed: pip install pillow") from None
    first, *others = (Image.fromarray(picture) for picture in pictures)
    with replacing(path) as file:
        first.save(file, "GIF", save_all=True, append_images=others, duration=round(1000 / frames_per_second), loop=0)
    return None


def _write_mp4(path: Path, pictures: list[Picture], frames_per_second: int) -> None:
    try:
        import imageio_ffmpeg  # type: ignore[import-untyped]
    except ImportError:
        raise InputError(
            "an MP4 needs imageio-ffmpeg, which is not installed: pip install 'pbim[video]', or write a .gif"
        ) from None
    height, width = (length + length % 2 for length in pictures[0].shape[:2])  # H.264 halves the colours' resolution
    missing = ((0, 0), (0, height - pictures[0].shape[0]), (0, width - pictures[0].shape[1]), (0, 0))
    film = np.pad(np.stack(pictures), missing, mode="edge")
    raw = f"-y -loglevel error -f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {frames_per_second} -i -"
    coded = "-an -c:v libx264 -pix_fmt yuv420p -f mp4"
    with replacing(path) as file:
        command = [imageio_ffmpeg.get_ffmpeg_exe(), *raw.split(), *coded.split(), file.name]
        subprocess.run(command, input=film.tobytes(), check=True)
