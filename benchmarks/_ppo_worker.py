"""One trainer in one process, timed on request: ``python -m benchmarks._ppo_worker NAME`` answers lines on stdin.

Every trainer has the same DoorKey-8x8 task, rollout, minibatches, epochs and 52,664 parameters. It first prints what it
is as JSON; then each line read is a number of updates to run, answered by the seconds they took, by the clock and of
the core (all processes of the trainer together: on a busy machine the fairer of the two).
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NUM_ENVS, NUM_STEPS, EPOCHS, MINIBATCH, RECURRENCE = 16, 128, 4, 256, 4
FRAMES = NUM_ENVS * NUM_STEPS
ALPHA, GAMMA, RATE = 0.025, 0.995, 0.02

Trainer = tuple[dict[str, Any], Callable[[int], None]]


def ours(bonus: bool = True) -> Trainer:
    """Our PPO with the paper's count bonus, a conversion and its certificate."""
    import jax
    import jax.numpy as jnp

    import pbim
    from pbim.agents import ppo
    from pbim.agents.networks import num_parameters
    from pbim.envs import DoorKey
    from pbim.intrinsic import EpisodicCount

    count = EpisodicCount(alpha=ALPHA, key="count_key") if bonus else None
    shaping = pbim.Geometric(gamma=GAMMA, rate=RATE) if bonus else pbim.NoBonus()
    config = ppo.PPO(env=DoorKey(size=8), gamma=GAMMA, intrinsic=count, shaping=shaping)
    carry = ppo.init(config, jax.random.key(0))
    start = time.perf_counter()
    compiled = ppo.update_chunk.lower(config, carry, 1).compile()
    compile_seconds = time.perf_counter() - start

    def run(updates: int) -> None:
        nonlocal carry
        for _ in range(updates):
            carry, _ = compiled(carry)
        jax.block_until_ready(carry)  # type: ignore[no-untyped-call]

    a = jnp.ones((512, 512))
    product = jax.jit(lambda a: jax.lax.fori_loop(0, 16, lambda _, x: x @ a * 1e-3, a))
    peak = max(_rate(lambda: product(a).block_until_ready(), 16 * 2 * 512**3) for _ in range(10))
    about = {
        "parameters": num_parameters(carry.learner.params),
        "conversion_seconds": _conversion_seconds(shaping),
        "compile_seconds": compile_seconds,
        "matmul_peak_gflops": peak / 1e9,
    }
    return about, run


def _conversion_seconds(shaping: Any) -> float:
    """Return what converting one update's bonuses and certifying the result take."""
    import jax
    import jax.numpy as jnp

    from pbim.verification import Certificate

    certificate = Certificate(gamma=GAMMA)
    bonus, ended = jnp.ones((NUM_STEPS, NUM_ENVS)), jnp.zeros((NUM_STEPS, NUM_ENVS), bool)

    def once(carry: Any, _: None) -> Any:
        state, shaped = shaping.rollout(carry[0], bonus, ended)
        return (state, certificate.update(carry[1], shaped, ended)), None

    many = jax.jit(lambda carry: jax.lax.scan(once, carry, None, length=100)[0])
    carry = shaping.init(NUM_ENVS, like=bonus), certificate.init(NUM_ENVS, like=bonus)

    def work() -> None:
        jax.block_until_ready(many(carry))  # type: ignore[no-untyped-call]

    work()
    return min(1 / _rate(work, 100) for _ in range(5))


def _rate(work: Callable[[], object], amount: float) -> float:
    start = time.perf_counter()
    work()
    return amount / (time.perf_counter() - start)


def torch_ac() -> Trainer:
    """torch-ac's PPO with the model of rl-starter-files; its own 15 worker processes share the core."""
    import torch
    from torch_ac import DictList, PPOAlgo, RecurrentACModel  # type: ignore[import-not-found]

    torch.set_num_threads(1)
    torch.manual_seed(0)

    class Model(_torch_parts(), RecurrentACModel):  # type: ignore[misc]
        memory_size = 128

        def forward(self, obs: Any, memory: Any) -> Any:
            x = self.convolutions(obs.image.permute(0, 3, 1, 2)).flatten(1)
            hidden = self.cell(x, tuple(memory.split(64, dim=1)))
            preferences = torch.log_softmax(self.actor(hidden[0]), dim=1)
            value = self.critic(hidden[0]).squeeze(1)
            return torch.distributions.Categorical(logits=preferences), value, torch.cat(hidden, dim=1)

    def preprocess(observations: Any, device: Any = None) -> Any:
        import numpy as np

        images = np.array([observation["image"] for observation in observations])
        return DictList({"image": torch.tensor(images, device=device, dtype=torch.float)})

    model = Model()
    algorithm = PPOAlgo(
        [_minigrid() for _ in range(NUM_ENVS)], model, "cpu", NUM_STEPS, GAMMA, preprocess_obss=preprocess
    )

    def run(updates: int) -> None:
        for _ in range(updates):
            experience, _ = algorithm.collect_experiences()
            algorithm.update_parameters(experience)

    return {"parameters": sum(p.numel() for p in model.parameters())}, run


def sb3() -> Trainer:
    """sb3-contrib's RecurrentPPO on a DummyVecEnv, one LSTM shared by actor and critic."""
    import torch
    from minigrid.wrappers import ImgObsWrapper
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import DummyVecEnv

    torch.set_num_threads(1)

    class Features(BaseFeaturesExtractor):
        def __init__(self, space: Any) -> None:
            super().__init__(space, 64)
            self.convolutions = _torch_convolutions()

        def forward(self, image: Any) -> Any:
            return self.convolutions(image.float()).flatten(1)  # sb3 has put the channels first

    envs = DummyVecEnv([lambda: ImgObsWrapper(_minigrid())] * NUM_ENVS)  # type: ignore[no-untyped-call]
    model = RecurrentPPO(
        "MlpLstmPolicy",
        envs,
        learning_rate=1e-3,
        n_steps=NUM_STEPS,
        batch_size=MINIBATCH,
        n_epochs=EPOCHS,
        gamma=GAMMA,
        ent_coef=0.01,
        device="cpu",
        policy_kwargs={
            "features_extractor_class": Features,
            "normalize_images": False,
            "lstm_hidden_size": 64,
            "shared_lstm": True,
            "enable_critic_lstm": False,
            "net_arch": {"pi": [64], "vf": [64]},
        },
    )
    model.learn(FRAMES)

    def run(updates: int) -> None:
        model.learn(updates * FRAMES, reset_num_timesteps=False)

    return {"parameters": sum(p.numel() for p in model.policy.parameters())}, run


def _minigrid() -> Any:
    import gymnasium
    import minigrid

    del minigrid
    return gymnasium.make("MiniGrid-DoorKey-8x8-v0", disable_env_checker=True)


def _torch_convolutions() -> Any:
    from torch import nn

    first, second, third = nn.Conv2d(3, 16, 2), nn.Conv2d(16, 32, 2), nn.Conv2d(32, 64, 2)
    return nn.Sequential(first, nn.ReLU(), nn.MaxPool2d(2), second, nn.ReLU(), third, nn.ReLU())


def _torch_parts() -> Any:
    from torch import nn

    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolutions = _torch_convolutions()
            self.cell = nn.LSTMCell(64, 64)
            self.actor = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 7))
            self.critic = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    return Parts


TRAINERS: dict[str, Callable[[], Trainer]] = {
    "pbim": ours,
    "pbim-no-bonus": lambda: ours(bonus=False),
    "torch-ac": torch_ac,
    "sb3-contrib": sb3,
}


def main(name: str) -> None:
    """Build the trainer, then run and time what stdin asks for."""
    try:
        about, run = TRAINERS[name]()
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        clock, core = time.perf_counter(), core_seconds()
        run(int(line))
        print(time.perf_counter() - clock, core_seconds() - core, flush=True)


def core_seconds() -> float:
    """Return the processor time of every process in this session, children included."""
    ticks, session = 0, str(os.getsid(0))
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[3] == session:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(sys.argv[1])
