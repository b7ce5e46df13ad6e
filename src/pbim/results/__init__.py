"""The results store: what a study leaves in its folder, written whole or not at all, read by anybody.

- ``study.json``: the plan: cells, seeds and keys, claims, what to plot.
- ``runs/KEY/``: one run; KEY is a hash of its ``config.json``, everything that determines the result.
  ``status.json``: state, seconds, versions, commit, command. ``metrics.parquet``: one row an episode (Q-learning) or an
  update (PPO). ``final.npz``: what was learnt. ``certificate.json``: how many episodes were checked, and
  the worst residual. ``checkpoint.pbim`` is there only while it runs.
- ``set-aside/``: what could not be read, by key.
"""

from pbim.results.schema import (
    COLUMNS as COLUMNS,
    SCHEMA as SCHEMA,
    UNITS as UNITS,
    canonical as canonical,
    key_of as key_of,
)
from pbim.results.store import (
    CERTIFICATE as CERTIFICATE,
    CHECKPOINT as CHECKPOINT,
    CONFIG as CONFIG,
    FINAL as FINAL,
    METRICS as METRICS,
    REPLAY as REPLAY,
    STATUS as STATUS,
    Corrupt as Corrupt,
    Run as Run,
    Store as Store,
    frame as frame,
    read_json as read_json,
    write_json as write_json,
)
