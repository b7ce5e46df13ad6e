"""What pbim raises when an argument breaks a rule, and warns when one is risky."""

__all__ = ["InputError", "InputTypeError", "RepaymentWarning"]


class InputError(ValueError):
    """An argument broke a rule; the message names the argument, the rule, what was received and the way out."""


class InputTypeError(InputError, TypeError):
    """An argument is of the wrong kind (library, dtype, type)."""


class RepaymentWarning(UserWarning):
    """A conversion would have to repay numbers too large for a learner."""
