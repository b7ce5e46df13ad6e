"""Modules with watch / compute / update are used unchanged, and made to compute without learning."""

import gymnasium as gym
import pytest
import torch
from gymnasium import spaces

from pbim.intrinsic import from_watch_compute_update
from pbim.testing import check_intrinsic, random_transitions

STEPS = random_transitions(spaces.Box(-1, 1, (5,)), spaces.Discrete(4))


class Module:
    """What RLeXplore's modules do: statistics move on every compute, watch remembers, sync trains."""

    def __init__(self):
        torch.manual_seed(0)
        self.network = torch.nn.Linear(5, 1)
        self.opt = torch.optim.SGD(self.network.parameters(), lr=0.1)
        self.calls, self.memory = 0, []

    def watch(self, *, next_observations, **_):
        self.memory.append(next_observations)

    def compute(self, samples, sync=True):
        self.calls += 1
        assert samples["next_observations"].shape[:2] == (1, 3)
        error = self.network(samples["next_observations"]).squeeze(-1) ** 2
        if sync:
            self.update(samples)
        return error.detach() + self.calls + len(self.memory)

    def update(self, samples):
        self.opt.zero_grad()
        (self.network(samples["observations"]) ** 2).mean().backward()
        self.opt.step()


def test_bridged_module_conforms():
    check_intrinsic(lambda: from_watch_compute_update(Module()), STEPS)


def test_update_reaches_the_module_and_reward_does_not():
    module = Module()
    bonus = from_watch_compute_update(module)
    before = module.network.weight.detach().clone()
    bonus.reward(STEPS[0])
    assert (module.calls, len(module.memory)) == (0, 0)
    assert torch.equal(module.network.weight, before)
    bonus.update(STEPS[0])
    assert (module.calls, len(module.memory)) == (1, 1)
    assert not torch.equal(module.network.weight, before)


def test_object_without_the_interface_is_named():
    with pytest.raises(TypeError, match="received dict without watch, compute"):
        from_watch_compute_update({})


class Venv(gym.vector.VectorEnv):
    num_envs = 3
    single_observation_space = spaces.Box(-1, 1, (5,))
    single_action_space = spaces.Discrete(4)

    def reset(self, **_):
        return torch.zeros(3, 5), {}

    def step(self, _):
        return torch.randn(3, 5), torch.zeros(3), torch.zeros(3), torch.zeros(3), {}


@pytest.mark.parametrize("name", ["RND", "ICM", "E3B"])
def test_rlexplore_modules_conform_unchanged(name):
    xplore = pytest.importorskip("rllte.xplore.reward", reason="see benchmarks/requirements-intrinsic.txt")

    def make():
        torch.manual_seed(0)
        return from_watch_compute_update(getattr(xplore, name)(Venv(), latent_dim=8))

    check_intrinsic(make, STEPS)
