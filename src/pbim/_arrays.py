"""What the rest of pbim needs to treat NumPy, JAX and PyTorch arrays alike, and nothing more.

No array library is imported here but NumPy: whoever passes a JAX array has loaded JAX already.
"""

import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from pbim.errors import InputError, InputTypeError

Array = Any

_NUMPY = compat.array_namespace(np.zeros(0))


class Rows(NamedTuple):
    """A checked stream of shape (T, num_envs): ``values``, ``ended``, and ``valid`` or None where every step counts."""

    values: Array
    ended: Array
    valid: Array | None


def array_namespace(array: Array) -> Any:
    """Return the namespace of one array; what NumPy's is need not be looked up."""
    return _NUMPY if type(array) is np.ndarray else compat.array_namespace(array)


def namespace(**arrays: Array) -> Any:
    """Return the array namespace that all the named arrays share."""
    if all(array is None or type(array) is np.ndarray for array in arrays.values()):
        return _NUMPY
    given = {name: array for name, array in arrays.items() if array is not None}
    for name, array in given.items():
        if not compat.is_array_api_obj(array):
            raise InputTypeError(
                f"{name} must be a NumPy, JAX or PyTorch array, received {type(array).__name__}: "
                f"convert it first, for example with numpy.asarray({name})"
            )
    found = {name: compat.array_namespace(array) for name, array in given.items()}
    if len(set(found.values())) > 1:
        held = ", ".join(f"{name} is from {library_name(xp)}" for name, xp in found.items())
        raise InputTypeError(
            f"all arrays of one call must come from one library, received a mix ({held}): "
            "convert them to one, and create the state with init(num_envs, like=bonus)"
        )
    return next(iter(found.values()))


def library_name(xp: Any) -> str:
    """Return the name users know a namespace by."""
    return str(xp.__name__).removeprefix("array_api_compat.").split(".")[0]


def wide_dtype(array: Array) -> Any:
    """Return the dtype sums over ``array`` are kept in: float64 where the library allows it, objects stay objects."""
    return array.dtype if is_exact(array) else float


def is_exact(array: Array) -> bool:
    """Tell whether ``array`` holds Python numbers such as Fractions, computed without rounding."""
    return isinstance(array, np.ndarray) and array.dtype == np.dtype(object)


def number_for(number: Any, array: Array) -> Any:
    """Return ``number`` as it mixes with ``array`` without changing its dtype: exact only among exact numbers."""
    return number if is_exact(array) else float(number)


def is_concrete(array: Array) -> bool:
    """Tell whether the values of ``array`` can be looked at (they cannot inside ``jax.jit``)."""
    if type(array) is np.ndarray:
        return True
    return not (compat.is_jax_array(array) and isinstance(array, sys.modules["jax"].core.Tracer))


def zeros(shape: tuple[int, ...], like: Array, dtype: Any = None) -> Array:
    """Return zeros in the library and on the device of ``like``, in its wide dtype unless one is given."""
    if is_exact(like) and dtype is None:
        return np.full(shape, Fraction(0), dtype=object)
    xp = compat.array_namespace(like)
    kwargs = {} if compat.is_jax_array(like) else {"device": compat.device(like)}
    return xp.zeros(shape, dtype=wide_dtype(like) if dtype is None else dtype, **kwargs)


def constant(values: Array, like: Array) -> Array:
    """Return NumPy numbers in the library, on the device and in the dtype of ``like``."""
    if type(like) is np.ndarray:
        return values
    kwargs = {} if compat.is_jax_array(like) else {"device": compat.device(like)}
    return compat.array_namespace(like).asarray(values, dtype=like.dtype, **kwargs)


def check_rows(
    name: str, values: Array, ended: Array, valid: Array | None, *, lanes: Array, rank: int, finite: bool = True
) -> Rows:
    """Check one call's arrays against the state's ``lanes`` (num_envs,) and return them as (T, num_envs) rows."""
    xp = namespace(**{"state": lanes, name: values, "ended": ended, "valid": valid})
    num_envs = lanes.shape[0]
    wanted = f"({num_envs},)" if rank == 1 else f"(T, {num_envs})"
    for label, array in ((name, values), ("ended", ended), ("valid", valid)):
        if array is None:
            continue
        if array.ndim != rank or array.shape[-1] != num_envs or array.shape != values.shape:
            other = "rollout takes (T, num_envs)" if rank == 1 else "step takes (num_envs,)"
            raise InputError(
                f"{label} must have shape {wanted} like the state and the other arrays, received {tuple(array.shape)}: "
                f"reshape it, or call init with the right num_envs ({other})"
            )
    ended, valid = flags(xp, "ended", ended), None if valid is None else flags(xp, "valid", valid)
    values = _real(xp, name, values)
    if valid is not None:
        values, ended = xp.where(valid, values, xp.zeros_like(values)), ended & valid
    if finite:
        check_finite(name, values)
    if rank == 1:
        values, ended, valid = values[None], ended[None], None if valid is None else valid[None]
    return Rows(values, ended, valid)


def is_finite(values: Array) -> bool:
    """Tell whether all values are finite; yes, where they cannot be looked at."""
    if is_exact(values):
        return True
    xp = array_namespace(values)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = xp.isfinite(values.sum())
    return not is_concrete(finite) or bool(finite) or bool(xp.isfinite(values).all())  # a sum alone may overflow


def check_finite(name: str, values: Array) -> None:
    """Refuse NaN and infinity where the values can be looked at."""
    if is_finite(values):
        return
    finite = array_namespace(values).isfinite(values)
    where = tuple(int(i) for i in np.argwhere(~np.asarray(finite))[0])
    raise InputError(
        f"{name} must be finite, received {float(values[where])} at index {where}: "
        "look for a division by zero or an exploding network in what computes it"
    )


def flags(xp: Any, name: str, array: Array) -> Array:
    """Return boolean flags; numbers are taken when they are all 0 or 1, as CleanRL stores its dones."""
    if array.dtype == np.bool_ if xp is _NUMPY else xp.isdtype(array.dtype, "bool"):
        return array
    flags = array != 0
    fits = (flags == array).all()
    if is_concrete(fits) and not bool(fits):
        raise InputTypeError(
            f"{name} must hold booleans (or only 0 and 1), received {array.dtype} values: "
            f"pass a mask such as {name} > 0"
        )
    return flags


def _real(xp: Any, name: str, array: Array) -> Array:
    """Return ``array`` as floats (exact numbers stay as they are)."""
    if is_exact(array) or (array.dtype.kind == "f" if xp is _NUMPY else xp.isdtype(array.dtype, "real floating")):
        return array
    if xp.isdtype(array.dtype, ("bool", "integral")):
        return xp.astype(array, zeros((), array).dtype)
    raise InputTypeError(f"{name} must hold real numbers, received {array.dtype}: convert it to float32 or float64")


def on_host(array: Array) -> Array:
    """Return a PyTorch tensor as NumPy can read it, without its gradient; anything else as it is."""
    if type(array) is np.ndarray or not compat.is_torch_array(array):
        return array
    tensor = array.detach().cpu()
    return tensor.float() if tensor.dtype is sys.modules["torch"].bfloat16 else tensor


def has_numpy_view(array: Array) -> bool:
    """Tell whether ``array`` is a PyTorch tensor that NumPy can read in place."""
    if type(array) is np.ndarray or not compat.is_torch_array(array):
        return False
    return array.device.type == "cpu" and not array.requires_grad and array.dtype in _viewable_dtypes()


def have_numpy_views(tree: Any) -> bool:
    """Tell whether NumPy can read every tensor of a tree in place."""
    if tree is None:
        return True
    if isinstance(tree, dict | tuple):
        return all(map(have_numpy_views, tree.values() if isinstance(tree, dict) else tree))
    return tree.device.type == "cpu" and not tree.requires_grad and tree.dtype is not sys.modules["torch"].bfloat16


def to_numpy_views(tree: Any) -> Any:
    """Return a tree of tensors (tuples, mappings, None) as NumPy arrays that share their memory."""
    return _mapped(lambda leaf: leaf.numpy(), tree)


def to_tensors(tree: Any) -> Any:
    """Return a tree of NumPy arrays as tensors that share their memory."""
    return _mapped(sys.modules["torch"].asarray, tree)


def _viewable_dtypes() -> tuple[Any, ...]:
    torch = sys.modules["torch"]
    return torch.float32, torch.float64, torch.float16


def _mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {name: _mapped(function, part) for name, part in tree.items()}
    if isinstance(tree, tuple):
        parts = [_mapped(function, part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return function(tree)


def scan(
    body: Callable[[Any, tuple[Array, ...]], tuple[Any, tuple[Array, ...]]], carry: Any, rows: tuple[Array, ...]
) -> tuple[Any, tuple[Array, ...]]:
    """Carry a state over the leading axis of ``rows``: ``lax.scan`` for JAX arrays, a plain loop for the others.

    To let JAX reuse its compiled loop, pass the same ``body`` object for the same work.
    """
    length = rows[0].shape[0]
    if compat.is_jax_array(rows[0]) and length > 1:
        result: tuple[Any, tuple[Array, ...]] = sys.modules["jax"].lax.scan(body, carry, rows)
        return result
    outputs: list[tuple[Array, ...]] = []
    for row in zip(*rows, strict=True):
        carry, output = body(carry, row)
        outputs.append(output)
    xp = array_namespace(rows[0])
    return carry, tuple(xp.stack(column) for column in zip(*outputs, strict=True))
