"""Algorithms 2 and 4 of the Gesscale paper: whether, and to how many replicas, a stage can shrink."""

from __future__ import annotations

from collections.abc import Callable


def spare_percent(mst: float, throughput: float) -> float:
    """DT, the per cent of the MST that the current throughput leaves unused (Algorithm 2, line 6)."""
    return 100.0 * (mst - throughput) / mst if mst > 0.0 else 0.0


def replicas_after(
    now: int,
    least: int,
    mst: Callable[[int], float],
    throughput: float,
    input_rate: float,
    threshold_percent: float,
) -> int:
    """How many replicas remain (Algorithm 4); `now` if the stage should stay as it is (Algorithm 2).

    `mst(n)` is the model's answer for the n replicas that would be left. The paper prints the loop's
    condition as MST <= IR, and lowers n before it looks whether the lower n suffices; either way the stage
    would end below its input. What section IV-D.2 says is meant, "remove as many resource units as possible
    without reducing the MST below the current system throughput", is what is done here.
    """
    demand = max(throughput, input_rate)
    n = now
    while n > least and spare_percent(mst(n), throughput) > threshold_percent and mst(n - 1) >= demand:
        n -= 1
    return n
