"""What a recorded window says about itself: checked times, moments, correlation, dispersion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]

FEWEST_EVENTS = 10


def inter_arrival_times(values: ArrayLike, fewest: int = FEWEST_EVENTS) -> Vector:
    """The window as a checked vector: finite, not negative, not all zero; zeros (ties) are kept."""
    try:
        times = np.array(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError("inter-arrival times must be numbers") from error
    if times.ndim != 1:
        raise ValueError(f"inter-arrival times must be a vector, not of shape {times.shape}")
    if times.size < fewest:
        raise ValueError(f"at least {fewest} inter-arrival times are needed, not {times.size}")
    if not np.isfinite(times).all():
        raise ValueError("inter-arrival times must be finite")
    if (times < 0).any():
        raise ValueError("inter-arrival times must not be negative: are the timestamps sorted?")
    if not times.any():
        raise ValueError("inter-arrival times must not all be zero")
    return times


def from_timestamps(timestamps: ArrayLike) -> Vector:
    """Inter-arrival times of sorted timestamps; ties give zeros."""
    stamps = np.array(timestamps, dtype=float)
    if stamps.ndim != 1 or stamps.size < 2:
        raise ValueError("at least two timestamps are needed, in one vector")
    if not np.isfinite(stamps).all():
        raise ValueError("timestamps must be finite")
    gaps = np.diff(stamps)
    if (gaps < 0).any():
        raise ValueError(f"timestamps must not go back in time (number {int(np.argmax(gaps < 0)) + 2} does)")
    return np.asarray(gaps)


@dataclass(frozen=True, slots=True, eq=False)
class TraceStatistics:
    """Scale-free description of a window; everything a fit looks at.

    `dispersion[i]` is the index of dispersion for intervals over blocks[i] consecutive times,
    Var(X1 + ... + Xk) / (k E[X]^2). It is the weighted running sum of the autocorrelation, so it
    carries the same information as the acf but averages its noise away, and its limit is what a
    queue feels in heavy traffic.
    """

    events: int
    mean: float
    scv: float
    third: float
    acf1: float
    blocks: Vector
    dispersion: Vector


def autocorrelation(times: ArrayLike, lags: ArrayLike) -> Vector:
    """Sample autocorrelation at the given lags."""
    window = inter_arrival_times(times, fewest=2)
    centred = window - window.mean()
    power = float(centred @ centred)
    wanted = np.asarray(lags, dtype=np.int64).ravel()
    if wanted.size and (wanted.min() < 0 or wanted.max() >= window.size):
        raise ValueError(f"lags must be from 0 to {window.size - 1}")
    if power == 0:
        return np.where(wanted == 0, 1.0, 0.0)
    return np.array([float(centred[: window.size - k] @ centred[k:]) / power for k in wanted])


def describe(times: Vector, longest_share: float = 0.05) -> TraceStatistics:
    """Statistics of a checked window; blocks grow by sqrt(2) up to `longest_share` of its length."""
    mean = float(times.mean())
    scaled = times / mean
    centred = scaled - 1.0
    scv = _mean_product(centred, centred)
    longest = max(2, int(times.size * longest_share))
    blocks = np.unique(np.round(2 ** (np.arange(2, 2 * np.log2(longest) + 1e-9) / 2)).astype(np.int64))
    walk = np.concatenate([[0.0], np.cumsum(centred)])
    dispersion = []
    for k in blocks:
        # Overlapping blocks, a few starts per length. The sums are about the window's own mean, so
        # swings longer than the window do not enter: this is what caps the fitted decay.
        apart = max(1, int(k) // 16)
        sums = walk[k::apart] - walk[: walk.size - k : apart]
        dispersion.append(_mean_product(sums, sums) / k)
    lag1 = _mean_product(centred[:-1], centred[1:]) / scv if scv > 0 else 0.0
    return TraceStatistics(
        events=times.size,
        mean=mean,
        scv=scv,
        third=_mean_product(scaled * scaled, scaled),
        acf1=lag1,
        blocks=blocks.astype(float),
        dispersion=np.array(dispersion),
    )


def _mean_product(a: Vector, b: Vector) -> float:
    # einsum, not BLAS: threads that spin on a short dot product cost more CPU than the product.
    return float(np.einsum("i,i->", a, b)) / a.size
