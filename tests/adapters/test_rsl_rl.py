"""RSL-RL: its PPO stores the task and F', the ledger stays open where it adds gamma V, and all of it is saved."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("rsl_rl")

import torch
from gymnasium import spaces
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

import pbim
from pbim.adapters.rsl_rl import ShapedPPO
from pbim.errors import GuidanceWarning, InputError
from pbim.testing import AdapterCase, check_adapter

GAMMA = 0.97
NAME = "pbim.adapters.rsl_rl:ShapedPPO"
GEOMETRIC = {"kind": "geometric", "rate": 0.1}
RND = {"weight": 1.0, "num_outputs": 4, "predictor_hidden_dims": [8], "target_hidden_dims": [8]}


class Corridor(VecEnv):
    """Walk to the end of a corridor before time is over; environments reset themselves, as those of Isaac Lab do."""

    num_actions, device, step_dt, goal = 1, "cpu", 1.0, 1.5

    def __init__(self, num_envs: int = 8, limit: int = 12, final_obs: bool = False) -> None:
        self.num_envs, self.max_episode_length, self.cfg, self._final = num_envs, limit, {}, final_obs
        self.unwrapped = self
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.place = self._start()
        self.extras: dict[str, Any] = {"log": {"/steps": 1.0}}

    def _start(self) -> torch.Tensor:
        return -torch.rand(self.num_envs)

    def get_observations(self) -> TensorDict:
        time = self.episode_length_buf / self.max_episode_length
        content = {"policy": torch.stack([self.place, time], 1), "more": self.place[:, None].clone()}
        return TensorDict(content, [self.num_envs])

    def step(self, actions: torch.Tensor) -> Any:
        self.place = self.place + torch.sigmoid(actions[:, 0]) * torch.rand(self.num_envs)
        self.episode_length_buf += 1
        arrived = self.place > self.goal
        late = (self.episode_length_buf >= self.max_episode_length) & ~arrived
        over, rewards = arrived | late, arrived.float() - 0.01
        self.extras |= {"time_outs": late, "dense": self.place / self.goal, "cell": (4 * self.place).long()}
        if self._final:
            self.extras["final_obs"] = self.get_observations()
        self.place = torch.where(over, self._start(), self.place)
        self.episode_length_buf[over] = 0
        return self.get_observations(), rewards, over.long(), self.extras


def config(steps: int = 24, **algorithm: Any) -> dict[str, Any]:
    model = {"class_name": "MLPModel", "hidden_dims": [8], "activation": "elu"}
    gaussian = {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}}
    ppo = {"class_name": NAME, "gamma": GAMMA, "num_learning_epochs": 1, "num_mini_batches": 2}
    return {
        "algorithm": {**ppo, **algorithm},
        "actor": {**model, **gaussian},
        "critic": dict(model),
        "obs_groups": {"actor": ["policy"], "critic": ["policy"], "rnd_state": ["policy"]},
        "num_steps_per_env": steps,
        "save_interval": 100,
    }


class Recording(ShapedPPO):
    """Keep what each rollout stored, with the gamma V of time-outs taken out again."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.rows: list[tuple[torch.Tensor, ...]] = []

    def process_env_step(self, obs: Any, rewards: Any, dones: Any, extras: Any) -> None:
        values, step = self.transition.values[:, 0].clone(), self.storage.step
        super().process_env_step(obs, rewards, dones, extras)
        late = extras["time_outs"]
        learner = self.storage.rewards[step, :, 0] - self.gamma * values * late
        kept = (
            learner.double() - rewards.double(),
            dones.bool(),
            late.clone(),
            getattr(self, "intrinsic_rewards", late),
        )
        self.rows.append(kept)

    def stream(self) -> list[Any]:
        return [torch.stack(column).numpy() for column in zip(*self.rows, strict=True)]


def trained(env: Corridor, iterations: int = 3, steps: int = 24, log_dir: Any = None, **algorithm: Any) -> Any:
    torch.manual_seed(0)
    settings = {"class_name": Recording, "shaping": GEOMETRIC, **algorithm}
    runner = OnPolicyRunner(env, config(steps, **settings), log_dir=log_dir)
    runner.learn(iterations, init_at_random_ep_len=False)
    return runner


def terminated_residuals(algorithm: Any) -> Any:
    shaped, over, late, _ = algorithm.stream()
    return pbim.residuals(shaped, over, GAMMA)[~late[over]] / max(1.0, np.abs(shaped).max())


BONUSES = {
    "their RND": {"rnd_cfg": RND},
    "a term of extras": {"intrinsic": "dense"},
    "a function": {"intrinsic": lambda step: np.abs(step.next_obs).sum(1) + step.info["dense"]},
    "one of ours": {
        "intrinsic": pbim.LifetimeCount(beta=0.5, key=lambda step: np.round(4 * step.next_obs).astype(int))
    },
    "settings of one of ours": {"intrinsic": {"kind": "lifetime-count", "key": "cell"}, "observations": ["more"]},
}


@pytest.mark.parametrize("bonus", BONUSES)
def test_every_terminated_episode_cancels_in_what_is_stored(bonus: str) -> None:
    runner = trained(Corridor(16), **BONUSES[bonus])
    left, (shaped, over, late, _) = terminated_residuals(runner.alg), runner.alg.stream()
    assert len(left) > 10
    assert np.abs(left).max() < 1e-6
    assert np.abs(shaped).max() > 0.01
    report = runner.alg.certificate()
    assert report.ok
    assert (report.episodes, report.bootstrapped) == (len(left), late.sum())
    assert late[over].any()


@pytest.mark.parametrize("groups", [None, ["policy", "more"]])
def test_a_learned_bonus_of_ours_is_converted(groups: Any) -> None:
    pytest.importorskip("jax")
    bonus = pbim.RND(hidden=(8,), features=4, encode=pbim.intrinsic.concatenate if groups else pbim.intrinsic.flatten)
    runner = trained(Corridor(8), intrinsic=bonus, observations=groups, update_every=8)
    assert np.abs(terminated_residuals(runner.alg)).max() < 1e-6


def test_thousands_of_environments() -> None:
    runner = trained(Corridor(4096), iterations=1, steps=30, intrinsic="dense")
    left = terminated_residuals(runner.alg)
    assert len(left) > 4000
    assert np.abs(left).max() < 1e-6


def test_their_rnd_is_converted_not_added() -> None:
    """The numbers are those of the conversion on the raw bonuses, with the ledger forgotten after a time-out."""
    runner = trained(Corridor(4), rnd_cfg=RND, shaping={"kind": "grm", "delay": 3, "normalize": False})
    shaped, over, late, raw = runner.alg.stream()
    conversion = pbim.GRM(gamma=GAMMA, delay=3, normalize=False)
    state = conversion.init(4, like=np.zeros(1, np.float32))
    for row in range(len(shaped)):
        state, expected = conversion.step(state, raw[row], over[row] & ~late[row])
        np.testing.assert_allclose(shaped[row], expected, atol=1e-5)
        state = conversion.discard(state, late[row])
    assert (raw > 0).all()


def test_the_adapter_conforms(record_property: Any) -> None:
    class Scripted(VecEnv):
        num_actions, device, max_episode_length, cfg = 2, "cpu", 10, {}

        def __init__(self, case: AdapterCase) -> None:
            self.envs = [make() for make in case.envs]
            self.num_envs, self.episode_length_buf = len(self.envs), torch.zeros(len(self.envs))
            self.obs = self._reset(range(self.num_envs), np.zeros((self.num_envs, 2), np.float32))

        def _reset(self, which: Any, obs: Any) -> Any:
            obs = obs.copy()
            for index in which:
                obs[index] = self.envs[index].reset()[0]
            return obs

        def get_observations(self) -> TensorDict:
            return TensorDict({"policy": torch.tensor(self.obs)}, [self.num_envs])

        def step(self, actions: torch.Tensor) -> Any:
            steps = [env.step(action) for env, action in zip(self.envs, actions.numpy(), strict=True)]
            self.obs, rewards, terminated, truncated = (np.array(part) for part in list(zip(*steps, strict=True))[:4])
            extras = {
                "time_outs": torch.tensor(truncated & ~terminated),
                "final_obs": self.get_observations(),
                "at": torch.tensor([info["at"] for *_, info in steps]),
                "action": actions,
            }
            over = terminated | truncated
            self.obs = self._reset(np.flatnonzero(over), self.obs)
            return self.get_observations(), torch.tensor(rewards).float(), torch.tensor(over), extras

    def run(case: AdapterCase) -> Any:
        env, gamma = Scripted(case), float(case.shaping.gamma or 1)
        settings = config(case.steps, intrinsic=case.intrinsic, shaping=case.shaping, gamma=gamma)
        algorithm = ShapedPPO.construct_algorithm(env.get_observations(), env, {**settings, "multi_gpu": None}, "cpu")
        with torch.inference_mode():
            for _ in range(case.steps):
                actions = algorithm.act(env.get_observations())
                algorithm.transition.values = torch.zeros(env.num_envs, 1)  # no gamma V in what is stored
                algorithm.process_env_step(*env.step(actions))
        return algorithm.storage.rewards[..., 0].T.tolist()

    worst = check_adapter(run, kind="box", action_space=spaces.Box(-1, 1, (2,)), truncations=["bootstrap"], cut=False)
    record_property("residual", worst)
    record_property("adapter", "rsl_rl")
    assert worst < 1e-6


@pytest.mark.parametrize("final_obs", [False, True])
def test_no_bonus_sees_the_next_episode(final_obs: bool) -> None:
    places: list[Any] = []

    def watch(step: Any) -> Any:
        over = step.terminated | step.truncated
        places.extend(zip(step.obs[over], step.next_obs[over], strict=True))
        return np.ones(len(over))

    trained(Corridor(8, final_obs=final_obs), intrinsic=watch)
    assert len(places) > 10
    for before, after in places:
        assert after[1] == pytest.approx(before[1] + 1 / 12 if final_obs else before[1])  # the clock was not reset
        assert after[0] >= before[0]


def test_a_time_out_that_is_also_an_end_is_left_open_because_the_learner_adds_gamma_v() -> None:
    env = Corridor(2)
    algorithm = trained(env, iterations=1, intrinsic="dense", shaping={"kind": "pbim", "normalize": False}).alg
    algorithm.rewards.restart()
    obs, yes = env.get_observations(), torch.ones(2)
    extras = {"time_outs": torch.tensor([True, False]), "dense": torch.tensor([0.5, 0.5])}
    for dones in (torch.zeros(2), yes):
        with torch.inference_mode():
            algorithm.act(obs)
            late = extras["time_outs"] & (dones > 0)
            algorithm.process_env_step(obs, torch.zeros(2), dones, {**extras, "time_outs": late})
    np.testing.assert_allclose(algorithm.rows[-1][0], [0.5, -0.5 / GAMMA], rtol=1e-6)
    assert (algorithm.rewards.conversion_state()["ledger"] == 0).all()


def test_without_a_bonus_it_is_the_same_learner() -> None:
    """With NoBonus the weights after training are those of RSL-RL's own PPO."""
    runners = []
    for algorithm in ({"intrinsic": "dense", "shaping": pbim.NoBonus()}, {"class_name": PPO}):
        torch.manual_seed(0)
        env = Corridor(8)
        runner = OnPolicyRunner(env, config(**algorithm))
        runner.learn(2)
        runners.append(runner)
    weights = [list(runner.alg.actor.state_dict().values()) for runner in runners]
    assert all(torch.equal(*pair) for pair in zip(*weights, strict=True))


def test_the_log_shows_returns_and_certificate_once_per_iteration(tmp_path: Any) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    runner = trained(Corridor(16), log_dir=str(tmp_path), rnd_cfg=RND)
    log = EventAccumulator(str(tmp_path)).Reload()
    tags = {tag for tag in log.Tags()["scalars"] if tag.startswith("pbim/")}
    returns = {f"pbim/{name}_return" for name in ("extrinsic", "intrinsic")}
    shaping = {f"pbim/shaping_return_{name}" for name in ("discounted", "undiscounted")}
    episodes = {f"pbim/episodes_{name}" for name in ("certified", "bootstrapped", "abandoned")}
    assert tags == {*returns, *shaping, *episodes, "pbim/certificate_ok", "pbim/certificate_worst"}
    certified = [event.value for event in log.Scalars("pbim/episodes_certified")]
    assert len(certified) == 3
    assert certified[-1] == runner.alg.certificate().episodes
    assert [event.value for event in log.Scalars("pbim/certificate_ok")] == [1, 1, 1]
    assert "/steps" in log.Tags()["scalars"]  # what the environment logs itself stays


def saved(tmp_path: Any) -> tuple[Any, Any]:
    bonus = pbim.LifetimeCount(beta=0.5, key=lambda step: np.round(4 * step.next_obs).astype(int))
    runner = trained(Corridor(8), intrinsic=bonus)
    runner.save(str(tmp_path / "model.pt"))
    return runner, bonus


def test_a_saved_training_goes_on_with_ledger_f_bar_bonus_and_certificate(tmp_path: Any) -> None:
    runner, bonus = saved(tmp_path)
    env = Corridor(8)
    env.place, env.episode_length_buf = runner.env.place.clone(), runner.env.episode_length_buf.clone()
    other = trained(env, iterations=0, intrinsic=bonus)
    other.load(str(tmp_path / "model.pt"))
    old, new = (each.alg.rewards.state_dict() for each in (runner, other))
    assert (old["shaping.ledger"] != 0).any()
    assert old.keys() == new.keys()
    assert all(np.array_equal(old[name], new[name]) for name in old)
    other.learn(2)
    assert other.alg.certificate().ok


def test_environments_that_begin_anew_begin_without_a_ledger(tmp_path: Any) -> None:
    runner, bonus = saved(tmp_path)
    other = trained(Corridor(8), iterations=0, intrinsic=bonus)
    other.load(str(tmp_path / "model.pt"))
    old, new = (each.alg.rewards.state_dict() for each in (runner, other))
    assert (new["shaping.ledger"] == 0).all()
    assert new["shaping.centre.mean"] == old["shaping.centre.mean"]
    assert new["episodes.abandoned"] > 0
    other.learn(2)
    assert np.abs(terminated_residuals(other.alg)).max() < 1e-6


@pytest.mark.parametrize("num_envs", [3, 20])
def test_another_number_of_environments_keeps_what_they_share(tmp_path: Any, num_envs: int) -> None:
    runner, bonus = saved(tmp_path)
    other = trained(Corridor(num_envs), iterations=0, intrinsic=bonus)
    other.load(str(tmp_path / "model.pt"))
    old, new = (each.alg.rewards.state_dict() for each in (runner, other))
    assert new["shaping.centre.mean"] == old["shaping.centre.mean"]
    assert other.alg.certificate() == runner.alg.certificate()
    assert all(np.array_equal(old[name], new[name]) for name in old if name.startswith("intrinsic."))
    other.learn(2)
    assert np.abs(terminated_residuals(other.alg)).max() < 1e-6


def test_a_checkpoint_of_plain_ppo_can_be_gone_on_from(tmp_path: Any) -> None:
    plain = OnPolicyRunner(Corridor(8), config(class_name=PPO))
    plain.learn(1)
    plain.save(str(tmp_path / "model.pt"))
    runner = trained(Corridor(8), iterations=0, intrinsic="dense")
    runner.load(str(tmp_path / "model.pt"))
    runner.learn(1)
    assert runner.alg.certificate().ok


def test_the_class_is_found_by_name_and_the_default_conversion_has_ppos_gamma() -> None:
    runner = OnPolicyRunner(Corridor(4), config(intrinsic="dense"))
    assert runner.alg.rewards.shaping == pbim.shaping.recommended(GAMMA)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "received neither"),
        ({"intrinsic": "dense", "rnd_cfg": RND}, "received both"),
        ({"intrinsic": "dense", "shaping": pbim.PBIM(gamma=0.9)}, r"received 0\.97 in PPO and 0\.9 in PBIM"),
        ({"intrinsic": "dense", "shaping": {"kind": "geometrik"}}, "geometric"),
        ({"intrinsic": "dense", "shaping": {"kind": "geometric", "speed": 1}}, "settings of Geometric"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        OnPolicyRunner(Corridor(2), config(**settings))


def test_the_guidance_is_printed_and_a_weak_one_or_a_large_debt_is_warned_of(capsys: Any) -> None:
    shaping = pbim.GRM(gamma=GAMMA, delay=1)
    with pytest.warns(GuidanceWarning, match="will hardly guide this learner"):
        trained(Corridor(), 1, intrinsic="dense", shaping=shaping, lam=0.9)
    assert f"pbim: guidance {shaping.guidance(0.9, rollout=24):.2f} at lambda 0.9" in capsys.readouterr().err
    with pytest.warns(GuidanceWarning, match="takes back more than the task pays: PBIM"):
        trained(Corridor(), 1, intrinsic="dense", shaping=pbim.PBIM(gamma=GAMMA, normalize=False), lam=0.9)


def test_a_term_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"intrinsic='missing' must name an entry.*dense"):
        trained(Corridor(2), intrinsic="missing")
