"""The paper's two learners, compiled end to end: recurrent PPO and tabular Q-learning."""
