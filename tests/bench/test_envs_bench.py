"""The environment benchmark reports what it promises, with and without its peers. Speed is not a test's business."""

import builtins
import os
from typing import Any

import pytest
from benchmarks import envs
from benchmarks._timing import interleaved, one_core


def test_missing_peers_are_null_with_a_way_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    really = builtins.__import__

    def without_peers(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] in ("navix", "xminigrid", "minigrid"):
            raise ImportError(name)
        return really(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_peers)
    monkeypatch.setattr(envs, "STEPS", 32)
    report = envs.run(quick=True)
    assert report["steps_per_second"]["pbim"] > 0
    for peer in ("navix", "xminigrid", "farama"):
        assert report[f"ratio_{peer}"] is None
        assert report["missing"][peer] == "pip install -r benchmarks/requirements-envs.txt"


def test_ratios_are_quotients_of_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"pbim": [1.0, 2.0, 1.0], "farama": [10.0, 10.0, 10.0]}
    monkeypatch.setattr(envs, "_ours", lambda *_: {"pbim": envs.Workload(100, lambda: None)})
    monkeypatch.setattr(envs, "_farama", lambda *_: {"farama": envs.Workload(50, lambda: None)})
    monkeypatch.setattr(envs, "_navix", lambda *_: {})
    monkeypatch.setattr(envs, "_xminigrid", lambda *_: {})
    monkeypatch.setattr(envs, "interleaved", lambda *_, **__: seconds)
    report = envs.run(quick=True)
    assert report["ratio_farama"] == 20  # 100 steps a second against 5, in the middle round
    assert report["steps_per_second"]["pbim"] == 100
    assert report["ratio_navix"] is None
    assert set(report["missing"]) == {"navix", "xminigrid"}


def test_workloads_take_turns_after_a_warm_up() -> None:
    calls: list[str] = []
    seconds = interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2, at_least=0)
    assert calls == ["a", "b", "a", "b", "a", "b"]
    assert all(len(times) == 2 for times in seconds.values())


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads cannot be pinned here")
def test_one_core_is_one_core_and_is_given_back() -> None:
    before = os.sched_getaffinity(0)
    with one_core() as core:
        assert os.sched_getaffinity(0) == {core}
    assert os.sched_getaffinity(0) == before
