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
    of each replica.
    """

    replicas: int
    rtt_max_ms: float
    mst: float
    batch_rows: float | None = None
    partitions: int | None = None
    weight: float = 1.0
    share: float = 1.0

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


def tasks_per_replica(replicas: int, partitions: int | None) -> int:
    """m = ceil(partitions/replicas): how many tasks of a batch one replica runs after another."""
    return 1 if partitions is None else -(-partitions // replicas)


class Measurements:
    """Samples as columns of one table. `rows` is NaN where a sample does not say its batch size."""

    __slots__ = ("mst", "replicas", "rows", "rtt_ms", "share", "table", "tasks", "weight")

    def __init__(self, table: Vector) -> None:
        self.table = table
        self.replicas, self.rtt_ms, self.mst, self.rows, self.tasks, self.weight, self.share = table

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> Measurements:
        """The columns of `samples`."""
        return cls(np.array([_line(s) for s in samples], dtype=np.float64).T)

    @classmethod
    def point(cls, replicas: int, rtt_ms: float, rows: float, tasks: int, share: float) -> Measurements:
        """One configuration to ask about, as if 1 record/s had been measured there."""
        return cls(np.array([[replicas], [rtt_ms], [1.0], [rows], [tasks], [1.0], [share]], dtype=np.float64))

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
    tasks = float(tasks_per_replica(int(s.replicas), None if s.partitions is None else int(s.partitions)))
    return float(s.replicas), float(s.rtt_max_ms), float(s.mst), rows, tasks, float(s.weight), float(s.share)
