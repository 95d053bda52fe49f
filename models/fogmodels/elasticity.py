"""How well supply followed demand: SPEC's elasticity metrics as the Gesscale paper uses them (section V-A.d).

Supply and demand are step functions: each value holds from its time until the next one's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Elasticity:
    """The scores of one run; lower is better for each.

    `accuracy_u`, `accuracy_o`: replicas missing, and to spare, on average over the period. `timeshare_u`,
    `timeshare_o`: fraction of the period with too few, too many (the paper's Table III prints per cent).
    `excess_time`: fraction of the period needed beyond it to finish, None if not measured.
    `reconfigurations`: changes of supply. `cost`: replica-minutes.
    """

    accuracy_u: float
    accuracy_o: float
    timeshare_u: float
    timeshare_o: float
    excess_time: float | None
    reconfigurations: int
    cost: float


def score(
    times_s: ArrayLike,
    supply: ArrayLike,
    demand: ArrayLike,
    *,
    demand_times_s: ArrayLike | None = None,
    end_s: float | None = None,
    finished_s: float | None = None,
    ideal_finished_s: float | None = None,
    reconfigurations: int | None = None,
    price_per_replica_minute: float = 1.0,
) -> Elasticity:
    """SPEC's metrics of `supply` against `demand` over the measured period, normalised by its length T.

    Both are given at `times_s`, or demand at its own `demand_times_s`. The period starts where both are
    known and ends at `end_s` (default: the last time given, whose value then only marks the end).
    `finished_s` is when the last record was processed, `ideal_finished_s` when an ideal scaler would have
    finished (default: the end); excess time is their difference over T, at least 0. Cost runs from the
    start until the end or until finished, whichever is later: replicas are paid while they drain.
    Give `reconfigurations` where moves that keep the count must be counted too.
    """
    have = _steps("times_s", times_s, "supply", supply)
    need = times_s if demand_times_s is None else demand_times_s
    want = _steps("times_s" if demand_times_s is None else "demand_times_s", need, "demand", demand)
    start = float(max(have[0][0], want[0][0]))
    end = float(max(have[0][-1], want[0][-1])) if end_s is None else _finite("end_s", end_s)
    if not end > start:
        raise ValueError(f"The period must have a length: it starts at {start:g} s and ends at {end:g} s.")
    length = end - start

    edges = np.unique(np.concatenate([[start, end], have[0], want[0]]))
    edges = edges[(edges >= start) & (edges <= end)]
    widths = np.diff(edges)
    short = _values(want, edges[:-1]) - _values(have, edges[:-1])
    until = end
    excess = None
    if finished_s is not None:
        until = max(end, _finite("finished_s", finished_s))
        ideal = end if ideal_finished_s is None else _finite("ideal_finished_s", ideal_finished_s)
        excess = max(0.0, finished_s - ideal) / length
    elif ideal_finished_s is not None:
        raise ValueError("ideal_finished_s needs finished_s beside it.")
    price = _finite("price_per_replica_minute", price_per_replica_minute)
    if price < 0.0:
        raise ValueError(f"price_per_replica_minute must not be negative, not {price:g}.")
    if reconfigurations is None:
        reconfigurations = _changes(have, start, end)
    elif isinstance(reconfigurations, bool) or not isinstance(reconfigurations, int) or reconfigurations < 0:
        raise ValueError(f"reconfigurations must be a whole number >= 0, not {reconfigurations!r}.")
    return Elasticity(
        accuracy_u=float(np.maximum(short, 0.0) @ widths) / length,
        accuracy_o=float(np.maximum(-short, 0.0) @ widths) / length,
        timeshare_u=float(widths[short > 0.0].sum()) / length,
        timeshare_o=float(widths[short < 0.0].sum()) / length,
        excess_time=excess,
        reconfigurations=reconfigurations,
        cost=price * _area(have, start, until) / 60.0,
    )


def ideal_supply(rates: ArrayLike, mst_by_replicas: ArrayLike, *, at_least: int = 1) -> NDArray[np.int64]:
    """For each rate the least n >= `at_least` whose best node set sustains it: the ideal curve.

    `mst_by_replicas[n - 1]` is the MST of the best set of n nodes; it may fall where a far node joins.
    A rate that no set sustains gets the least n of the greatest MST: the best one could do.
    """
    rate = _numbers("rates", rates)
    mst = _numbers("mst_by_replicas", mst_by_replicas)
    if isinstance(at_least, bool) or not isinstance(at_least, int) or not 1 <= at_least <= len(mst):
        raise ValueError(f"at_least must be a whole number from 1 to {len(mst)}, not {at_least!r}.")
    offered = mst[at_least - 1 :]
    # Only an n that beats all smaller ones can ever be the least that sustains a rate.
    best = np.maximum.accumulate(offered)
    index = np.searchsorted(best, np.minimum(rate, best[-1]), side="left")
    return np.asarray(index + at_least, dtype=np.int64)


def _steps(times_name: str, times_s: ArrayLike, name: str, values: ArrayLike) -> tuple[Vector, Vector]:
    """Validated (times, values); of several values at one time the last counts."""
    times, steps = _numbers(times_name, times_s, negative=True), _numbers(name, values)
    if len(times) != len(steps):
        raise ValueError(
            f"{name} must have one value for each of {times_name}: {len(steps)} for {len(times)}."
        )
    if (np.diff(times) < 0.0).any():
        raise ValueError(f"{times_name} must not go back.")
    last = np.append(np.diff(times) > 0.0, True)
    return times[last], steps[last]


def _numbers(name: str, values: ArrayLike, *, negative: bool = False) -> Vector:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers only.") from error
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a list of at least one number, not shape {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite.")
    if not negative and (array < 0.0).any():
        raise ValueError(f"{name} must not be negative.")
    return array


def _finite(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise ValueError(f"{name} must be a number, not {value!r}.")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {value}.")
    return float(value)


def _values(steps: tuple[Vector, Vector], at: Vector) -> Vector:
    times, values = steps
    return values[np.searchsorted(times, at, side="right") - 1]


def _area(steps: tuple[Vector, Vector], start: float, end: float) -> float:
    edges = np.unique(np.concatenate([[start, end], steps[0]]))
    edges = edges[(edges >= start) & (edges <= end)]
    return float(_values(steps, edges[:-1]) @ np.diff(edges))


def _changes(steps: tuple[Vector, Vector], start: float, end: float) -> int:
    """Changes of value after `start`, up to and including `end`."""
    times, values = steps
    changed = np.flatnonzero(np.diff(values) != 0.0) + 1
    return int(np.count_nonzero((times[changed] > start) & (times[changed] <= end)))
