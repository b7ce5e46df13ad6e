"""Hypothesis without deadlines: machines are noisy, and laws are not about time."""

from hypothesis import HealthCheck, settings

settings.register_profile("laws", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("search", parent=settings.get_profile("laws"), derandomize=False, max_examples=2000)
settings.load_profile("laws")
