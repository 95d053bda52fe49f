"""What the models accept: a check returns the plain value or says in one sentence what is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np


def finite(name: str, value: object, *, above: float | None = None, at_least: float | None = None) -> float:
    """A finite number, optionally bounded below."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, not {value!r}.")
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError(f"{name} is too large for a number.") from error
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, not {number}.")
    if above is not None and number <= above:
        raise ValueError(f"{name} must be above {above:g}, not {number:g}.")
    if at_least is not None and number < at_least:
        raise ValueError(f"{name} must be at least {at_least:g}, not {number:g}.")
    return number


def whole(name: str, value: object, *, at_least: int = 1) -> int:
    """A whole number; 3.0 is accepted, 3.5 and True are not."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
    else:
        real = finite(name, value)
        number = int(real)
        if number != real:
            raise ValueError(f"{name} must be a whole number, not {real:g}.")
    if number < at_least:
        raise ValueError(f"{name} must be at least {at_least}, not {number}.")
    return number


def finite_vector(name: str, values: Sequence[float]) -> list[float]:
    """A non-empty flat list of finite numbers."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name} must be a list of numbers, not {values!r}.")
    listed = list(values)
    if not listed:
        raise ValueError(f"{name} is empty.")
    return [finite(f"{name}[{position}]", value) for position, value in enumerate(listed)]
