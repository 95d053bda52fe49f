"""Argument checks of the throughput model: one sentence that names the argument and its value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fogmodels.checks import finite
from fogmodels.checks import whole as any_whole

# Beyond these a number is a mistake (and its powers no longer fit a float).
_TINY, _HUGE = 1e-30, 1e30
_MANY = 10**9


def real(name: str, value: object, *, least: float = 0.0, above: float | None = None) -> float:
    """`value` as a finite float, at least `least` or, where given, strictly above `above`."""
    number = finite(name, value, above=above, at_least=least if above is None else None)
    if number > _HUGE or (above is not None and number < _TINY):
        raise ValueError(f"{name} must lie between {_TINY:g} and {_HUGE:g}, not {number:g}.")
    return number


def whole(name: str, value: object, *, least: int = 1) -> int:
    """`value` as an int, at least `least`; 3.0 counts as 3."""
    number = any_whole(name, value, at_least=least)
    if number > _MANY:
        raise ValueError(f"{name} must be at most {_MANY}, not {str(number)[:12]}.")
    return number


def fraction(name: str, value: object) -> float:
    """`value` as a float strictly between 0 and 1."""
    number = real(name, value, above=0.0)
    if number >= 1.0:
        raise ValueError(f"{name} must be less than 1, not {number:g}.")
    return number


def rtt_list(name: str, values: Sequence[float] | ArrayLike) -> NDArray[np.float64]:
    """`values` as a non-empty vector, or a square matrix, of finite round trips >= 0."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers only.") from error
    if array.size == 0:
        raise ValueError(f"{name} must not be empty.")
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[0] != array.shape[1]):
        raise ValueError(f"{name} must be a list of round trips or a square matrix, not shape {array.shape}.")
    if not np.isfinite(array).all() or array.min() < 0.0:
        raise ValueError(f"{name} must be finite and not negative.")
    if array.max() > _HUGE:
        raise ValueError(f"{name} must be at most {_HUGE:g}.")
    # A round trip too short to matter is none at all.
    return np.where(array < _TINY, 0.0, array)
