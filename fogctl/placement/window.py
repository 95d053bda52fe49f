"""A stage's figures out of its batches' progress and its replicas' CPU counters over one window. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fogctl.metrics.batch import read_batch
from fogctl.placement.profile import ReplicaProfile, StageProfile, StateSource

ROCKSDB_READ = ("rocksdbTotalBytesRead", "rocksdbTotalBytesReadThroughIterator")
ROCKSDB_WRITTEN = "rocksdbTotalBytesWritten"
"""Spark resets these with every batch (`stateStore.rocksdb.resetStatsOnLoad`)."""


@dataclass(frozen=True, slots=True)
class StateUse:
    """State that a batch read and wrote."""

    read_bytes: float = 0.0
    written_bytes: float = 0.0
    source: StateSource = StateSource.none


@dataclass(frozen=True, slots=True)
class CpuUse:
    """CPU that a replica used between two looks at its control group."""

    node: str
    cpu_s: float
    passed_s: float


@dataclass(frozen=True, slots=True)
class Written:
    """What a stage's output topic says of the window; the size is a sample's mean."""

    records: int = 0
    """That came into it. Counts where Spark does not say what a batch wrote: they come all at once."""
    bytes_per_record: float = 0.0


def rows_written(progress: Mapping[str, Any]) -> int | None:
    """The records that a batch wrote; None where Spark does not know."""
    rows = (progress.get("sink") or {}).get("numOutputRows")
    return rows if isinstance(rows, int) and rows >= 0 else None


def state_use(progress: Mapping[str, Any]) -> StateUse:
    """The state that a batch read and wrote, from its progress event.

    RocksDB counts bytes. The store in memory does not: a row it updates is taken to be read and written, one
    it removes to be written, each of the mean size of its rows. Rows that are new were not read, so that the
    reading is an upper bound.
    """
    read = written = 0.0
    source = StateSource.none
    for operator in progress.get("stateOperators") or []:
        counted: Mapping[str, float] = operator.get("customMetrics") or {}
        if ROCKSDB_WRITTEN in counted:
            read += sum(float(counted.get(name, 0)) for name in ROCKSDB_READ)
            written += float(counted[ROCKSDB_WRITTEN])
            source = StateSource.rocksdb
            continue
        rows = int(operator.get("numRowsTotal") or 0)
        size = float(counted.get("stateOnCurrentVersionSizeBytes") or operator.get("memoryUsedBytes") or 0)
        row_bytes = size / rows if rows else 0.0
        updated, removed = (int(operator.get(key) or 0) for key in ("numRowsUpdated", "numRowsRemoved"))
        read += updated * row_bytes
        written += (updated + removed) * row_bytes
        if source is StateSource.none:
            source = StateSource.rows
    return StateUse(read, written, source)


def stage_profile(
    stage: str,
    events: Sequence[Mapping[str, Any]],
    *,
    began_s: float,
    ended_s: float,
    cpu: Sequence[CpuUse],
    written: Written,
    busyness: float,
) -> StageProfile | None:
    """The stage over the window from `began_s` to `ended_s`; None if it processed nothing in it.

    A batch counts by as much of it as lies in the window, with its rows, its state and its output: CPU
    counters are read at the window's ends, wherever the batches are then.
    """
    records = read_bytes = written_bytes = 0.0
    handed_on: float | None = 0.0
    source = StateSource.none
    for event in events:
        batch = read_batch(event)
        inside_s = min(batch.ended_s, ended_s) - max(batch.started_s, began_s)
        if batch.duration_s <= 0 or inside_s <= 0:
            continue
        part = inside_s / batch.duration_s
        used = state_use(event)
        records += batch.rows * part
        rows = rows_written(event)
        handed_on = None if rows is None or handed_on is None else handed_on + rows * part
        read_bytes += used.read_bytes * part
        written_bytes += used.written_bytes * part
        source = used.source if source is StateSource.none else source
    if records <= 0:
        return None
    rate = records / (ended_s - began_s)
    output = (written.records if handed_on is None else handed_on) / records
    return StageProfile(
        stage=stage,
        records=round(records, 3),
        records_per_s=rate,
        records_per_s_per_replica=rate / max(1, len(cpu)),
        cpu_s_per_record=sum(each.cpu_s for each in cpu) / records,
        state_read_bytes_per_record=read_bytes / records,
        state_written_bytes_per_record=written_bytes / records,
        state_source=source,
        output_records_per_record=output,
        output_bytes_per_record=output * written.bytes_per_record,
        busyness=busyness,
        replicas=[
            ReplicaProfile(
                node=each.node,
                cpu_s=each.cpu_s,
                cpu_used_cores=each.cpu_s / each.passed_s if each.passed_s > 0 else 0.0,
            )
            for each in cpu
        ],
    )
