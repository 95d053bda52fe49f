"""Response times as an event holds them: a histogram with fixed edges, and the figures that are judged."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_EDGES = np.geomspace(1e-4, 1e4, 241)
"""30 bins a decade: a percentile read from the histogram is off by 4 % at most."""


def summary(times_s: NDArray[np.float64]) -> dict[str, Any]:
    """Counts by upper edge, empty ends left out, and mean, median, 95th and 99th percentile."""
    place = np.clip(np.searchsorted(_EDGES, times_s, side="left"), 0, _EDGES.size - 1)
    counts = np.bincount(place, minlength=_EDGES.size)
    used = np.flatnonzero(counts)
    low, high = int(used[0]), int(used[-1]) + 1
    p50, p95, p99 = np.percentile(times_s, [50, 95, 99])
    return {
        "records": int(times_s.size),
        "mean_s": float(times_s.mean()),
        "p50_s": float(p50),
        "p95_s": float(p95),
        "p99_s": float(p99),
        "upper_s": [float(f"{edge:.6g}") for edge in _EDGES[low:high]],
        "count": counts[low:high].tolist(),
    }
