"""F -> F': conversions of a bonus, pure functions of arrays with explicit state."""

from pbim.shaping._adops import ADOPS_GUARANTEE as ADOPS_GUARANTEE, adopes as adopes, adops as adops
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
from pbim.shaping._custom import Custom as Custom
from pbim.shaping._ledger import (
    GRM as GRM,
    PBIM as PBIM,
    Geometric as Geometric,
    Ledger as Ledger,
    LedgerState as LedgerState,
)
from pbim.shaping._mixture import Mixture as Mixture
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
from pbim.shaping._shaping import (
    Guarantee as Guarantee,
    Level as Level,
    Shaping as Shaping,
    State as State,
    check_gamma as check_gamma,
)

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
    "ExponentialMean",
    "ExpressedAdvice",
    "FixedMean",
    "Geometric",
    "Guarantee",
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
    "adopes",
    "adops",
    "advised_values",
    "check_gamma",
    "load_arrays",
    "load_state",
    "merge_means",
    "save_state",
    "state_arrays",
]

CONVERSIONS: dict[str, type[Shaping]] = {
    "pbim": PBIM,
    "grm": GRM,
    "geometric": Geometric,
    "bounded": Bounded,
    "mixture": Mixture,
    "custom": Custom,
    "raw": Raw,
    "none": NoBonus,
    "pies": PIES,
    "pbrs": PBRS,
    "look-ahead": LookAhead,
    "look-back": LookBack,
    "expressed-advice": ExpressedAdvice,
}
"""Every conversion behind the init / step / rollout interface, by the name the command line knows it by."""

GUARANTEES: dict[str, tuple[str, Guarantee]] = {
    **{name: (kind.summary, kind.guarantee) for name, kind in CONVERSIONS.items()},
    "adops": ("corrects the bonus where two critics say it would change the preferred action", ADOPS_GUARANTEE),
    "adopes": ("the same, with a coefficient that rises to one", ADOPS_GUARANTEE),
}
"""What every conversion does and what it promises, for help texts, documents and reports."""
