"""Is a queue growing? The slope of the input lag with honest confidence, and the objective built on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fogmodels.scalability.student import reach, two_sided

Vector = NDArray[np.float64]
Verdict = Literal["rising", "steady", "falling"]
_BLOCKS: Final = 10


@dataclass(frozen=True, slots=True)
class LagTrend:
    """Records by which the lag grows each second, the interval of that slope, and what it means.

    `p_value` is for "no trend"; `verdict` is "rising" or "falling" only where the whole interval lies
    beyond the tolerance; `samples` counts what was left after the warm-up.
    """

    slope_per_s: float
    low: float
    high: float
    p_value: float
    verdict: Verdict
    samples: int


@dataclass(frozen=True, slots=True)
class Objective:
    """Whether a run met its lag-trend objective; `certain` if the slope's interval agrees as a whole."""

    met: bool
    certain: bool
    threshold_per_s: float
    trend: LagTrend


def lag_trend(
    times_s: ArrayLike,
    lags: ArrayLike,
    *,
    confidence: float = 0.95,
    tolerance_per_s: float = 0.0,
    warmup_s: float = 0.0,
    cycle_s: float | None = None,
) -> LagTrend:
    """Linear regression of the lag over time (Theodolite's lag trend) that a saw-tooth does not fool.

    Lag that a micro-batch engine leaves is a saw-tooth and its noise is correlated: regression over the
    samples would take 300 of them for 300 independent facts. So the window is cut into ten blocks and the
    line goes through their means; the slope's error is that of the block means, widened by their
    correlation and by what an unlucky phase of the saw-tooth can do. A window inside a single tooth looks
    like growth whatever one does: give `cycle_s`, the longest time between commits, to be told "steady".
    """
    times, lag = _series(times_s, lags)
    if not (math.isfinite(confidence) and 0.0 < confidence < 1.0):
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}.")
    _not_negative("tolerance_per_s", tolerance_per_s)
    _not_negative("warmup_s", warmup_s)
    if cycle_s is not None:
        _not_negative("cycle_s", cycle_s)
    kept = times >= times[0] + warmup_s
    times, lag = times[kept], lag[kept]
    different = int(np.count_nonzero(np.diff(times))) + min(1, len(times))
    if different < 3:
        raise ValueError(f"A trend needs at least 3 samples at different times, not {different}.")

    t, y = _block_means(times), _block_means(lag)
    off = t - t.mean()
    slope = float(off @ (y - y.mean())) / float(off @ off)
    rest = y - y.mean() - slope * off
    freedom = len(t) - 2
    error = math.hypot(
        math.sqrt(float(rest @ rest) / freedom / float(off @ off)) * _correlation_factor(rest),
        _phase_error(times, lag - y.mean() - slope * (times - t.mean())),
    )
    if cycle_s is not None:
        # All of the slope may be one tooth of height slope * cycle_s: the same A/(C L), C = L / cycle_s.
        error = math.hypot(error, 0.5 * abs(slope) * (cycle_s / float(times[-1] - times[0])) ** 2)
    # What rounding alone leaves is no trend and no error.
    rounding = 1e-12 * max(1.0, float(lag.max())) / float(times[-1] - times[0])
    slope, error = (0.0 if abs(v) <= rounding else v for v in (slope, error))
    off_by = reach(freedom, confidence) * error
    p_value = two_sided(freedom, slope / error) if error else float(slope == 0.0)
    low, high = slope - off_by, slope + off_by
    verdict: Verdict = "steady"
    if low > tolerance_per_s:
        verdict = "rising"
    elif high < -tolerance_per_s:
        verdict = "falling"
    return LagTrend(slope, low, high, p_value, verdict, len(times))


def lag_trend_ratio(
    times_s: ArrayLike,
    lags: ArrayLike,
    load_per_s: float,
    *,
    ratio: float = 0.05,
    warmup_s: float = 60.0,
    confidence: float = 0.95,
) -> Objective:
    """Theodolite's lag-trend-ratio objective: the lag may grow by at most `ratio` of the load.

    `met` is the thesis' rule, slope <= load * ratio, after the warm-up. Where not `certain`, run longer
    or repeat: the interval holds slopes on both sides.
    """
    if not (math.isfinite(load_per_s) and load_per_s > 0.0):
        raise ValueError(f"load_per_s must be positive and finite, not {load_per_s}.")
    _not_negative("ratio", ratio)
    trend = lag_trend(times_s, lags, confidence=confidence, warmup_s=warmup_s)
    threshold = load_per_s * ratio
    met = trend.slope_per_s <= threshold
    certain = trend.high <= threshold if met else trend.low > threshold
    return Objective(met, certain, threshold, trend)


def _block_means(values: Vector) -> Vector:
    """The means of ten blocks; few values are their own."""
    if len(values) <= _BLOCKS:
        return values
    return np.array([block.mean() for block in np.array_split(values, _BLOCKS)])


def _correlation_factor(rest: Vector) -> float:
    """How much wider the error of a slope is for residuals that follow each other (AR(1), never narrower)."""
    squares = float(rest @ rest)
    if squares <= 0.0 or len(rest) < 4:
        return 1.0
    # Residuals of a fitted line look less correlated than the noise was, by about 2/n.
    correlation = float(rest[1:] @ rest[:-1]) / squares + 2.0 / len(rest)
    correlation = min(max(correlation, 0.0), 0.9)
    return math.sqrt((1.0 + correlation) / (1.0 - correlation))


def _phase_error(times: Vector, rest: Vector) -> float:
    """Standard deviation of the slope that a saw-tooth of unknown phase adds.

    A saw-tooth of height A and C cycles in a window L tilts the line by A/(C L) in the worst phase, by
    about half of that on average. A from its standard deviation, C from how often it crosses its mean.
    """
    span = float(times[-1] - times[0])
    height = math.sqrt(12.0) * float(rest.std())
    cycles = max(1.0, np.count_nonzero(np.diff(np.signbit(rest))) / 2.0)
    return 0.5 * height / (cycles * span)


def _series(times_s: ArrayLike, lags: ArrayLike) -> tuple[Vector, Vector]:
    try:
        times = np.asarray(times_s, dtype=np.float64)
        lag = np.asarray(lags, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("times_s and lags must hold numbers only.") from error
    if times.ndim != 1 or lag.ndim != 1 or len(times) != len(lag):
        raise ValueError(
            f"times_s and lags must be lists of one length, not shapes {times.shape} and {lag.shape}."
        )
    if len(times) == 0:
        raise ValueError("times_s and lags must not be empty.")
    if not (np.isfinite(times).all() and np.isfinite(lag).all()):
        raise ValueError("times_s and lags must be finite.")
    if (lag < 0.0).any():
        raise ValueError("lags must not be negative.")
    if (np.diff(times) < 0.0).any():
        raise ValueError("times_s must not go back.")
    return times, lag


def _not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0.0):
        raise ValueError(f"{name} must be finite and not negative, not {value}.")
