"""The benchmark measures ours always and says how to get a peer that is missing."""

import importlib.util
import json

import pytest
from benchmarks.intrinsic import HINT, run


@pytest.fixture(scope="module")
def result():
    return run(quick=True)


def test_every_case_is_measured_on_the_stated_rollout(result):
    assert result["shape"] == [128, 16, 147]
    assert result["cases"][-1]["distinct_observations"] == 1.0
    for case in result["cases"]:
        assert all(taken > 0 for taken in case["milliseconds"].values())
        assert {"ours_reward", "ours_update"} <= case["milliseconds"].keys()
    assert json.loads(json.dumps(result)) == result


def test_a_missing_peer_is_null_with_a_hint(result):
    if importlib.util.find_spec("rllte") is None:
        assert result["ratio_with_training"] is None
        assert result["ratio_without_training"] is None
        assert result["hint"] == HINT
    else:
        times = result["milliseconds"]
        ratio = times["peer_with_training"] / (times["ours_reward"] + times["ours_update"])
        assert result["ratio_with_training"] == pytest.approx(ratio, abs=0.01)
