"""What runs a learner: programs kept between runs, progress, checkpoints, host stepping, evaluation, replay."""
