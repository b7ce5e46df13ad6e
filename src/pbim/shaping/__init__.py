"""F -> F': conversions of a bonus, pure functions of arrays with explicit state."""

from pbim.shaping._adops import ADOPS_GUARANTEE as ADOPS_GUARANTEE, adopes as adopes, adops as adops
from pbim.shaping._advice import (
    announce_guidance as announce_guidance,
    recommended as recommended,
    warn_of_debt as warn_of_debt,
)
from pbim.shaping._baselines import PIES as PIES, NoBonus as NoBonus, Raw as Raw
from pbim.shaping._bounded import Bounded as Bounded
from pbim.shaping._centring import (
    BlockMean as BlockMean,
    Centring as Centring,
    ExponentialMean as ExponentialMean,
    FixedMean as FixedMean,
    Mean as Mean,
    PreviousRollout as PreviousRollout,
    RunningMean as RunningMean,
    merge_means as merge_means,
)
from pbim.shaping._checks import check_gamma as check_gamma
from pbim.shaping._custom import Custom as Custom
from pbim.shaping._geometric import Geometric as Geometric
from pbim.shaping._grm import GRM as GRM
from pbim.shaping._guarantee import Guarantee as Guarantee, Level as Level
from pbim.shaping._inexact import InexactPBIM as InexactPBIM
from pbim.shaping._ledger import Ledger as Ledger, LedgerState as LedgerState
from pbim.shaping._mixture import Mixture as Mixture
from pbim.shaping._pbim import PBIM as PBIM
from pbim.shaping._potentials import (
    PBRS as PBRS,
    ExpressedAdvice as ExpressedAdvice,
    LookAhead as LookAhead,
    LookBack as LookBack,
    advised_values as advised_values,
)
from pbim.shaping._save import (
    load_arrays as load_arrays,
    load_state as load_state,
    save_state as save_state,
    state_arrays as state_arrays,
)
from pbim.shaping._schedule import Debt as Debt
from pbim.shaping._shaping import Shaping as Shaping, State as State
from pbim.shaping._stepper import Stepper as Stepper

__all__ = [
    "ADOPS_GUARANTEE",
    "GRM",
    "PBIM",
    "PBRS",
    "PIES",
    "BlockMean",
    "Bounded",
    "Centring",
    "Custom",
    "Debt",
    "ExponentialMean",
    "ExpressedAdvice",
    "FixedMean",
    "Geometric",
    "Guarantee",
    "InexactPBIM",
    "Ledger",
    "LedgerState",
    "Level",
    "LookAhead",
    "LookBack",
    "Mean",
    "Mixture",
    "NoBonus",
    "PreviousRollout",
    "Raw",
    "RunningMean",
    "Shaping",
    "State",
    "Stepper",
    "adopes",
    "adops",
    "advised_values",
    "announce_guidance",
    "check_gamma",
    "load_arrays",
    "load_state",
    "merge_means",
    "recommended",
    "save_state",
    "state_arrays",
    "warn_of_debt",
]
