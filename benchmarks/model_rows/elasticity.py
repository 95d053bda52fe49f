"""Figures of the elasticity scores: time, and distance from sums over a fine grid."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from fogmodels.elasticity import score

from benchmarks.row import Row


def rows() -> Iterator[Row]:
    """Score two days of 10,000 irregular steps each."""
    rng = np.random.default_rng(0)
    grids = [np.concatenate([[0.0], np.sort(rng.uniform(0, 172_800, 9_999))]) for _ in range(2)]
    supply, demand = (rng.integers(1, 12, 10_000).astype(float) for _ in range(2))
    started = time.process_time()
    for _ in range(20):
        found = score(grids[0], supply, demand, demand_times_s=grids[1], end_s=172_800.0)
    cpu = 1e3 * (time.process_time() - started) / 20
    yield Row("score 10,000 supply and 10,000 demand steps", cpu, "CPU ms")
    at = (np.arange(4_000_000) + 0.5) * 172_800.0 / 4_000_000
    gap = demand[np.searchsorted(grids[1], at, side="right") - 1]
    gap = gap - supply[np.searchsorted(grids[0], at, side="right") - 1]
    off = abs(found.accuracy_u / float(np.maximum(gap, 0).mean()) - 1.0)
    yield Row("accuracy_u off a sum over 4 million instants", 100.0 * off, "%", target=0.1)
