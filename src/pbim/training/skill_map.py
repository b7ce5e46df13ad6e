"""Where each skill of a trained agent goes, as a picture of the grid with one colour per skill."""

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pbim.agents.networks import Params
from pbim.agents.ppo import PPO
from pbim.envs import CliffWalk, DoorKey, Skills, ToyText
from pbim.envs.protocol import pick
from pbim.envs.render import frame
from pbim.errors import InputError
from pbim.training.evaluate import HELD_OUT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TILE = 32


def skill_paths(config: PPO, params: Params, *, episodes: int = 3, seed: int = 0) -> NDArray[np.int64]:
    """Return the cells that each skill passes, (skills, episodes, max_steps + 1); an ended episode stays where it is.

    All start on one held-out layout. Actions are drawn from the policy, as in training.

    Args:
        config: A run on ``Skills`` of a CliffWalk (Gymnasium's, too, as ``ToyText``) or a DoorKey.
        params: Its trained parameters.
        episodes: How many of each skill.
        seed: Which layout and draws.

    Raises:
        InputError: If it has no skills, or its environment no grid.

    """
    env, network = _grid(config), config.network
    layout = jax.random.fold_in(jax.random.key(HELD_OUT), 1 + seed)
    skills = jnp.repeat(jnp.arange(env.count), episodes)
    state, obs = jax.vmap(partial(env.start, layout))(skills)

    @jax.jit
    def step(carry: Any, key: Array) -> Any:
        state, obs, memory, running = carry
        memory, core = network.step(params, network.embed(params, network.prepare(obs)), memory)
        action = jax.random.categorical(jax.random.fold_in(key, 0), network.logits(params, core), axis=0)
        out = jax.vmap(env.step)(jax.random.split(jax.random.fold_in(key, 1), len(skills)), state, action)
        state = pick(running, out.state, state)
        return (state, out.obs, memory, running & ~(out.terminated | out.truncated)), _cell(state.inner)

    begin = (state, obs, jnp.zeros((network.memory_size, len(skills))), jnp.ones(len(skills), bool))
    _, cells = jax.lax.scan(step, begin, jax.random.split(jax.random.fold_in(layout, 1), env.max_steps))
    path = np.concatenate([np.asarray(_cell(state.inner))[None], np.asarray(cells)])
    return path.T.reshape(env.count, episodes, -1).astype(np.int64)


def skill_map(config: PPO, params: Params, *, episodes: int = 3, seed: int = 0) -> "Figure":
    """Draw ``skill_paths`` on the grid: a line per episode, a colour per skill, a dot where it ends.

    Args:
        config: A run on ``Skills`` of a CliffWalk or a DoorKey.
        params: Its trained parameters.
        episodes: How many of each skill.
        seed: Which layout and draws.

    Raises:
        InputError: If it has no skills, or its environment no grid.

    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    env = _grid(config)
    drawn: Any = CliffWalk() if isinstance(env.env, ToyText) else env.env  # the same cells
    paths = skill_paths(config, params, episodes=episodes, seed=seed)
    state, _ = env.env.reset(jax.random.fold_in(jax.random.key(HELD_OUT), 1 + seed))
    picture = frame(drawn, state, tile_size=_TILE, highlight=False)
    width = picture.shape[1] // _TILE
    figure = Figure(figsize=(max(4.0, picture.shape[1] / 64 + 1.4), picture.shape[0] / 64 + 0.3), layout="constrained")
    ax = figure.add_subplot()
    ax.imshow(picture // 2 + 127, extent=(-0.5, width - 0.5, picture.shape[0] / _TILE - 0.5, -0.5))
    rng = np.random.default_rng(seed)
    for skill, colour in enumerate(colormaps["turbo"](np.linspace(0.05, 0.95, env.count))):
        for number, cells in enumerate(paths[skill]):
            aside = rng.uniform(-0.3, 0.3, size=2)  # so that lines and dots in one cell stay apart
            x, y = cells % width + aside[0], cells // width + aside[1]
            ax.plot(x, y, color=colour, linewidth=1.2, alpha=0.8, label=f"skill {skill}" if number == 0 else None)
            ax.scatter(x[-1], y[-1], s=36, color=colour, edgecolors="white", linewidths=0.7, zorder=3)
    ax.set_axis_off()
    figure.legend(loc="outside right center", fontsize=8)
    return figure


def _grid(config: PPO) -> Skills:
    env: Any = config.env
    inner = env.env if isinstance(env, Skills) else None
    cliff = isinstance(inner, ToyText) and inner.id.startswith("CliffWalking")
    if not (isinstance(env, Skills) and (cliff or isinstance(inner, CliffWalk | DoorKey))):
        raise InputError(
            f"a picture of skills needs a run on CliffWalk or DoorKey with --skills, received {env}: train one, or "
            "write a .gif"
        )
    return env


def _cell(state: Any) -> Array:
    """Return the agent's cell in a state of either grid."""
    cell: Array = state.agent if hasattr(state, "agent") else state.cell
    return cell
