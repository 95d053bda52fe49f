"""Keeps a running query's batches within their freshness bound, without restarting it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from fogctl.runtime import batch_size
from fogctl.runtime.batch_size import Batch, Bound


class BatchBound:
    """How many rows the next batch of a stage may have: learned, or given by somebody who measures."""

    def __init__(self, freshness_ms: float, slots: int, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._fixed = False
        rows, replicas, known = self._remembered(slots)
        self._bound = Bound(freshness_ms, slots, rows, replicas, first=not known)

    @property
    def max_rows(self) -> int:
        """The bound at present."""
        return self._bound.rows

    def fix(self, rows: int | None) -> None:
        """Keep to this many rows, whatever batches take; None: learn again."""
        with self._lock:
            self._fixed = rows is not None
            self._bound.recent.clear()
            if rows is not None:
                self._bound.rows = rows

    def observe(self, progress: Mapping[str, Any], replicas: int) -> bool:
        """Learn from a batch; answers whether the bound is another one now."""
        with self._lock:
            if self._fixed:
                return False
            changed = self._bound.observe(_batch(progress), replicas)
            if changed:
                self._remember()
            return changed

    def facts(self) -> dict[str, Any]:
        """What has been learned, for whoever asks."""
        with self._lock:
            bound = self._bound
            seen = [batch for batch in bound.recent if batch.rows > 0 and batch.duration_ms >= 1]
            found = {"freshness_ms": bound.freshness_ms, "fixed": self._fixed, "max_rows": bound.rows}
            if not seen:
                return found
            cost = batch_size.learn(seen)
            return {
                **found,
                "fixed_ms": round(cost.fixed_ms, 1),
                "row_ms": round(cost.row_ms, 4),
                "held": cost.fixed_ms < bound.freshness_ms,
            }

    def _remember(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps({"max_rows": self._bound.rows, "replicas": self._bound.replicas}))
        fresh.replace(self._file)

    def _remembered(self, slots: int) -> tuple[int, int, bool]:
        """Rows and replicas of an earlier runner, and whether there was one."""
        try:
            data = json.loads(self._file.read_text())
            return max(1, int(data["max_rows"])), max(0, int(data["replicas"])), True
        except (OSError, ValueError, KeyError, TypeError):
            return batch_size.first_limit(slots), 0, False


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
