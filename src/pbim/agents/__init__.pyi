from . import ppo as ppo, q_learning as q_learning
from .adops import Adopes as Adopes, Adops as Adops
from .bsrs import BSRS as BSRS
from .eipo import EIPO as EIPO
from .method import Method as Method
from .ppo import PPO as PPO
from .q_learning import QLearning as QLearning
from .two_critics import TwoCritics as TwoCritics
