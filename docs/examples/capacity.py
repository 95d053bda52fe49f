"""Capacity planning end to end: tasks per operator, what to measure, slots for a rate.

    python docs/examples/capacity.py [--plot FILE.svg]

The "testbed" is a formula, so that this runs anywhere: throughput grows with the square root of the
slots and a little with memory, and a measurement is off by a few per cent.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from fogmodels.capacity import (
    Observation,
    RateSearch,
    SearchSpace,
    best_parallelism,
    fit_capacity,
    next_measurement,
    true_rate,
)

RATE = 100_000.0
MEMORY_MB = 1024.0


def testbed_mst(task_slots: int, memory_mb: float, measurement: int) -> float:
    """What a run on the testbed would sustain, in events per second."""
    luck = 1 + 0.03 * math.sin(2.4 * measurement)
    return (6000 * math.sqrt(task_slots) + 0.8 * memory_mb - 4000) * luck


def estimate_mst(task_slots: int, memory_mb: float, measurement: int) -> float:
    """Find it as one would with a real job: by trying rates (the capacity estimator)."""
    capacity = testbed_mst(task_slots, memory_mb, measurement)
    search = RateSearch(start=1.2 * capacity, max_trials=12)
    while search.target is not None:
        search = search.record(achieved=min(search.target, capacity))
    return search.mst


def explore() -> list[Observation]:
    """Corners first, then wherever the model learns most, until the stop rule is met."""
    space = SearchSpace(task_slots=tuple(range(3, 25)), memory_mb=(512.0, 1024.0, 2048.0))
    rows: list[Observation] = []
    while (todo := next_measurement(space, rows)) is not None:
        mst = estimate_mst(todo.task_slots, todo.memory_mb, len(rows))
        rows.append(Observation(todo.task_slots, todo.memory_mb, mst))
    return rows


def main() -> None:
    """Print each step."""
    parser = argparse.ArgumentParser(description="Capacity planning end to end.")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    chosen = parser.parse_args()

    # One task of each operator was measured: events per second, share of time it was busy.
    measured = {"parse": (9_000, 0.75), "join": (3_600, 0.90), "sink": (1_800, 0.05)}
    ratios = {"parse": 1.0, "join": 0.4, "sink": 0.2}
    rates = [true_rate(rate, busyness) for rate, busyness in measured.values()]
    best = best_parallelism(rates, list(ratios.values()), budget=24)
    tasks = ", ".join(f"{name} {count}" for name, count in zip(measured, best.tasks, strict=True))
    print(f"24 task slots: {tasks}; the source can run at {best.source_rate:,.0f}/s")

    rows = explore()
    print(f"measured {len(rows)} configurations: " + ", ".join(f"{row.task_slots} slots" for row in rows))

    model = fit_capacity(rows)
    print(model.verdict)
    interval = model.slots_interval(RATE, MEMORY_MB)
    print(
        f"{RATE:,.0f}/s: {model.slots_for(RATE, MEMORY_MB)} slots by the {model.family} regression,", end=" "
    )
    print(f"{interval.low} to {interval.high or 'more than 5000'} at 90 % confidence")

    if chosen.plot:
        from fogctl.planner.picture import draw_capacity, save

        save(draw_capacity(model, [RATE], MEMORY_MB, headroom=0.10, confidence=0.90), chosen.plot)


if __name__ == "__main__":
    main()
