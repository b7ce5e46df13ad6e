"""What the rest of pbim needs to treat NumPy, JAX and PyTorch arrays alike, and nothing more.

No array library is imported here but NumPy: whoever passes a JAX array has loaded JAX already.
"""

import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import array_api_compat as compat
import numpy as np

from pbim._trees import mapped
from pbim.errors import InputError, InputTypeError


class Flags(Protocol):
    """A mask of NumPy, JAX or PyTorch: booleans, or numbers that are all 0 or 1."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: Any, /) -> Any: ...


class Array(Flags, Protocol):
    """An array of numbers of NumPy, JAX or PyTorch; each library's own types fit.

    Operators return Any: pyright takes minutes to match NumPy's overloads against anything narrower.
    """

    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __neg__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __float__(self) -> float: ...


ArrayT = TypeVar("ArrayT", bound=Array)
TreeT = TypeVar("TreeT")
Values = Any
"""An array inside the library, of whichever library the caller chose; public signatures say Array or Flags."""

_NUMPY = compat.array_namespace(np.zeros(0))


class Rows(NamedTuple):
    """A checked stream of shape (T, num_envs).

    Attributes:
        values: What is converted; 0 at dummy steps.
        ended: Where an episode ends.
        valid: False at dummy steps; None if there are none.
        sums: The sum of each row of values in the wide dtype, (T,), if the check has computed it.

    """

    values: Values
    ended: Values
    valid: Values | None
    sums: Values | None = None


def array_namespace(array: Values) -> Any:
    """Return the namespace of one array; what NumPy's is need not be looked up."""
    return _NUMPY if type(array) is np.ndarray else compat.array_namespace(array)


def namespace(**arrays: Values) -> Any:
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
        if isinstance(array, np.ndarray) and not isinstance(array, np.memmap) and type(array) is not np.ndarray:
            raise InputTypeError(
                f"{name} must be a plain NumPy array, received {type(array).__name__}, which computes by rules of its "
                f"own: pass {_plain_form(name, array)}"
            )
    found = {name: compat.array_namespace(array) for name, array in given.items()}
    if len(set(found.values())) > 1:
        libraries = ", ".join(f"{name} is from {library_name(xp)}" for name, xp in found.items())
        raise InputTypeError(
            f"all arrays of one call must come from one library, received a mix ({libraries}): "
            "convert them to one, and create the state with init(num_envs, like=bonus)"
        )
    return next(iter(found.values()))


def _plain_form(name: str, array: Values) -> str:
    """Return what to write for an array of a subclass."""
    if isinstance(array, np.ma.MaskedArray):
        return f"{name}.filled(0) and valid=~numpy.ma.getmaskarray({name})"
    return f"numpy.asarray({name})"


def library_name(xp: Any) -> str:
    """Return the name users know a namespace by."""
    return str(xp.__name__).removeprefix("array_api_compat.").split(".")[0]


def wide_dtype(array: Values) -> Any:
    """Return the dtype sums over ``array`` are kept in: float64 where the library allows it, objects stay objects."""
    return array.dtype if is_exact(array) else float


def is_exact(array: Values) -> bool:
    """Tell whether ``array`` holds Python numbers such as Fractions, computed without rounding."""
    return isinstance(array, np.ndarray) and array.dtype == np.dtype(object)


def number_for(number: Any, array: Values) -> Any:
    """Return ``number`` as it mixes with ``array`` without changing its dtype: exact only among exact numbers."""
    return number if is_exact(array) else float(number)


def is_concrete(array: Values) -> bool:
    """Tell whether the values of ``array`` can be looked at (they cannot inside ``jax.jit``)."""
    if type(array) is np.ndarray:
        return True
    return not (compat.is_jax_array(array) and isinstance(array, sys.modules["jax"].core.Tracer))


def zeros(shape: tuple[int, ...], like: Values) -> Values:
    """Return zeros in the library and on the device of ``like``, in its wide dtype."""
    if is_exact(like):
        return np.full(shape, Fraction(0), dtype=object)
    xp = compat.array_namespace(like)
    result = xp.zeros(shape, dtype=wide_dtype(like), **_device(like))
    if is_concrete(like):
        return result
    # inside jax.shard_map it is part of an array's type over which devices it varies: as ``like`` does
    return result + xp.sum(xp.astype(xp.reshape(like, (-1,))[:0], result.dtype))


def counter(lanes: Values) -> Values:
    """Return 0 of shape () to count with: whole numbers in JAX, whose single precision stops counting at 2^24."""
    return lanes.astype("int32").sum() if compat.is_jax_array(lanes) and lanes.dtype.itemsize < 8 else lanes.sum()


def counted(count: Values, more: Values) -> Values:
    """Return ``count`` and what has come to it, in the dtype of ``count``; whole numbers stop at their largest."""
    if isinstance(count, float) or not compat.is_jax_array(count) or count.dtype.kind != "i":
        return count + more
    xp = compat.array_namespace(count)
    total = count + xp.asarray(more, dtype=count.dtype)
    return xp.where(total < count, xp.iinfo(count.dtype).max, total)  # the sum of two positive numbers wraps around


def distinct(tree: TreeT) -> TreeT:
    """Return a new state whose leaves are arrays of their own, so that ``jax.jit`` may take them over (donate)."""
    found: set[int] = set()

    def own(leaf: Values) -> Values:
        if id(leaf) in found and hasattr(leaf, "shape"):
            return array_namespace(leaf).asarray(leaf, copy=True)
        found.add(id(leaf))
        return leaf

    return cast(TreeT, mapped(own, tree))


def constant(values: Values, model: Values) -> Values:
    """Return positive NumPy numbers as ``like`` does, none above the largest of the dtype."""
    if type(model) is np.ndarray:
        return values
    largest = float(compat.array_namespace(model).finfo(model.dtype).max)
    return like(np.minimum(values, largest), model)


def like(values: Values, model: Values) -> Values:
    """Return NumPy values in the library, on the device and in the dtype of ``model``."""
    return compat.array_namespace(model).asarray(values, dtype=model.dtype, **_device(model))


def _device(model: Values) -> dict[str, Any]:
    """Return the argument that puts a new array where ``model`` is; JAX decides for itself."""
    return {} if compat.is_jax_array(model) else {"device": compat.device(model)}


def check_rows(
    name: str, values: Values, ended: Values, valid: Values | None, *, lanes: Values, rank: int, finite: bool = True
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
    sums = np.add.reduce(values, axis=1, dtype=float) if rank == 2 and xp is _NUMPY and not is_exact(values) else None
    if finite and not (sums is not None and is_finite(sums)):
        check_finite(name, values)
    if rank == 1:
        values, ended, valid = values[None], ended[None], None if valid is None else valid[None]
    return Rows(values, ended, valid, sums)


def check_mask(name: str, mask: Values, *, lanes: Values) -> Values:
    """Return a boolean mask of the library and shape (num_envs,) of ``lanes``."""
    xp = namespace(state=lanes, **{name: mask})
    if mask.shape != lanes.shape:
        raise InputError(
            f"{name} must have shape {tuple(lanes.shape)} like the state, received {tuple(mask.shape)}: "
            "pass one flag per environment"
        )
    return flags(xp, name, mask)


def is_finite(values: Values) -> bool:
    """Tell whether all values are finite; yes, where they cannot be looked at."""
    if is_exact(values):
        return True
    xp = array_namespace(values)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = xp.isfinite(values.sum())
    return not is_concrete(finite) or bool(finite) or bool(xp.isfinite(values).all())  # a sum alone may overflow


def check_finite(name: str, values: Values) -> None:
    """Refuse NaN and infinity where the values can be looked at."""
    if is_finite(values):
        return
    finite = array_namespace(values).isfinite(values)
    where = tuple(int(i) for i in np.argwhere(~np.asarray(finite))[0])
    raise InputError(
        f"{name} must be finite, received {float(values[where])} at index {where}: "
        "look for a division by zero or an exploding network in what computes it"
    )


def flags(xp: Any, name: str, array: Values) -> Values:
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


def _real(xp: Any, name: str, array: Values) -> Values:
    """Return ``array`` as floats (exact numbers stay as they are)."""
    if is_exact(array) or (array.dtype.kind == "f" if xp is _NUMPY else xp.isdtype(array.dtype, "real floating")):
        return array
    if xp.isdtype(array.dtype, ("bool", "integral")):
        return xp.astype(array, zeros((), array).dtype)
    raise InputTypeError(f"{name} must hold real numbers, received {array.dtype}: convert it to float32 or float64")


def is_tensor(array: Values) -> bool:
    """Tell whether ``array`` is PyTorch's."""
    return type(array) is not np.ndarray and compat.is_torch_array(array)


def detached(tree: Any) -> Any:
    """Return a tree of arrays without gradients: PyTorch would keep the graph of every step that went before."""
    return mapped(lambda leaf: leaf.detach() if getattr(leaf, "requires_grad", False) else leaf, tree)


def copied(array: Values) -> Values:
    """Return an array that may be edited in place without harm; JAX's cannot be edited."""
    if type(array) is np.ndarray:
        return array.copy()
    if is_tensor(array):
        return array.clone()
    return array if compat.is_jax_array(array) else np.array(array)


def on_host(array: Values) -> Values:
    """Return a PyTorch tensor as NumPy can read it, without its gradient; anything else as it is."""
    if not is_tensor(array):
        return array
    tensor = array.detach().cpu()
    return tensor.float() if tensor.dtype is sys.modules["torch"].bfloat16 else tensor


def scan(
    body: Callable[[Any, tuple[Values, ...]], tuple[Any, tuple[Values, ...]]], carry: Any, rows: tuple[Values, ...]
) -> tuple[Any, tuple[Values, ...]]:
    """Carry a state over the leading axis of ``rows``: ``lax.scan`` for JAX arrays, a plain loop for the others.

    To let JAX reuse its compiled loop, pass the same ``body`` object for the same work.
    """
    length = rows[0].shape[0]
    if compat.is_jax_array(rows[0]) and length > 1:
        result: tuple[Any, tuple[Values, ...]] = sys.modules["jax"].lax.scan(body, carry, rows)
        return result
    outputs: list[tuple[Values, ...]] = []
    for row in zip(*rows, strict=True):
        carry, output = body(carry, row)
        outputs.append(output)
    xp = array_namespace(rows[0])
    return carry, tuple(xp.stack(column) for column in zip(*outputs, strict=True))
