from . import ppo as ppo, q_learning as q_learning
from .adops import Adops as Adops
from .ppo import PPO as PPO
from .q_learning import QLearning as QLearning
