"""The failure of a conformance check."""


class ConformanceError(AssertionError):
    """A law that does not hold; ``check`` is its name and the message one sentence.

    >>> str(ConformanceError("shape", "reward must have shape (2,), received (2, 1)"))
    'shape: reward must have shape (2,), received (2, 1).'
    """

    def __init__(self, check: str, sentence: str) -> None:
        super().__init__(f"{check}: {sentence}.")
        self.check = check
