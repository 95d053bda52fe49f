"""Student's t distribution, for the interval of a slope: without scipy, which a stage's image has not."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

_TINY: Final = 1e-300
_MOST_TERMS: Final = 500
_HALVINGS: Final = 200


def two_sided(freedom: int, t: float) -> float:
    """The probability of a value at least as far from 0 as `t`."""
    if freedom < 1:
        raise ValueError(f"freedom must be at least 1, not {freedom}.")
    if math.isnan(t):
        raise ValueError("t must be a number, not NaN.")
    if math.isinf(t):
        return 0.0
    square = t * t
    inside, outside = freedom / (freedom + square), square / (freedom + square)
    return _incomplete_beta(inside, outside, freedom / 2.0, 0.5)


@lru_cache(maxsize=64)
def reach(freedom: int, confidence: float) -> float:
    """How many standard errors an interval of that confidence goes to each side."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}.")
    wanted = 1.0 - confidence
    low, high = 0.0, 1.0
    while two_sided(freedom, high) > wanted:
        low, high = high, 2.0 * high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if two_sided(freedom, middle) > wanted else (low, middle)
    return 0.5 * (low + high)


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularised I_x(a, b); `rest` is 1 - x, given because it may be too small to subtract."""
    if x <= 0.0 or rest <= 0.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _incomplete_beta(rest, x, b, a)
    logarithm = a * math.log(x) + b * math.log(rest)
    logarithm += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(logarithm) * _continued_fraction(x, a, b) / a


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Abramowitz and Stegun 26.5.8, evaluated from the front (Lentz)."""
    c = 1.0
    d = _inverse(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = _inverse(1.0 + term * d)
            c = 1.0 + term / (c if abs(c) > _TINY else _TINY)
            value *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return value


def _inverse(value: float) -> float:
    return 1.0 / (value if abs(value) > _TINY else _TINY)
