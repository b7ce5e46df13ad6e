"""How an episode goes on from a history when one of the two problems is solved perfectly."""

from dataclasses import dataclass

import numpy as np

from pbim.verification.induction import Values, Verdicts
from pbim.verification.mdp import Links
from pbim.verification.numbers import Number
from pbim.verification.report import Assumption1, Course
from pbim.verification.tree import Tree, TreeLevel

CAUSAL = Assumption1(holds=True, reason="the bonus is computed from the history, so it cannot see later actions")


@dataclass(frozen=True, kw_only=True)
class CausalVerdict:
    """The verdict on a bonus of the history, with all that is needed to tell how an episode goes on."""

    tree: Tree
    verdicts: Verdicts
    gamma: Number
    assumption: Assumption1 = CAUSAL

    def courses(self, depth: int, node: int, actions: tuple[int, int]) -> tuple[Course, Course]:
        """Return the most likely way on from ``node`` after the task's best and the shaped problem's best action."""
        problems = zip((self.verdicts.original, self.verdicts.shaped), actions, strict=True)
        first, second = (self._course(values, depth, node, action) for values, action in problems)
        return first, second

    def _course(self, values: tuple[Values, ...], depth: int, node: int, action: int) -> Course:
        history, links = self.tree.history(depth, node), self.tree.links
        task: Number = 0
        bonus: Number = 0
        discount: Number = 1
        while True:
            level = self.tree.levels[depth]
            edge = likeliest(level, links, node, action)
            link = int(level.link[edge])
            history = (*history, action, int(links.target[link]))
            task += discount * links.reward[link]
            bonus += discount * (0 if level.shaped is None else level.shaped[edge])
            discount *= self.gamma
            if level.ended[edge]:
                return Course(history=history, task=task, bonus=bonus)
            depth, node = depth + 1, int(level.child[edge])
            action = int(np.argmax(values[depth].actions[node]))


def likeliest(level: TreeLevel, links: Links, node: int, action: int) -> int:
    """Return the most likely edge of ``node`` under ``action`` (the first of equals)."""
    edges = np.flatnonzero((level.node == node) & (links.action[level.link] == action))
    return int(edges[int(np.argmax(links.probability[level.link[edges]].astype(float)))])
