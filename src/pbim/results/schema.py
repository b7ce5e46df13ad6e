"""What a run is called and what its rows are: the key of a configuration, and the columns of the metrics."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SCHEMA = 1
"""The version of everything in the folder; readers refuse a newer one."""

COLUMNS: dict[str, dict[str, str]] = {
    "q_learning": {"episode": "int32", "steps": "int64", "return": "float32", "length": "int32", "terminated": "bool"},
    "ppo": {
        "frames": "int64",
        "episodes": "int32",
        "goals": "int32",
        "truncations": "int32",
        **dict.fromkeys(("length", "extrinsic_return", "intrinsic_return", "shaping_return"), "float32"),
        **dict.fromkeys(("residual", "entropy", "value", "policy_loss", "value_loss", "gradient_norm"), "float32"),
    },
}
"""The columns every run of a learner has, with their NumPy types; more may follow.

q_learning has a row an episode (``steps`` are cumulative), ppo a row an update (means over the episodes that ended in
it, NaN if none did). Returns are undiscounted sums, lengths are in steps.
"""

UNITS = {"episode": "from 0", "steps": "steps so far", "frames": "steps of all environments so far", "length": "steps"}


def canonical(config: Mapping[str, Any]) -> str:
    """Return the one text of a configuration: sorted names, no spaces, no NaN.

    >>> canonical({"b": 1, "a": [0.5, None]})
    '{"a":[0.5,null],"b":1}'
    """
    return json.dumps(config, sort_keys=True, separators=(",", ":"), allow_nan=False)


def key_of(config: Mapping[str, Any]) -> str:
    """Return the name of a configuration's folder: 16 hexadecimal digits; any change of the configuration changes it.

    >>> key_of({"seed": 0}) == key_of({"seed": 1})
    False
    """
    return hashlib.sha256(canonical(config).encode()).hexdigest()[:16]
