from . import (
    adapters as adapters,
    agents as agents,
    config as config,
    envs as envs,
    errors as errors,
    intrinsic as intrinsic,
    report as report,
    results as results,
    shaping as shaping,
    studies as studies,
    testing as testing,
    training as training,
    verification as verification,
)
from .adapters import wrap as wrap
from .errors import (
    GuidanceWarning as GuidanceWarning,
    InputError as InputError,
    InputTypeError as InputTypeError,
    MissingExtraError as MissingExtraError,
    RepaymentWarning as RepaymentWarning,
)
from .intrinsic import (
    DIAYN as DIAYN,
    E3B as E3B,
    ICM as ICM,
    NGU as NGU,
    RE3 as RE3,
    RIDE as RIDE,
    RND as RND,
    ActionRecency as ActionRecency,
    Disagreement as Disagreement,
    Empowerment as Empowerment,
    EpisodicCount as EpisodicCount,
    LifetimeCount as LifetimeCount,
    NovelD as NovelD,
    PseudoCount as PseudoCount,
)
from .shaping import (
    GRM as GRM,
    PBIM as PBIM,
    PBRS as PBRS,
    PIES as PIES,
    Bounded as Bounded,
    Custom as Custom,
    Geometric as Geometric,
    LookAhead as LookAhead,
    LookBack as LookBack,
    Mixture as Mixture,
    NoBonus as NoBonus,
    Raw as Raw,
)
from .verification import (
    Certificate as Certificate,
    FiniteMDP as FiniteMDP,
    audit as audit,
    residuals as residuals,
    verify as verify,
)

__version__: str
