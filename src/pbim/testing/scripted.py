"""An environment whose every step is written down: what adapters of different frameworks are compared on."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Env, spaces


class Episode(NamedTuple):
    """How long an episode lasts and what ends it."""

    length: int
    terminated: bool
    truncated: bool


STORY: tuple[Episode, ...] = (
    Episode(4, True, False),
    Episode(1, True, False),
    Episode(3, False, True),
    Episode(1, False, True),
    Episode(6, True, False),
    Episode(2, True, True),
    Episode(5, False, True),
)
"""Early ends, time limits, both at once, and one-step episodes of each kind."""

KINDS = ("discrete", "box", "multidiscrete", "dict", "tuple")


class ScriptedEnv(Env[Any, Any]):
    """Play the episodes of ``story`` one after the other, from number ``first`` on; observations say where it is.

    The observation is the code 10 * episode + step in a space of the given ``kind``; ``info["at"]`` is the same code,
    of the step for ``step`` and of the start for ``reset``. The extrinsic reward is the action taken.

    >>> env = ScriptedEnv()
    >>> env.reset()[0], [int(env.step(1)[0]) for _ in range(4)], int(env.reset()[0])
    (np.int64(0), [1, 2, 3, 4], 10)
    """

    def __init__(self, first: int = 0, kind: str = "discrete", story: Sequence[Episode] = STORY) -> None:
        self.observation_space, self.action_space = _space(kind), spaces.Discrete(3)
        self._kind, self._story, self._episode, self._time = kind, story, first - 1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode of the story."""
        del options
        super().reset(seed=seed)
        self._episode, self._time = self._episode + 1, 0
        return self._observed()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go one step on."""
        self._time += 1
        episode = self._story[self._episode % len(self._story)]
        over = self._time == episode.length
        obs, info = self._observed()
        return obs, float(action), over and episode.terminated, over and episode.truncated, info

    def action_masks(self) -> list[bool]:
        """Return that every action is allowed."""
        return [True] * 3

    def _observed(self) -> tuple[Any, dict[str, Any]]:
        code = 10 * self._episode + self._time
        return _observation(self._kind, code), {"at": code}


def codes(observation: Any) -> Any:
    """Return the code (num_envs,) that a batch of observations of any kind holds, as the sum of its parts.

    >>> codes({"where": np.array([[1.0, 3.0]]), "when": np.array([4])})
    array([4.])
    """
    if isinstance(observation, dict):
        observation = tuple(observation[name] for name in sorted(observation))
    if not isinstance(observation, tuple):
        observation = (observation,)
    parts = [np.asarray(part, np.float64).reshape(len(part), -1) for part in observation]
    return np.mean([part.sum(axis=1) for part in parts], axis=0)


def _space(kind: str) -> spaces.Space[Any]:
    single: dict[str, spaces.Space[Any]] = {
        "discrete": spaces.Discrete(10_000),
        "box": spaces.Box(0, 10_000, (2,), np.float32),
        "multidiscrete": spaces.MultiDiscrete([10_000, 10]),
    }
    if kind == "dict":
        return spaces.Dict(where=single["box"], when=single["discrete"])
    return spaces.Tuple((single["box"], single["multidiscrete"])) if kind == "tuple" else single[kind]


def _observation(kind: str, code: int) -> Any:
    single = {
        "discrete": np.int64(code),
        "box": np.array([code - code % 10, code % 10], np.float32),
        "multidiscrete": np.array([code - code % 10, code % 10]),
    }
    if kind == "dict":
        return {"where": single["box"], "when": single["discrete"]}
    return (single["box"], single["multidiscrete"]) if kind == "tuple" else single[kind]
