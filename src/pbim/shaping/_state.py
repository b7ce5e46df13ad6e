"""States of conversions as trees of arrays: picked by mask, and tensors seen through NumPy."""

import sys
from typing import Any, TypeVar, cast

from pbim import _arrays
from pbim._arrays import Values, array_namespace
from pbim._trees import mapped
from pbim.errors import InputTypeError

TreeT = TypeVar("TreeT")


def where_tree(mask: Values, new: TreeT, old: TreeT) -> TreeT:
    """Return ``old`` with the leaves of ``new`` where ``mask`` (num_envs,) is true; all leaves end in num_envs."""

    def pick(old: Values, new: Values) -> Values:
        if getattr(old, "shape", ())[-1:] != mask.shape:
            raise InputTypeError(
                f"an array of the state must end in num_envs={mask.shape[0]}, received shape {tuple(old.shape)}: name "
                "its field in the conversion's `shared` if all environments share it"
            )
        return array_namespace(old).where(mask, new, old)

    return cast(TreeT, mapped(pick, old, new))


def has_numpy_view(array: Values) -> bool:
    """Tell whether ``array`` is a PyTorch tensor that NumPy can read in place."""
    return _arrays.is_tensor(array) and array.device.type == "cpu" and array.dtype in _torch_floats()


def _torch_floats() -> tuple[Any, ...]:
    torch = sys.modules["torch"]
    return torch.float32, torch.float64, torch.float16


def have_numpy_views(tree: Any) -> bool:
    """Tell whether NumPy can read every tensor of a tree in place."""
    if tree is None:
        return True
    if isinstance(tree, dict | tuple):
        return all(map(have_numpy_views, tree.values() if isinstance(tree, dict) else tree))
    return tree.device.type == "cpu" and tree.dtype is not sys.modules["torch"].bfloat16


def to_numpy_views(tree: Any) -> Any:
    """Return a tree of tensors (tuples, mappings, None) as NumPy arrays that share their memory."""
    return mapped(lambda leaf: leaf.numpy(), tree)


def to_tensors(tree: Any) -> Any:
    """Return a tree of NumPy arrays as tensors that share their memory."""
    return mapped(sys.modules["torch"].asarray, tree)
