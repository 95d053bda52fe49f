"""What a trace looks like: rates, gaps, burstiness. Pure; the command prints and plots it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fogctl.trace.rides import Rides


@dataclass(frozen=True, slots=True)
class Description:
    """Figures of a trace in its own time (speed factor 1)."""

    rides: int
    first: str
    last: str
    duration_s: float
    mean_rate_per_s: float
    peak_rate_per_s: float
    """The busiest minute's rate."""
    quiet_rate_per_s: float
    """The quietest minute's rate."""
    longest_gap_s: float
    scv: float
    """Squared coefficient of variation of the gaps between rides; 1 for a Poisson stream."""
    lag1_autocorrelation: float
    dispersion_60s: float
    """Variance over mean of the rides a minute; 1 for a Poisson stream."""


def describe(rides: Rides) -> Description:
    """The figures of rides that are in order of time and all have a time (see `clean`)."""
    if len(rides) < 2:
        raise ValueError(f"a trace of {len(rides)} rides has no rate: at least 2 are needed")
    times_s = rides.pickup_s()
    gaps = np.diff(times_s)
    if np.isnan(times_s).any() or (gaps < 0).any():
        raise ValueError("rides must be in order of time and all have one: clean the trace first")
    counts = per_minute(times_s)
    whole = counts[:-1] if counts.size > 1 else counts
    duration_s = float(times_s[-1])
    column = rides.table["pickup_time"]
    return Description(
        rides=len(rides),
        first=str(column[0].as_py()),
        last=str(column[-1].as_py()),
        duration_s=duration_s,
        mean_rate_per_s=len(rides) / duration_s if duration_s > 0 else float(len(rides)),
        peak_rate_per_s=float(counts.max()) / 60,
        quiet_rate_per_s=float(whole.min()) / 60,
        longest_gap_s=float(gaps.max()),
        scv=float(gaps.var() / gaps.mean() ** 2) if gaps.mean() > 0 else 0.0,
        lag1_autocorrelation=_lag1(gaps),
        dispersion_60s=float(whole.var() / whole.mean()) if whole.mean() > 0 else 0.0,
    )


def per_minute(times_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rides in each minute since the first."""
    return np.bincount((times_s // 60).astype(np.int64))


def _lag1(gaps: NDArray[np.float64]) -> float:
    centred = gaps - gaps.mean()
    variance = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / variance if variance > 0 and gaps.size > 1 else 0.0
