"""Nested tuples and mappings of arrays, in plain Python: no array library is needed to walk them."""

from collections.abc import Callable, Iterable
from typing import Any


def mapped(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Apply a function to the leaves of a tree (tuples, mappings, None), and to those of others of the same form."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {name: mapped(function, part, *(other[name] for other in others)) for name, part in tree.items()}
    if isinstance(tree, tuple):
        return same_form(tree, (mapped(function, *parts) for parts in zip(tree, *others, strict=True)))
    return function(tree, *others)


def same_form(model: tuple[Any, ...], parts: Iterable[Any]) -> Any:
    """Return parts as a tuple of the kind of ``model``, a NamedTuple or a plain one."""
    return type(model)(*parts) if hasattr(model, "_fields") else tuple(parts)
