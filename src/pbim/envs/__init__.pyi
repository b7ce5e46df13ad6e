from ._layout import DoorKeyState as DoorKeyState
from .catalogue import ENVIRONMENTS as ENVIRONMENTS
from .cliff_walk import CliffWalk as CliffWalk, CliffWalkArrays as CliffWalkArrays, CliffWalkState as CliffWalkState
from .doorkey import DoorKey as DoorKey
from .foreign import (
    Craftax as Craftax,
    Flattened as Flattened,
    Gymnax as Gymnax,
    Navix as Navix,
    XMiniGrid as XMiniGrid,
)
from .gymnasium_host import HostEnv as HostEnv
from .optimal import optimal_steps as optimal_steps
from .protocol import (
    Autoreset as Autoreset,
    Environment as Environment,
    FiniteEnvironment as FiniteEnvironment,
    Interface as Interface,
    Timestep as Timestep,
    autoreset_batch as autoreset_batch,
    autoreset_step as autoreset_step,
)
from .render import frame as frame
from .river_swim import RiverSwim as RiverSwim
from .skills import Skills as Skills, SkillState as SkillState
from .toy_text import ToyText as ToyText
