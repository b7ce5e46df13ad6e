"""What happens to a public name before it goes: one warning that names its replacement."""

from pbim.errors import warn

_SAID: set[str] = set()


def deprecated(old: str, new: str, *, removed_in: str) -> None:
    """Warn once per process, at the caller's line, that ``old`` goes and ``new`` takes its place.

    Call it first thing in what is deprecated. The policy is in CONTRIBUTING.

    Args:
        old: What was used, as a user writes it, such as ``pbim.verify(limit=...)``.
        new: What to write instead.
        removed_in: The first version without it.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     for _ in range(2):
    ...         deprecated("pbim.old", "pbim.new", removed_in="2.0")
    >>> [str(each.message) for each in said]
    ['pbim.old will be removed in pbim 2.0: use pbim.new']

    """
    if old not in _SAID:
        _SAID.add(old)
        warn(f"{old} will be removed in pbim {removed_in}: use {new}", DeprecationWarning)
