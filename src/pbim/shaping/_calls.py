"""What one call of ``step`` or ``rollout`` must fit, and what its result may not be."""

from collections.abc import Mapping
from math import isnan
from typing import Any

import numpy as np

from pbim import _arrays
from pbim._arrays import Values
from pbim.errors import InputError, InputTypeError


def is_plain(bonus: Any, ended: Any, valid: Any, lanes: Values) -> bool:
    """Tell whether one step is NumPy floats and booleans of the state's shape; ``valid`` may be None."""
    return (
        type(bonus) is type(ended) is type(lanes) is np.ndarray
        and (valid is None or (type(valid) is np.ndarray and valid.dtype.char == "?" and valid.shape == lanes.shape))
        and bonus.dtype.char in "fd"
        and ended.dtype.char == "?"
        and lanes.dtype.char == "d"
        and bonus.shape == ended.shape == lanes.shape
    )


def check_exactness(state: Any, bonus: Values) -> None:
    """Refuse exact and rounded numbers together."""
    if isinstance(bonus, np.ndarray) and _arrays.is_exact(state[0]) != _arrays.is_exact(bonus):
        raise InputTypeError(
            f"bonus must hold exact numbers (dtype object) if and only if the state does, received {bonus.dtype} "
            f"and a state of {state[0].dtype}: call init(num_envs, like=bonus)"
        )


def check_overflow(shaping: Any, shaped: Values, extra: Mapping[str, Values]) -> None:
    """Stop where the repayment left the range of the dtype; inside ``jax.jit`` the certificate shows it instead."""
    if not _arrays.is_finite(shaped):
        for name, array in extra.items():
            _arrays.check_finite(name, array)
        finite = _arrays.array_namespace(shaped).isfinite(shaped)
        first = tuple(int(i) for i in np.argwhere(~np.asarray(_arrays.on_host(finite)))[0])
        if isnan(shaped[first]):  # an overflow is infinite before it can be NaN
            raise InputError(
                f"{type(shaping).__name__} must repay finite numbers, received finite bonuses and paid NaN at index "
                f"{first}: look for a division by zero in the function that says what is repaid"
            )
        cause = ", or its function returned inf" if shaping.calls_back else ""
        raise OverflowError(
            f"{shaping} overflowed {shaped.dtype}{cause}: what it owes grows by 1/gamma each step of an episode; "
            "use pbim.Geometric (bounded ledger), pbim.GRM with a short delay, a larger gamma or shorter episodes"
        )
