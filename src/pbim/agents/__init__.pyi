from . import ppo as ppo, q_learning as q_learning
from .ppo import PPO as PPO
from .q_learning import QLearning as QLearning
