"""How many rows a batch may have so that it takes no longer than its freshness bound. Pure.

A batch takes a fixed time (planning, commits, round trips to the executors) and a time for each row; both
are learned from the batches that ran. A nearly empty batch says little about a full one, one slow batch may
be chance, and a share or a latency can change at any moment, so: medians, a short memory, steps of at most a
factor of two, and only full batches make the bound larger.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

FIRST_ROWS_PER_SLOT = 50
"""Before anything is known."""
MOST_ROWS = 1_000_000
MEMORY = 12
"""Batches that are remembered."""
AIM = 0.9
"""Aim below the bound, so that ordinary scatter stays within it."""
_FASTEST_STEP = 2.0
_LEAST_STEP = 0.05
"""Smaller corrections than this are not worth making."""
_ENOUGH = 0.5
"""A batch with this part of the rows it may have is called full."""
_OFF = 1.3
"""The newest batches differing by this factor from what the older ones foretold: something has changed."""
_NEWEST = 3
_COLD_BATCHES = 1
"""After a change of replicas: a batch that began before it, or that met cold executors, tells nothing."""
LEAST_WORK = 0.25
"""Of the fixed time: a bound that the fixed time alone uses up cannot be held, and smaller batches would only
do less in the same time."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch that ran."""

    rows: int
    duration_ms: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What a batch takes: `fixed_ms` and, for each row, `row_ms`; `scatter` is relative."""

    fixed_ms: float
    row_ms: float
    scatter: float = 0.0

    def duration_ms(self, rows: float) -> float:
        """What a batch of so many rows is expected to take."""
        return self.fixed_ms + self.row_ms * rows


def room(freshness: float, fixed: float, scatter: float = 0.0) -> float:
    """The time that a batch has for its rows, in the unit of the bound and of what it takes without any."""
    return max(AIM * freshness / (1.0 + scatter) - fixed, LEAST_WORK * fixed)


def first_limit(slots: int) -> int:
    """Where to begin with so many slots."""
    return FIRST_ROWS_PER_SLOT * max(1, slots)


def after_scaling(limit: int, before: int, now: int) -> int:
    """The bound after the number of replicas changed: work for each replica stays what it was."""
    if before <= 0 or now <= 0 or before == now:
        return limit
    return _within(limit * now / before)


def next_limit(limit: int, recent: Sequence[Batch], freshness_ms: float) -> int:
    """The bound for the next batch, from the batches since the last change of replicas, oldest first.

    A batch that was not full and was quick enough changes nothing.
    """
    if freshness_ms <= 0:
        raise ValueError(f"a freshness bound is more than 0 ms, not {freshness_ms:g}")
    seen = [batch for batch in recent if batch.rows > 0 and batch.duration_ms >= 1][-MEMORY:]
    if not seen:
        return limit
    if seen[-1].rows < _ENOUGH * limit and seen[-1].duration_ms <= freshness_ms:
        return limit
    wanted = _fitting(learn(seen), freshness_ms)
    # Beyond what has been tried, trust the line only for one step.
    most = min(limit, max(batch.rows for batch in seen)) * _FASTEST_STEP
    wanted = max(min(wanted, most), limit / _FASTEST_STEP)
    if abs(wanted - limit) < _LEAST_STEP * limit:
        return limit
    return _within(wanted if wanted < limit else math.ceil(wanted))


def learn(batches: Sequence[Batch]) -> Cost:
    """The cost of a batch; where the newest contradict the older ones together, from the newest alone."""
    older, newest = batches[:-_NEWEST], batches[-_NEWEST:]
    if len(older) >= _NEWEST:
        cost = _line(older)
        ratios = [batch.duration_ms / cost.duration_ms(batch.rows) for batch in newest]
        if min(ratios) > _OFF or max(ratios) < 1 / _OFF:
            return _line(newest)
    return _line(batches)


def _line(batches: Sequence[Batch]) -> Cost:
    """The median line through the batches (Theil–Sen): neither part can be negative."""
    slopes = [
        (b.duration_ms - a.duration_ms) / (b.rows - a.rows)
        for place, a in enumerate(batches)
        for b in batches[place + 1 :]
        # Two batches of nearly the same size differ by chance, not by their rows.
        if abs(b.rows - a.rows) > 0.2 * max(a.rows, b.rows)
    ]
    # Without batches of different sizes all time is taken to be the rows': growing by that rule never
    # overshoots, and shrinking by it gives batches of different sizes.
    largest = max(batch.rows for batch in batches)
    per_row = statistics.median(b.duration_ms / b.rows for b in batches if b.rows > 0.8 * largest)
    row_ms = min(max(statistics.median(slopes), 0.05 * per_row), per_row) if slopes else per_row
    fixed_ms = max(0.0, statistics.median(b.duration_ms - row_ms * b.rows for b in batches))
    cost = Cost(fixed_ms, row_ms)
    off = [abs(b.duration_ms / cost.duration_ms(b.rows) - 1) for b in batches]
    return Cost(fixed_ms, row_ms, min(0.3, statistics.median(off)))


def _fitting(cost: Cost, freshness_ms: float) -> float:
    return room(freshness_ms, cost.fixed_ms, cost.scatter) / cost.row_ms


def _within(rows: float) -> int:
    return int(min(max(rows, 1), MOST_ROWS))


@dataclass(slots=True)
class Bound:
    """The bound of one stage, from batch to batch: it learns from batches and follows changes of replicas."""

    freshness_ms: float
    slots: int
    """Of one replica."""
    rows: int
    replicas: int = 0
    """Those that `rows` is for; 0: none was seen yet."""
    first: bool = True
    """Whether `rows` is only a guess, to be made anew once the number of replicas is known."""
    recent: deque[Batch] = field(default_factory=lambda: deque(maxlen=MEMORY))
    _skip: int = _COLD_BATCHES

    def observe(self, batch: Batch, replicas: int) -> bool:
        """Learn from a batch that ended with so many replicas; answers whether the bound is another now."""
        before = self.rows
        if replicas != self.replicas:
            self._scaled(replicas)
            self._skip = _COLD_BATCHES
        elif self._skip > 0:
            self._skip -= 1
        else:
            self.recent.append(batch)
            self.rows = next_limit(self.rows, self.recent, self.freshness_ms)
        self.first = self.first and self.rows == before
        return self.rows != before

    def _scaled(self, replicas: int) -> None:
        if self.replicas == 0 and self.first:
            self.rows = first_limit(replicas * self.slots)
        else:
            self.rows = after_scaling(self.rows, self.replicas, replicas)
        self.recent.clear()
        if replicas:
            self.replicas = replicas
