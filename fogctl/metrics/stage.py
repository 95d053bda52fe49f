"""What a stage does, from its batches and from looks at its driver and its topics. Pure.

Spark reports a batch when it is over, says nothing while there is no data, and commits no offsets to the
broker. So what arrived is read from the broker at every look, what is processed from the newest batch that
ended, and both are known in the middle of a long batch and when the stage is idle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fogctl.metrics.batch import Batch, Offsets
from fogctl.metrics.values import WINDOW_S, StageMetrics


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor at one look."""

    node: str
    slots: int
    """Tasks it runs at a time."""
    run_s: float
    """Time its tasks took since it started, those still running included."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the driver and the broker said at one moment."""

    at_s: float
    executors: Mapping[str, Executor]
    """By Spark's identity of each."""
    ends: Offsets
    """What the topics held; empty if the broker did not answer."""
    in_batch: bool
    """Whether a batch was running."""

    @property
    def slots(self) -> int:
        """Tasks that all executors together run at a time."""
        return sum(executor.slots for executor in self.executors.values())


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose metrics these are."""

    app: str
    stage: str


def stage_metrics(
    who: Identity,
    batches: Sequence[Batch],
    looks: Sequence[Look],
    *,
    begin: Offsets,
    max_rows: int,
    window_s: float = WINDOW_S,
) -> StageMetrics:
    """The stage's metrics over the `window_s` that end with the newest look.

    Batches and looks are given in the order of time, at least one look; those before the window help to know
    where it began. `begin` is where the query stood before the first of these batches.
    """
    now = looks[-1].at_s
    over = [batch for batch in batches if batch.ended_s <= now]
    seen = [look for look in looks if look.at_s >= now - window_s]
    times = [look.at_s for look in seen]
    start = times[0]
    arrived = _newest(_told(over, looks), times)
    processed = _newest([(-math.inf, begin), *((batch.ended_s, batch.processed) for batch in over)], times)
    lags = [_lag_by_partition(*each) for each in zip(arrived, processed, strict=True)]
    newest = over[-1] if over else None
    running_s = now - newest.ended_s if newest and seen[-1].in_batch else 0.0
    cycle_s = max([running_s, *(batch.duration_s for batch in over if batch.ended_s >= start)])
    trend = _trend(times, [sum(lag.values()) for lag in lags], cycle_s)
    with_rows = [batch for batch in over if batch.rows > 0]
    typical = [batch for batch in with_rows if batch.ended_s > start] or with_rows[-1:]
    spent_s = sum(batch.duration_s for batch in typical)
    watermark = newest.watermark_s if newest else None
    return StageMetrics(
        app=who.app,
        stage=who.stage,
        at_s=now,
        nodes=tuple(sorted(executor.node for executor in seen[-1].executors.values())),
        slots=seen[-1].slots,
        input_rate=input_rate(_told(over, looks), start, now),
        processed_rate=processed_rate(over, start, now, in_batch=seen[-1].in_batch),
        lag=sum(lags[-1].values()),
        lag_by_partition=lags[-1],
        lag_trend=trend[0],
        lag_trend_low=trend[1],
        lag_trend_high=trend[2],
        batch_ms=_milliseconds(_mean([batch.duration_s * 1000 for batch in typical])),
        batch_split_ms=_mean_split(typical),
        batch_rows=_mean([float(batch.rows) for batch in typical]),
        max_rows=max_rows,
        busyness=busyness(seen),
        true_rate=sum(batch.rows for batch in typical) / spent_s if spent_s > 0 else 0.0,
        state_rows=newest.state_rows if newest else 0,
        state_bytes=newest.state_bytes if newest else 0,
        watermark_delay_s=None if watermark is None else now - watermark,
        window_s=now - start,
        newest_batch_at_s=newest.ended_s if newest else None,
    )


def processed_rate(batches: Sequence[Batch], start: float, now: float, *, in_batch: bool) -> float:
    """Records processed a second between two moments, from the batches that were over at the second.

    A batch counts by as much of it as lies in the window. The one that runs at the end tells its rows only
    when it is over, so the rate is that up to its start: else a stage with long batches would seem slow.
    A batch that has run for more than half of the window counts as standing still.
    """
    if now <= start:
        return 0.0
    end = now
    if in_batch:
        newest = max((batch.ended_s for batch in batches), default=start)
        if now - newest <= (now - start) / 2:
            end = newest
    rows = 0.0
    for batch in batches:
        if batch.duration_s > 0:
            inside = min(batch.ended_s, end) - max(batch.started_s, start)
            rows += batch.rows * max(0.0, inside) / batch.duration_s
    return rows / (end - start)


def busyness(looks: Sequence[Look]) -> float:
    """Executor run time over slots × wall time, 0 to 1.

    An executor that is new at a look did all its work since the look before; one that is gone at a look is
    taken to have stopped with the look before.
    """
    run_s = offered_s = 0.0
    for before, after in pairwise(looks):
        for name, executor in after.executors.items():
            known = before.executors.get(name)
            run_s += executor.run_s - (known.run_s if known is not None else 0.0)
            offered_s += executor.slots * (after.at_s - before.at_s)
    return min(1.0, max(0.0, run_s / offered_s)) if offered_s > 0 else 0.0


def input_rate(told: Sequence[tuple[float, Offsets]], start: float, now: float) -> float:
    """Records arriving a second, between the first and the last time in the window that somebody looked."""
    inside = [each for each in told if start <= each[0] <= now]
    if not inside or inside[-1][0] <= inside[0][0]:
        return 0.0
    # A partition counts from the moment it was first seen: what it held then is no arrival.
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for _, offsets in inside:
        first = {**offsets, **first}
        last = {**last, **offsets}
    return max(0, sum(last.values()) - sum(first.values())) / (inside[-1][0] - inside[0][0])


def _told(batches: Sequence[Batch], looks: Sequence[Look]) -> list[tuple[float, Offsets]]:
    """When it was known what the topics held: at each batch's planning, and whenever the broker answered."""
    told = [(batch.latest_at_s, batch.latest) for batch in batches]
    told += [(look.at_s, look.ends) for look in looks]
    return sorted((each for each in told if each[1]), key=lambda each: each[0])


def _newest(told: Sequence[tuple[float, Offsets]], times: Sequence[float]) -> list[dict[str, int]]:
    """The newest offset of each partition at each of these times; both are in order."""
    found: list[dict[str, int]] = []
    known: dict[str, int] = {}
    next_one = 0
    for moment in times:
        while next_one < len(told) and told[next_one][0] <= moment:
            for partition, offset in told[next_one][1].items():
                known[partition] = max(offset, known.get(partition, offset))
            next_one += 1
        found.append(dict(known))
    return found


def _lag_by_partition(arrived: Offsets, processed: Offsets) -> dict[str, int]:
    """Records of each partition that arrived and are not processed."""
    partitions = sorted(arrived.keys() | processed.keys(), key=_by_topic_and_number)
    return {p: max(0, arrived.get(p, 0) - processed.get(p, 0)) for p in partitions}


def _by_topic_and_number(partition: str) -> tuple[str, int]:
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


def _trend(times_s: Sequence[float], lags: Sequence[int], cycle_s: float) -> tuple[float, float, float]:
    """Slope of the lag with its 95 % interval; all 0 with fewer than three looks."""
    if len(set(times_s)) < 3:
        return (0.0, 0.0, 0.0)
    # It brings numpy: loaded after the stage has started, not before.
    from fogmodels.scalability import lag_trend

    # Within one batch the lag only grows; that is no trend.
    found = lag_trend(times_s, lags, cycle_s=cycle_s)
    return (found.slope_per_s, found.low, found.high)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _mean_split(batches: Sequence[Batch]) -> dict[str, float]:
    phases = sorted({phase for batch in batches for phase in batch.split_ms})
    return {
        phase: _milliseconds(_mean([batch.split_ms.get(phase, 0.0) for batch in batches])) for phase in phases
    }


def _milliseconds(value: float) -> float:
    """To the microsecond: then it is the same number again after a way as seconds."""
    return round(value, 3)
