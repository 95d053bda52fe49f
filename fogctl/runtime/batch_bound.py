"""Keeps a running query's batches within their freshness bound, without restarting it."""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from fogctl.runtime import batch_size
from fogctl.runtime.batch_size import Batch

_COLD_BATCHES = 1
"""After a change of replicas: a batch that began before it, or that met cold executors, tells nothing."""


class BatchBound:
    """How many rows the next batch of a stage may have: learned, or given by somebody who measures."""

    def __init__(self, freshness_ms: float, slots: int, file: Path) -> None:
        self._freshness_ms = freshness_ms
        self._slots = slots
        self._file = file
        self._recent: deque[Batch] = deque(maxlen=batch_size.MEMORY)
        self._lock = threading.Lock()
        self._fixed = False
        self._skip = _COLD_BATCHES
        self.max_rows, self._replicas = self._remembered()

    def fix(self, rows: int | None) -> None:
        """Keep to this many rows, whatever batches take; None: learn again."""
        with self._lock:
            self._fixed = rows is not None
            self._recent.clear()
            if rows is not None:
                self.max_rows = rows

    def observe(self, progress: Mapping[str, Any], replicas: int) -> bool:
        """Learn from a batch; answers whether the bound is another one now."""
        with self._lock:
            if self._fixed:
                return False
            before = self.max_rows
            if replicas != self._replicas:
                self._scaled(replicas)
                self._skip = _COLD_BATCHES
            elif self._skip > 0:
                self._skip -= 1
            else:
                self._recent.append(_batch(progress))
                self.max_rows = batch_size.next_limit(self.max_rows, self._recent, self._freshness_ms)
            if self.max_rows != before:
                self._remember()
            return self.max_rows != before

    def facts(self) -> dict[str, Any]:
        """What has been learned, for whoever asks."""
        with self._lock:
            seen = [batch for batch in self._recent if batch.rows > 0 and batch.duration_ms >= 1]
            found = {"freshness_ms": self._freshness_ms, "fixed": self._fixed, "max_rows": self.max_rows}
            if not seen:
                return found
            cost = batch_size.learn(seen)
            return {
                **found,
                "fixed_ms": round(cost.fixed_ms, 1),
                "row_ms": round(cost.row_ms, 4),
                "held": cost.fixed_ms < self._freshness_ms,
            }

    def _scaled(self, replicas: int) -> None:
        if replicas == self._replicas:
            return
        if self._replicas == 0 and not self._file.exists():
            self.max_rows = batch_size.first_limit(replicas * self._slots)
        else:
            self.max_rows = batch_size.after_scaling(self.max_rows, self._replicas, replicas)
        self._recent.clear()
        if replicas:
            self._replicas = replicas

    def _remember(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps({"max_rows": self.max_rows, "replicas": self._replicas}))
        fresh.replace(self._file)

    def _remembered(self) -> tuple[int, int]:
        try:
            data = json.loads(self._file.read_text())
            return max(1, int(data["max_rows"])), max(0, int(data["replicas"]))
        except (OSError, ValueError, KeyError, TypeError):
            return batch_size.first_limit(self._slots), 0


def apply(query: StreamingQuery, max_rows: int, progress: Mapping[str, Any]) -> None:
    """Bound the next batches of a running query; with several inputs, each by what waits there.

    Spark reads its limits anew for each batch from a map that it makes once, when the query starts. There is
    no other way to change them than to replace that map or to restart the query.
    """
    execution: Any = query._jsq.streamingQuery()
    limits = execution.uniqueSources()
    rows = shares(max_rows, progress)
    streams = limits.keysIterator()
    while streams.hasNext():
        stream = streams.next()
        limit = _read_limit(rows.get(str(stream.toString()), max_rows))
        limits = limits.updated(stream, limit)
    getattr(execution, "uniqueSources_$eq")(limits)


def shares(max_rows: int, progress: Mapping[str, Any]) -> dict[str, int]:
    """The bound divided among the inputs, by their names, in proportion to what each has waiting."""
    waiting = {
        source["description"]: max(1, int(source.get("numInputRows") or 0)) + _lag(source)
        for source in progress.get("sources", [])
    }
    total = sum(waiting.values())
    return {name: max(1, round(max_rows * rows / total)) for name, rows in waiting.items()}


def _lag(source: Mapping[str, Any]) -> int:
    """Records of an input that were there when the batch began and are not in it."""
    latest, end = source.get("latestOffset") or {}, source.get("endOffset") or {}
    if not isinstance(latest, dict) or not isinstance(end, dict):
        return 0
    return sum(
        max(0, int(offset) - int(end.get(topic, {}).get(partition, offset)))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )


def _read_limit(rows: int) -> Any:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None
    assert context._jvm is not None
    return context._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows(rows)


def _batch(progress: Mapping[str, Any]) -> Batch:
    duration = (progress.get("durationMs") or {}).get("triggerExecution", 0)
    return Batch(int(progress.get("numInputRows") or 0), float(duration))


def complain(error: Exception) -> None:
    """Say once that this Spark does not take a new bound while the query runs."""
    print(f"the batch size cannot be changed live: {error}", file=sys.stderr, flush=True)
