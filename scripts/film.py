"""Train two agents and film them side by side for README: python scripts/film.py (ten minutes on one core).

They are seed 0 of two cells of the published study ``doorkey-conversions``: the same task (MiniGrid's DoorKey-8x8, 640
steps at most), count bonus (alpha 0.025, gamma 0.995), learner (recurrent PPO) and 2 M frames. One learns from the raw
bonus, the other from the bonus converted by ``Geometric(rate=0.02)``. Nothing is chosen after the fact: seed 0 of each,
first held-out layouts, actions drawn from the policy as in training, from the first step to the end of the raw agent's
first episode. The line below the pictures comes from the published rows of all ten seeds.

Parameters are kept in out/film, so a second call only draws.
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

from pbim.agents.ppo import PPO
from pbim.config import canonical, encode
from pbim.envs.render import frame
from pbim.report.evidence import gather
from pbim.studies.doorkey_conversions import DOORKEY_CONVERSIONS
from pbim.training import checkpoint
from pbim.training.compiled import keep_compiled
from pbim.training.evaluate import HELD_OUT
from pbim.training.run import CompiledBackend, shapes_of

ROOT = Path(__file__).resolve().parents[1]
STUDY = DOORKEY_CONVERSIONS.name
SIDES = {"im-025-995": "Raw bonus", "geometric-0.02-025-995": "Converted"}
SEED, CHUNK = 0, 8
TILE, MARGIN, GAP, HEAD, FOOT = 32, 12, 24, 44, 76
STEP, GOAL, END = 70, 500, 4000
"""Milliseconds that a step, a reached goal and the last picture are shown."""
INK, GREEN, RED, PAPER = (31, 35, 40), (26, 127, 55), (180, 35, 24), (255, 255, 255)


def trained(cell: str, folder: Path) -> tuple[PPO, Any]:
    """Return the learner of a cell and its parameters after training, from ``folder`` if they are there."""
    config: Any = next(each.learner for each in DOORKEY_CONVERSIONS.cells if each.name == cell)
    backend, path = CompiledBackend(config, SEED), folder / f"{cell}.pbim"
    about = canonical({**encode(config), "seed": SEED})
    if path.exists():
        return config, checkpoint.load(path, shapes_of(config), config=about).learner.params
    carry = backend.start()
    while (done := int(carry.updates)) < config.updates:
        carry, metrics = backend.advance(carry, CHUNK if config.updates - done >= CHUNK else 1)
        if done // CHUNK % 10 == 0:
            print(f"{cell}: {done * config.frames:,} frames, length {np.nanmean(metrics.length):.0f}", flush=True)
    checkpoint.save(path, carry, config=about)
    return config, carry.learner.params


def episode(config: PPO, params: Any, number: int) -> tuple[list[Any], bool]:
    """Return the states of one episode on a held-out layout, and whether it ended at the goal."""
    env, network = config.compiled_env, config.network

    @jax.jit
    def step(state: Any, obs: Any, memory: Any, key: Any) -> Any:
        memory, core = network.step(params, network.embed(params, network.prepare(obs[None])), memory)
        choice, chance = jax.random.split(key)
        action = jax.random.categorical(choice, network.logits(params, core)[:, 0])
        return env.step(chance, state, action), memory

    key = jax.random.fold_in(jax.random.key(HELD_OUT), 1 + number)
    state, obs = env.reset(key)
    states, memory = [state], jnp.zeros((network.memory_size, 1))
    while True:
        key, step_key = jax.random.split(key)
        out, memory = step(state, obs, memory, step_key)
        state, obs = out.state, out.obs
        states.append(state)
        if bool(out.terminated | out.truncated):
            return states, bool(out.terminated)


def font(size: int, weight: str = "normal") -> ImageFont.FreeTypeFont:
    """Return a typeface that comes with matplotlib, so the film looks the same everywhere."""
    found = font_manager.findfont(font_manager.FontProperties(family="DejaVu Sans", weight=weight))
    return ImageFont.truetype(found, size)


def canvas(pictures: list[Any], steps: list[int], lengths: list[list[int]], foot: list[str]) -> Image.Image:
    """Draw the two agents; above them the goals so far, below them the step of the episode and the last goal's."""
    side = pictures[0].shape[0]
    image = Image.new("RGB", (2 * (side + MARGIN) + GAP, HEAD + side + FOOT), PAPER)
    draw = ImageDraw.Draw(image)
    for index, (title, picture) in enumerate(zip(SIDES.values(), pictures, strict=True)):
        left, right, below, goals = (
            MARGIN + index * (side + GAP),
            MARGIN + index * (side + GAP) + side,
            HEAD + side,
            lengths[index],
        )
        image.paste(Image.fromarray(picture), (left, HEAD))
        draw.text((left, 10), title, INK, font(20, "bold"))
        draw.text((right, 10), f"goals: {len(goals)}", GREEN if goals else RED, font(20, "bold"), anchor="ra")
        draw.text((left, below + 12), f"step {steps[index]}", INK, font(16, "bold"))
        if goals:
            draw.text((right, below + 12), f"goal in {goals[-1]} steps", GREEN, font(16, "bold"), anchor="ra")
        draw.text((left, below + 46), foot[index], INK, font(16))
    return image


def typical(cell: str) -> str:
    """Return the mean length of an episode at the end of training, over all published seeds."""
    runs = [entry for entry in gather(ROOT / "docs" / "results" / STUDY).runs if entry.run.cell == cell and entry.done]
    lengths = [entry.figures["final_length"] for entry in runs]
    return f"mean of {len(lengths)} seeds: {np.mean(lengths):.0f} steps"


def film(sides: list[tuple[PPO, Any]]) -> tuple[list[Image.Image], list[int]]:
    """Return the pictures and how long each is shown: one raw episode, and as many converted ones as fit beside it."""
    foot = [typical(cell) for cell in SIDES]
    raw, raw_arrived = episode(*sides[0], 0)
    images, durations, lengths = [], [], [[], []]
    converted, arrived = episode(*sides[1], 0)
    number = start = 0
    for step, state in enumerate(raw):
        now, last = step - start, step == len(raw) - 1
        ended = now == len(converted) - 1
        if ended and arrived:
            lengths[1].append(now)
        if last and raw_arrived:
            lengths[0].append(step)
        states = (state, converted[now])
        pictures = [frame(config.env, each, tile_size=TILE) for (config, _), each in zip(sides, states, strict=True)]
        images.append(canvas(pictures, [step, now], lengths, foot))
        durations.append(END if last else GOAL if ended else STEP)
        if ended:
            number, start = number + 1, step + 1
            converted, arrived = episode(*sides[1], number)
    print(f"raw: {len(raw) - 1} steps; converted: goals in {lengths[1]} steps")
    return images, durations


def write(path: Path, images: list[Image.Image], durations: list[int]) -> None:
    """Write the film with one small palette, so that a picture costs only what changed in it."""
    palette = images[-1].quantize(48, dither=Image.Dither.NONE)
    first, *others = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images)
    path.parent.mkdir(parents=True, exist_ok=True)
    first.save(path, "GIF", save_all=True, append_images=others, duration=durations, loop=0, optimize=True)
    print(f"{path}: {len(images)} pictures, {sum(durations) / 1000:.0f} s, {path.stat().st_size:,} bytes")


def main() -> None:
    """Train where needed, and write the film."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "dithering.gif")
    parser.add_argument("--runs", type=Path, default=ROOT / "out" / "film", help="where trained parameters are kept")
    arguments = parser.parse_args()
    keep_compiled()
    arguments.runs.mkdir(parents=True, exist_ok=True)
    write(arguments.out, *film([trained(cell, arguments.runs) for cell in SIDES]))


if __name__ == "__main__":
    main()
