from ._core import LearnedBonus as LearnedBonus
from .action_recency import ActionRecency as ActionRecency
from .bridge import from_watch_compute_update as from_watch_compute_update
from .compose import (
    NormalizedObservations as NormalizedObservations,
    RunningStdScaled as RunningStdScaled,
    Scaled as Scaled,
    Sum as Sum,
    WarmUp as WarmUp,
)
from .diayn import DIAYN as DIAYN
from .disagreement import Disagreement as Disagreement
from .e3b import E3B as E3B
from .empowerment import Empowerment as Empowerment
from .encodings import (
    concatenate as concatenate,
    coordinates as coordinates,
    flatten as flatten,
    one_hot as one_hot,
)
from .episodic_count import EpisodicCount as EpisodicCount
from .icm import ICM as ICM
from .lifetime_count import LifetimeCount as LifetimeCount
from .ngu import NGU as NGU
from .noveld import NovelD as NovelD
from .protocol import (
    Bonus as Bonus,
    Intrinsic as Intrinsic,
    Spec as Spec,
    Transition as Transition,
    as_intrinsic as as_intrinsic,
)
from .pseudo_count import PseudoCount as PseudoCount
from .re3 import RE3 as RE3
from .ride import RIDE as RIDE
from .rnd import RND as RND
