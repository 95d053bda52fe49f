"""The trend of a simulated lag, as `fogmodels.scalability.lag_trend` sees it, in a fifth of its time."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

_BLOCKS = 10
_OFFSETS = tuple(block - (_BLOCKS - 1) / 2 for block in range(_BLOCKS))
_SQUARES = sum(offset * offset for offset in _OFFSETS)
_T95 = 2.306
"""Student's t for 95 % and eight degrees of freedom: a line through ten blocks."""


def trend(
    lag: Callable[[float], float], start_s: float, end_s: float, cycle_s: float, rate: float
) -> tuple[float, float, float]:
    """Slope of the lag in records a second, with its 95 % interval; all 0 for no time at all.

    The line goes through ten looks. Its error is theirs, widened by their correlation and by what the
    saw-tooth of the batches can do: teeth of `cycle_s`, as high as what arrives meanwhile.
    """
    length_s = end_s - start_s
    if length_s <= 0:
        return 0.0, 0.0, 0.0
    block_s = length_s / _BLOCKS
    looks = [lag(start_s + (block + 1) * block_s) for block in range(_BLOCKS)]
    middle = sum(looks) / _BLOCKS
    slope = sum(o * m for o, m in zip(_OFFSETS, looks, strict=True)) / _SQUARES / block_s
    rest = [m - middle - slope * block_s * o for o, m in zip(_OFFSETS, looks, strict=True)]
    squares = sum(r * r for r in rest)
    error = math.sqrt(squares / (_BLOCKS - 2) / _SQUARES) / block_s
    if squares > 0:
        alike = sum(a * b for a, b in pairwise(rest)) / squares
        alike = min(max(alike, 0.0), 0.9)
        error *= math.sqrt((1 + alike) / (1 - alike))
    teeth = length_s / cycle_s if cycle_s > 0 else math.inf
    error = math.hypot(error, cycle_s * rate / (2.0 * teeth * length_s))
    return slope, slope - _T95 * error, slope + _T95 * error
