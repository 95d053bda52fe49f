"""What was measured: one sample of sustained throughput, and many of them as arrays to fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fogmodels.throughput import checks

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """A stage sustained `mst` records/s with `replicas` executors, the farthest `rtt_max_ms` away.

    `batch_rows` is the most rows a micro-batch may take, `partitions` the tasks of a batch (None: one
    per replica), `weight` how much this sample counts (0.2 for a cold JVM, say), `share` the CPU share
    of each replica. `slots` says how many tasks a replica runs at a time; then tasks are counted whole: a
    batch waits for the replica with most of them (None: they run in turn and work divides evenly).
    `cold` is how far from warm the coldest replica was: 1 when it begins, 0 once it is warm.
    """

    replicas: int
    rtt_max_ms: float
    mst: float
    batch_rows: float | None = None
    partitions: int | None = None
    weight: float = 1.0
    share: float = 1.0
    slots: int | None = None
    cold: float = 0.0

    def __post_init__(self) -> None:
        checks.whole("replicas", self.replicas)
        checks.real("rtt_max_ms", self.rtt_max_ms)
        checks.real("mst", self.mst, above=0.0)
        if self.batch_rows is not None:
            checks.real("batch_rows", self.batch_rows, above=0.0)
        if self.partitions is not None:
            checks.whole("partitions", self.partitions)
        if not 1e-6 <= checks.real("weight", self.weight) <= 1e6:
            raise ValueError(f"weight must lie between 1e-06 and 1e+06, not {self.weight:g}.")
        checks.real("share", self.share, above=0.0)
        if self.slots is not None:
            checks.whole("slots", self.slots)
        if checks.real("cold", self.cold) > 1.0:
            raise ValueError(f"cold must lie between 0 and 1, not {self.cold:g}.")


def tasks_per_replica(replicas: int, partitions: int | None) -> int:
    """m = ceil(partitions/replicas): how many tasks of a batch the busiest replica has."""
    return 1 if partitions is None else -(-partitions // replicas)


@dataclass(frozen=True, slots=True)
class Point:
    """A configuration as the forms see it: what of a batch the replica has that it waits for."""

    replicas: int
    rtt_ms: float
    rows: float
    tasks: int
    """m, of the busiest replica."""
    rounds: int
    """How many of them run after one another."""
    ways: float
    """Into how many equal parts the work falls, of which the busiest replica has one."""
    share: float
    cold: float = 0.0

    @classmethod
    def of(
        cls,
        replicas: int,
        rtt_ms: float,
        rows: float,
        partitions: int | None,
        share: float,
        slots: int | None = None,
        cold: float = 0.0,
    ) -> Point:
        """Tasks are whole where slots are known: with 8 of them, 5 replicas do what 4 do."""
        tasks = tasks_per_replica(replicas, partitions)
        if slots is None or partitions is None:
            return cls(replicas, rtt_ms, rows, tasks, tasks, float(replicas), share, cold)
        return cls(replicas, rtt_ms, rows, tasks, -(-tasks // slots), partitions / tasks, share, cold)


class Measurements:
    """Samples as columns of one table. `rows` is NaN where a sample does not say its batch size."""

    __slots__ = (
        "cold",
        "mst",
        "replicas",
        "rounds",
        "rows",
        "rtt_ms",
        "share",
        "table",
        "tasks",
        "ways",
        "weight",
    )

    def __init__(self, table: Vector) -> None:
        self.table = table
        self.replicas, self.rtt_ms, self.rows, self.tasks, self.rounds, self.ways = table[:6]
        self.share, self.cold, self.mst, self.weight = table[6:]

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> Measurements:
        """The columns of `samples`."""
        return cls(np.array([_line(s) for s in samples], dtype=np.float64).T)

    @classmethod
    def at(cls, point: Point) -> Measurements:
        """One configuration to ask about, as if 1 record/s had been measured there."""
        return cls(np.array([_columns(point, 1.0, 1.0)], dtype=np.float64).T)

    def point(self, index: int) -> Point:
        """One line's configuration."""
        n, rtt_ms, rows, tasks, rounds, ways, share, cold = self.table[:8, index].tolist()
        return Point(int(n), rtt_ms, rows, int(tasks), int(rounds), ways, share, cold)

    def with_sample(self, sample: Sample) -> Measurements:
        """These columns and one line more."""
        return Measurements(np.column_stack([self.table, _line(sample)]))

    def without(self, index: int) -> Measurements:
        """These columns and one line less."""
        return Measurements(np.delete(self.table, index, axis=1))

    def __len__(self) -> int:
        return len(self.mst)


def _line(s: Sample) -> tuple[float, ...]:
    rows = float("nan") if s.batch_rows is None else float(s.batch_rows)
    partitions = None if s.partitions is None else int(s.partitions)
    slots = None if s.slots is None else int(s.slots)
    point = Point.of(int(s.replicas), float(s.rtt_max_ms), rows, partitions, float(s.share), slots, s.cold)
    return _columns(point, float(s.mst), float(s.weight))


def _columns(p: Point, mst: float, weight: float) -> tuple[float, ...]:
    return p.replicas, p.rtt_ms, p.rows, p.tasks, p.rounds, p.ways, p.share, p.cold, mst, weight
