"""Reward modules with watch / compute / update (RLeXplore, rllte) as bonuses, unchanged."""

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.errors import InputTypeError
from pbim.intrinsic.protocol import Transition

__all__ = ["from_watch_compute_update"]


class WatchComputeUpdate:
    """A bonus that asks a watch / compute / update module, one step at a time."""

    stepwise = True

    def __init__(self, module: Any, device: str) -> None:
        self.module = module
        self.device = device

    def reward(self, transition: Transition, /) -> NDArray[np.float64]:
        """Return the module's reward of this step, shape (num_envs,), leaving the module as it was."""
        return self._ask(_aside(self.module), transition, sync=False)

    def update(self, transition: Transition, /) -> None:
        """Let the module watch and learn from this step."""
        self._ask(self.module, transition, sync=True)

    def _ask(self, module: Any, transition: Transition, *, sync: bool) -> NDArray[np.float64]:
        import torch

        def tensor(value: Any) -> Any:
            array = np.asarray(value)
            kind = np.float32 if array.dtype.kind == "f" else array.dtype
            return torch.as_tensor(array.astype(kind), device=self.device)

        step = {
            "observations": tensor(transition.obs),
            "actions": tensor(transition.action),
            "rewards": torch.zeros(len(transition.terminated), device=self.device),
            "terminateds": tensor(np.asarray(transition.terminated, np.float32)),
            "truncateds": tensor(np.asarray(transition.truncated, np.float32)),
            "next_observations": tensor(transition.next_obs),
        }
        module.watch(**step)
        samples = {name: value.unsqueeze(0) for name, value in step.items()}
        paid = module.compute(samples, sync=sync)
        return np.asarray(paid.detach().cpu(), dtype=np.float64).reshape(-1)


def _aside(module: Any) -> Any:
    """Return a copy of the module whose statistics and memories are its own and whose networks are shared.

    Such modules change on every ``compute``, also with ``sync=False``: running means, step counters, episodic memories.
    """
    import torch

    shared = (torch.nn.Module, torch.optim.Optimizer)
    twin = copy.copy(module)
    for name, value in vars(module).items():
        if not isinstance(value, shared) and name not in ("envs", "observation_space", "action_space", "device"):
            setattr(twin, name, copy.deepcopy(value))
    return twin


def from_watch_compute_update(module: Any, *, device: str = "cpu") -> WatchComputeUpdate:
    """Return a bonus that asks ``module`` through ``watch``, ``compute(samples, sync)`` and ``update``.

    ``reward`` computes with ``sync=False`` on a copy of the module's statistics, because such modules change on every
    ``compute``; ``update`` watches and computes with ``sync=True``, which trains. Each call shows the module one step,
    (1, num_envs, ...), so a module that would look at later steps of a rollout cannot. The module owns its networks
    and its saving: keep it with your other PyTorch modules. Rows that are not valid reach the module like any other.

    Yuan et al. 2024 (RLeXplore, arXiv 2405.19548). Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        module: An object with ``watch``, ``compute`` and ``update``.
        device: The PyTorch device that its inputs go to.

    Raises:
        InputTypeError: If one of the three is missing.

    >>> import torch
    >>> class Constant:
    ...     def watch(self, **step): ...
    ...     def compute(self, samples, sync=True): return torch.ones(samples["rewards"].shape)
    ...     def update(self, samples): ...
    >>> no = np.array([False, False])
    >>> step = Transition(np.zeros(2), np.zeros(2), np.ones(2), no, no, {})
    >>> from_watch_compute_update(Constant()).reward(step)
    array([1., 1.])

    """
    missing = [name for name in ("watch", "compute", "update") if not callable(getattr(module, name, None))]
    if missing:
        raise InputTypeError(
            f"from_watch_compute_update: module must have watch, compute and update, received {type(module).__name__} "
            f"without {', '.join(missing)}: add them, or pass any callable transition -> array as it is"
        )
    return WatchComputeUpdate(module, device)
