"""TorchRL: the transform pays what the arrays say, however TorchRL steps, resets, collects and saves."""

# ruff: noqa: E402 the packages of another environment come after the question whether they are there
import copy
import io
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

torchrl = pytest.importorskip("torchrl")

import torch
from gymnasium import Env, Wrapper, spaces
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of TorchRL's own classes
    from torchrl.collectors import Collector, MultiSyncCollector
from torchrl.data.tensor_specs import Unbounded
from torchrl.envs import GymEnv, GymWrapper, SerialEnv, StepCounter, TransformedEnv, check_env_specs
from torchrl.envs.libs.gym import default_info_dict_reader
from torchrl.envs.transforms import Compose, RewardClipping, RewardSum, RNDTransform
from torchrl.objectives.value import GAE

import pbim
from pbim.adapters.torchrl import ShapingTransform
from pbim.errors import GuidanceWarning, InputError
from pbim.testing import AdapterCase, check_adapter

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:torchrl", "ignore:.*:DeprecationWarning:torch")
GAMMA = 0.9
CONVERSIONS = [
    pbim.PBIM(gamma=GAMMA),
    pbim.GRM(gamma=GAMMA, delay=3),
    pbim.Geometric(gamma=GAMMA, rate=0.2),
    pbim.Mixture(members=(pbim.GRM(gamma=GAMMA, delay=2), pbim.PBIM(gamma=GAMMA))),
]
REWARDS = ("extrinsic_reward", "intrinsic_reward", "shaping_reward")


def position(step):
    """A bonus that reads the true successor."""
    return np.abs(step.next_obs[:, 0]) + step.obs[:, 1] ** 2


def rounded(step):
    return np.round(4 * step.next_obs).astype(int)


def cart_poles(number: int | None = 3, limit: int = 12, **wrapper: Any) -> Any:
    base = GymEnv("CartPole-v1") if number is None else SerialEnv(number, partial(GymEnv, "CartPole-v1"))
    settings = {"intrinsic": position, "shaping": CONVERSIONS[2], **wrapper}
    env = TransformedEnv(base, Compose(StepCounter(limit), ShapingTransform(**settings)))
    env.set_seed(0)
    torch.manual_seed(0)
    return env


def residuals(steps: Any, gamma: float = GAMMA) -> Any:
    """The discounted sums of F' over the finished episodes of steps (num_envs, T)."""
    shaped, ended = (steps["next", name][..., 0].T for name in ("shaping_reward", "done"))
    return pbim.residuals(shaped.double().numpy(), ended.numpy(), gamma)


class ArrayInfo(Wrapper[Any, Any, Any, Any]):
    """TorchRL reads infos that are arrays."""

    def reset(self, **options: Any) -> Any:
        obs, info = self.env.reset(**options)
        return obs, {name: np.array(value) for name, value in info.items()}

    def step(self, action: Any) -> Any:
        *rest, info = self.env.step(action)
        return *rest, {name: np.array(value) for name, value in info.items()}


def with_info(make: Any, **entries: Any) -> Any:
    spec = {name: Unbounded(shape, dtype=torch.float64) for name, shape in entries.items()}
    env = GymWrapper(ArrayInfo(make()))
    return env.set_info_dict_reader(default_info_dict_reader([*spec], spec=spec))


@pytest.mark.parametrize("kind", ["discrete", "box", "multidiscrete", "dict"])
def test_the_adapter_conforms(kind: str, record_property: Any) -> None:
    def run(case: AdapterCase) -> Any:
        lanes = [partial(with_info, make, at=(), action=(2,)) for make in case.envs]
        keys = ["where", "when"] if kind == "dict" else None
        transform = ShapingTransform(case.intrinsic, case.shaping, case.truncation, observation_keys=keys)
        env = TransformedEnv(SerialEnv(len(lanes), lanes), transform)
        data, rewards = env.reset(), []
        for time in range(case.steps):
            data = env.reset() if time == case.cut else data
            step, data = env.step_and_maybe_reset(env.rand_action(data))
            rewards.append(step["next", "reward"][:, 0].tolist())
        return list(zip(*rewards, strict=True))

    more = (
        {} if kind == "discrete" else {"lanes": 2, "steps": 30, "conversions": [pbim.PBIM(gamma=0.5, normalize=False)]}
    )
    worst = check_adapter(run, kind=kind, action_space=spaces.Box(-1, 1, (2,)), **more)
    record_property("residual", worst)
    record_property("adapter", "torchrl")
    assert worst < 1e-6


@pytest.mark.parametrize("number", [None, 3])
@pytest.mark.parametrize("shaping", [*CONVERSIONS, pbim.Raw(), pbim.NoBonus(), pbim.PIES(decay_steps=100)])
def test_the_specs_say_what_a_step_holds(number: int | None, shaping: Any) -> None:
    env = cart_poles(number, shaping=shaping)
    check_env_specs(env)
    steps = env.rollout(5)
    batch = () if number is None else (number,)
    for key, spec in env.observation_spec.items(True, True):
        assert steps["next"][key].shape == (*batch, 5, *spec.shape[len(batch) :])
    for name in REWARDS:
        assert steps["next", name].shape == (*batch, 5, 1)


def test_grm_keeps_its_memory_under_documented_keys() -> None:
    steps = cart_poles(2, shaping=pbim.GRM(gamma=GAMMA, delay=3)).rollout(4)
    assert {key: tuple(value.shape) for key, value in steps["pbim"].items()} == {
        "ledger": (2, 4, 1),
        "memory_0": (2, 4, 3),
        "memory_1": (2, 4, 1),
    }
    assert all(value.dtype == torch.float64 for value in steps["pbim"].values())


@pytest.mark.parametrize("shaping", CONVERSIONS)
def test_single_environments_reset_and_every_episode_cancels(shaping: Any) -> None:
    env = cart_poles(4, shaping=shaping)
    steps = env.rollout(120, break_when_any_done=False)
    done = steps["next", "done"][..., 0]
    assert (done.any(0) & ~done.all(0)).any()  # some ended alone
    left = residuals(steps)
    assert len(left) >= 40
    assert np.abs(left).max() < 1e-6
    report = env.transform[1].certificate()
    assert (report.ok, report.episodes, report.abandoned) == (True, len(left), 0)
    total = sum(steps["next", name] for name in ("extrinsic_reward", "shaping_reward"))
    torch.testing.assert_close(steps["next", "reward"], total)


def test_a_reset_in_the_middle_forgets_the_ledger_of_that_environment_alone() -> None:
    env = cart_poles(3, limit=50, shaping=pbim.PBIM(gamma=GAMMA, normalize=False))
    data = env.reset()
    for _ in range(3):
        _, data = env.step_and_maybe_reset(env.rand_action(data))
    before = data["pbim", "ledger"].clone()
    assert (before != 0).all()
    data["_reset"] = torch.tensor([[True], [False], [False]])
    after = env.reset(data)["pbim", "ledger"]
    assert after[0] == 0
    assert torch.equal(after[1:], before[1:])
    assert env.transform[1].certificate().abandoned == 1


def test_steps_go_on_from_the_tensordict_they_are_given() -> None:
    """Two branches from one tensordict have the ledger of that tensordict, not of what was stepped in between."""
    env = cart_poles(2, limit=50, shaping=pbim.GRM(gamma=GAMMA, delay=2, normalize=False))
    data = env.reset()
    for _ in range(3):
        _, data = env.step_and_maybe_reset(env.rand_action(data))
    data = env.rand_action(data)
    held = data.clone()
    transform, after = env.transform[1], env.step(data.clone())["next"]
    for _ in range(4):
        _, data = env.step_and_maybe_reset(env.rand_action(data))
    again = transform._step(held.clone(), after.clone().set("reward", after["extrinsic_reward"]))
    for key in ("shaping_reward", "reward", ("pbim", "ledger"), ("pbim", "memory_0")):
        torch.testing.assert_close(again[key], after[key])
    env.rollout(200, break_when_any_done=False, auto_reset=True)
    assert transform.certificate().ok  # what began elsewhere is not held against it


@pytest.mark.parametrize("truncation", ["settle", "bootstrap"])
@pytest.mark.parametrize("shaping", CONVERSIONS)
def test_a_batch_is_converted_as_step_by_step(shaping: Any, truncation: Any) -> None:
    bonus = pbim.LifetimeCount(beta=0.5, key=rounded)
    env = cart_poles(3, shaping=shaping, truncation=truncation, intrinsic=bonus)
    stepped = env.rollout(60, break_when_any_done=False)
    bare = stepped.exclude("pbim", ("next", "pbim"), *[("next", name) for name in REWARDS])
    bare["next", "reward"] = stepped["next", "extrinsic_reward"].clone()
    if truncation == "settle":  # what the environment said
        bare["next", "terminated"] = stepped["next", "terminated"] & ~stepped["next", "truncated"]
    offline = ShapingTransform(pbim.LifetimeCount(beta=0.5, key=rounded), shaping, truncation=truncation)
    parts = [offline(part) for part in (bare[:, :23].clone(), bare[:, 23:].clone())]  # cut in the middle of episodes
    batch = torch.cat(parts, 1)
    for key in ("reward", "terminated", *REWARDS, ("pbim", "ledger") if "ledger" in stepped["pbim"] else "done"):
        assert torch.equal(batch["next"][key], stepped["next"][key]), key
    assert offline.certificate() == env.transform[1].certificate()


def test_a_batch_is_refused_without_time_or_if_it_is_converted_already() -> None:
    transform = ShapingTransform(position, CONVERSIONS[0])
    with pytest.raises(InputError, match="must hold steps"):
        transform(TensorDict({"observation": torch.zeros(3, 4)}, [3]))
    with pytest.raises(InputError, match="already"):
        transform(cart_poles(2).rollout(3))


def test_what_an_end_is_follows_the_choice_and_the_estimator_stops_or_bootstraps_with_it() -> None:
    value = TensorDictModule(lambda obs: torch.ones_like(obs[..., :1]), ["observation"], ["state_value"])
    gae = GAE(gamma=GAMMA, lmbda=0.0, value_network=value, shifted=False)
    for truncation in ("settle", "bootstrap"):
        env = cart_poles(2, limit=4, truncation=truncation, shaping=pbim.PBIM(gamma=GAMMA))
        steps = env.rollout(4, break_when_any_done=False)
        last = steps[:, -1]["next"]
        assert last["truncated"].all()
        assert last["terminated"].all() == (truncation == "settle")
        target = gae(steps)["value_target"][:, -1]
        bootstrap = 0.0 if truncation == "settle" else GAMMA
        torch.testing.assert_close(target, last["reward"] + bootstrap)
        report = env.transform[1].certificate()
        assert (report.episodes, report.bootstrapped) == ((2, 0) if truncation == "settle" else (0, 2))
        assert report.ok == (truncation == "settle")


def test_f_bar_is_in_buffers_and_a_state_dict_carries_all_of_it() -> None:
    bonus = partial(pbim.LifetimeCount, beta=0.5, key=rounded)
    env, other = (cart_poles(3, shaping=pbim.PBIM(gamma=GAMMA), intrinsic=bonus()) for _ in range(2))
    first = env.rollout(40, break_when_any_done=False)
    assert env.transform[1].centre_count == 120
    torch.testing.assert_close(float(env.transform[1].centre_mean), first["next", "intrinsic_reward"].mean().item())
    file = io.BytesIO()
    torch.save(env.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    runs = []
    for each in (env, other):
        each.set_seed(1)
        torch.manual_seed(1)
        runs.append(each.rollout(40, break_when_any_done=False))
    for key in ("observation", "reward", "intrinsic_reward", "shaping_reward"):
        assert torch.equal(runs[0]["next", key], runs[1]["next", key]), key
    assert env.transform[1].certificate() == other.transform[1].certificate()


@pytest.mark.filterwarnings("ignore:one LifetimeCount learns in two")
@pytest.mark.parametrize("has_stepped", [True, False])
def test_a_clone_does_not_take_back_what_the_shared_bonus_has_learned(has_stepped: bool) -> None:
    saved = cart_poles(2, intrinsic=pbim.LifetimeCount(key=rounded))
    saved.rollout(10, break_when_any_done=False)
    bonus = pbim.LifetimeCount(key=rounded)
    env = cart_poles(2, intrinsic=bonus)
    if has_stepped:
        env.rollout(5, break_when_any_done=False)
    env.transform[1].load_state_dict(saved.transform[1].state_dict())
    other = TransformedEnv(SerialEnv(2, partial(GymEnv, "CartPole-v1")), env.transform[1].clone())
    env.rollout(100, break_when_any_done=False)
    other.rollout(5, break_when_any_done=False)
    assert bonus.state_dict()["value"].sum() == 2 * (10 + 100 + 5)


def test_a_frozen_transform_learns_nothing_and_still_cancels() -> None:
    bonus = pbim.LifetimeCount(beta=0.5, key=rounded)
    env = cart_poles(2, intrinsic=bonus, shaping=pbim.PBIM(gamma=GAMMA))
    env.rollout(30, break_when_any_done=False)
    transform = env.transform[1]
    before, learned, report = copy.deepcopy(transform.centre_mean), bonus.state_dict(), transform.certificate()
    transform.frozen = True
    steps = env.rollout(60, break_when_any_done=False)
    assert np.abs(residuals(steps)).max() < 1e-6
    assert transform.centre_mean == before
    assert all(np.array_equal(array, learned[name]) for name, array in bonus.state_dict().items())
    transform.frozen = False
    assert transform.certificate().episodes == report.episodes
    env.rollout(30, break_when_any_done=False)
    assert transform.certificate().episodes > report.episodes
    assert transform.certificate().ok


def test_a_collector_cuts_episodes_into_batches_and_they_cancel_all_the_same() -> None:
    env = cart_poles(3, limit=17, shaping=pbim.GRM(gamma=GAMMA, delay=4))
    collector = Collector(env, frames_per_batch=15, total_frames=600, auto_register_policy_transforms=False)
    steps = torch.cat([batch.clone() for batch in collector], -1)
    assert env.transform[1].certificate().ok
    assert len(residuals(steps)) > 30
    assert np.abs(residuals(steps)).max() < 1e-6
    assert env.transform[1].centre_count == 600
    collector.shutdown()


def test_a_transform_in_each_environment_of_a_batch_cancels() -> None:
    steps = SerialEnv(3, partial(cart_poles, None, limit=9)).rollout(60, break_when_any_done=False)
    left = residuals(steps)
    assert len(left) >= 18
    assert np.abs(left).max() < 1e-6


def test_collectors_in_other_processes_cancel_and_each_has_its_part_of_f_bar() -> None:
    make = partial(cart_poles, 2, limit=9)
    collector = MultiSyncCollector([make, make], frames_per_batch=40, total_frames=200, cat_results=0, use_buffers=True)
    try:
        steps = torch.cat([batch.clone() for batch in collector], 1)
        states = collector.state_dict()
    finally:
        collector.shutdown()
    assert steps.shape == (4, 50)
    left = residuals(steps)
    assert len(left) >= 20
    assert np.abs(left).max() < 1e-6
    means = [_centre(states[worker]["env_state_dict"]) for worker in ("worker0", "worker1")]
    merged = pbim.shaping.merge_means(*means)
    assert merged.count == 200
    assert float(merged.mean) == pytest.approx(steps["next", "intrinsic_reward"].mean().item(), rel=1e-5)


def _centre(state: Any) -> Any:
    found = {key.split(".")[-1]: float(value) for key, value in state.items() if "centre" in key}
    return pbim.shaping.Mean(found["centre_count"], found["centre_mean"])


def test_the_bonus_of_torchrl_itself_is_converted() -> None:
    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))

    torch.manual_seed(0)
    shaping = pbim.GRM(gamma=GAMMA, delay=3)
    rnd, transform = RNDTransform(network(), network()), ShapingTransform("intrinsic_reward", shaping)
    env = TransformedEnv(SerialEnv(3, partial(GymEnv, "CartPole-v1")), Compose(StepCounter(12), rnd, transform))
    check_env_specs(env)
    steps = env.rollout(60, break_when_any_done=False)
    assert (steps["next", "intrinsic_reward"] > 0).all()
    assert np.abs(residuals(steps)).max() < 1e-6
    assert transform.certificate().ok


def test_a_learned_bonus_of_ours_is_converted() -> None:
    pytest.importorskip("jax")
    env = cart_poles(3, intrinsic=pbim.RND(hidden=(8,), features=4), update_every=5)
    steps = env.rollout(40, break_when_any_done=False)
    assert (steps["next", "intrinsic_reward"] > 0).all()
    assert np.abs(residuals(steps)).max() < 1e-6


class Dense(Env[Any, Any]):
    """Continuous actions, a goal, and a dense reward in info."""

    observation_space, action_space = spaces.Box(-9, 9, (1,)), spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self.place = np.zeros(1, np.float32)
        return self.place, {"dense": 0.0}

    def step(self, action: Any) -> Any:
        self.place = self.place + np.float32(0.5 + 0.5 * action[0])
        over = bool(self.place[0] > 3)
        return self.place, float(over), over, False, {"dense": float(self.place[0]) / 4}


@pytest.mark.parametrize("term", ["dense", lambda step: step.info["dense"]])
def test_a_dense_reward_of_the_environment_is_converted(term: Any) -> None:
    env = TransformedEnv(with_info(Dense, dense=()), ShapingTransform(term, pbim.Geometric(gamma=GAMMA)))
    check_env_specs(env)
    steps = env.rollout(80, break_when_any_done=False)
    assert torch.equal(steps["next", "intrinsic_reward"][:, 0], steps["next", "dense"].float())
    shaped, ended = (steps["next", name][..., 0].numpy() for name in ("shaping_reward", "done"))
    assert np.abs(pbim.residuals(shaped.astype(float), ended, GAMMA)).max() < 1e-6
    assert env.transform.certificate().ok


def test_the_numbers_are_those_of_the_gymnasium_wrapper() -> None:
    import gymnasium

    shaping, actions = pbim.GRM(gamma=GAMMA, delay=2), np.random.default_rng(0).integers(0, 4, 60)
    make = partial(gymnasium.make, "CliffWalking-v1", max_episode_steps=25)
    one = pbim.wrap(make(), pbim.EpisodicCount(alpha=0.5), shaping)
    env = TransformedEnv(GymWrapper(make()), ShapingTransform(pbim.EpisodicCount(alpha=0.5), shaping))
    one.reset(seed=0)
    env.set_seed(0)
    data = env.reset()
    for action in actions:
        _, reward, terminated, truncated, info = one.step(action)
        if terminated or truncated:
            one.reset()
        data["action"] = nn.functional.one_hot(torch.tensor(action), 4)
        step, data = env.step_and_maybe_reset(data)
        assert step["next", "reward"].item() == pytest.approx(reward, rel=1e-5)
        assert step["next", "intrinsic_reward"].item() == pytest.approx(info["intrinsic_reward"])


def test_thousands_of_environments() -> None:
    steps = 30
    generator = torch.Generator().manual_seed(0)
    content = {
        "observation": torch.rand(4096, steps, 2, generator=generator),
        "action": torch.zeros(4096, steps, 1),
        "next": {
            "observation": torch.rand(4096, steps, 2, generator=generator),
            "reward": torch.zeros(4096, steps, 1),
            "terminated": torch.rand(4096, steps, 1, generator=generator) < 0.1,
            "truncated": torch.zeros(4096, steps, 1, dtype=torch.bool),
        },
    }
    content["next"]["done"] = content["next"]["terminated"].clone()
    transform = ShapingTransform(position, pbim.Geometric(gamma=0.99))
    out = transform(TensorDict(content, [4096, steps]))
    left = residuals(out, 0.99)
    assert len(left) > 10_000
    assert np.abs(left).max() < 1e-6
    assert transform.certificate().ok


def test_a_learner_with_another_gamma_is_refused(capsys: Any) -> None:
    transform = ShapingTransform(position, pbim.Geometric(gamma=0.99))
    said = transform.check_learner(GAE(gamma=0.99, lmbda=0.9, value_network=None))
    assert said.startswith(f"guidance {pbim.Geometric(gamma=0.99).guidance(0.9):.2f} at lambda 0.9 ")
    assert capsys.readouterr().err == f"pbim: {said}\n"
    with pytest.warns(GuidanceWarning, match="will hardly guide"):
        transform.check_learner(GAE(gamma=0.99, lmbda=1.0, value_network=None))
    with pytest.raises(InputError, match=r"received 0\.89\d* in GAE and 0\.99 in Geometric"):
        transform.check_learner(GAE(gamma=0.9, lmbda=0.9, value_network=None))
    with pytest.raises(InputError, match="must be a value estimator"):
        transform.check_learner(object())


@pytest.mark.parametrize(("alpha", "owes"), [(0.01, False), (50.0, True)])
def test_ends_that_take_back_more_than_the_task_pays_are_warned_of(alpha: float, owes: bool) -> None:
    """CartPole pays 1 per step and an episode of n steps owes more than n - 1 bonuses."""
    shaping = pbim.PBIM(gamma=0.99, normalize=False)
    transform = ShapingTransform(lambda step: np.full(len(step.terminated), alpha), shaping)
    transform.check_learner(GAE(gamma=0.99, lmbda=0.9, value_network=None))
    env = TransformedEnv(SerialEnv(2, lambda: GymEnv("CartPole-v1")), transform)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env.rollout(120, break_when_any_done=False)
    found = [str(each.message) for each in caught if "takes back more than the task pays" in str(each.message)]
    assert len(found) == owes
    assert transform.certificate().ok


def test_what_would_break_the_cancellation_is_refused_or_said() -> None:
    late = TransformedEnv(GymEnv("CartPole-v1"), Compose(ShapingTransform(position, CONVERSIONS[0]), StepCounter(5)))
    with pytest.raises(InputError, match="append ShapingTransform last"):
        late.reset()
    transform = ShapingTransform(position, CONVERSIONS[0])
    clipped = TransformedEnv(GymEnv("CartPole-v1"), Compose(transform, RewardClipping(-1, 1)))
    with pytest.warns(UserWarning, match="RewardClipping outside"):
        clipped.reset()
    clipped.rollout(300)
    assert not transform.certificate().ok
    summed = TransformedEnv(GymEnv("CartPole-v1"), Compose(ShapingTransform(position, CONVERSIONS[0]), RewardSum()))
    summed.rollout(3)  # sums change nothing
    with pytest.raises(InputError, match="continue"):
        ShapingTransform(position, CONVERSIONS[0], truncation="continue")
    with pytest.raises(InputError, match="must name an entry"):
        TransformedEnv(GymEnv("CartPole-v1"), ShapingTransform("missing", CONVERSIONS[0])).rollout(2)
    env = cart_poles(None)
    with pytest.raises(InputError, match=r"env\.reset"):
        env.step(env.rand_action(env.reset()).exclude("pbim"))
