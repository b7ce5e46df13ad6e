"""The results store: what a study leaves in its folder, written whole or not at all, read by anybody.

- ``study.json``: the plan: cells, seeds and keys, claims, what to plot.
- ``runs/KEY/``: one run; KEY is a hash of its ``config.json``, everything that determines the result.
  ``status.json``: state, seconds, versions, commit, command. ``metrics.parquet``: one row per episode (Q-learning) or
  per update (PPO). ``final.npz``: what the agent is at the end. ``certificate.json``: how many episodes were checked,
  and the worst residual. ``checkpoint.pbim`` is there only while it runs.
- ``SHA256SUMS``: beside the plan and in every finished run, the checksums of the files there.
- ``set-aside/``: what could not be read, by key.
"""

from pbim._extras import require

require("pbim.results", "polars", "msgspec")

from pbim.results.checksums import CHECKSUMS as CHECKSUMS, write_checksums as write_checksums  # noqa: E402
from pbim.results.comparisons import AFTER as AFTER, comparisons as comparisons  # noqa: E402
from pbim.results.plans import union as union  # noqa: E402
from pbim.results.records import (  # noqa: E402 - the sentence about a missing extra comes first
    SCHEMA as SCHEMA,
    Claim as Claim,
    Column as Column,
    Corrupt as Corrupt,
    GridMap as GridMap,
    Group as Group,
    HeatPlan as HeatPlan,
    PaperRow as PaperRow,
    PaperTable as PaperTable,
    Plan as Plan,
    PlannedCell as PlannedCell,
    PlannedRun as PlannedRun,
    RunCertificate as RunCertificate,
    Status as Status,
    read_record as read_record,
    write_json as write_json,
)
from pbim.results.store import (  # noqa: E402
    CERTIFICATE as CERTIFICATE,
    CHECKPOINT as CHECKPOINT,
    CONFIG as CONFIG,
    FINAL as FINAL,
    METRICS as METRICS,
    REPLAY as REPLAY,
    RUNS as RUNS,
    SET_ASIDE as SET_ASIDE,
    STATUS as STATUS,
    STUDY as STUDY,
    Run as Run,
    Store as Store,
    frame as frame,
    read_final as read_final,
    read_table as read_table,
    write_table as write_table,
)
