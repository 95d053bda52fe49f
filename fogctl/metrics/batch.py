"""Spark's own report of a micro-batch as a value, and where its checkpoint says a query stands. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

WHOLE = "triggerExecution"
"""Spark's name for the whole of a batch; its other durations are parts of it."""
Offsets = Mapping[str, int]
"""By `TOPIC-PARTITION`, the number of the next record."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a query."""

    started_s: float
    """Unix time."""
    duration_s: float
    rows: int
    split_ms: Mapping[str, float]
    """By Spark's phases, without the whole."""
    processed: Offsets
    """Where it ended: what comes before is processed."""
    latest: Offsets
    """What the topics held when it was planned."""
    latest_at_s: float
    """When Spark had read that."""
    state_rows: int
    state_bytes: int
    watermark_s: float | None

    @property
    def ended_s(self) -> float:
        """When it was committed."""
        return self.started_s + self.duration_s


def read_batch(progress: Mapping[str, Any]) -> Batch:
    """A progress event (its JSON, parsed) as a Batch."""
    durations: Mapping[str, float] = progress.get("durationMs") or {}
    started = _unix_s(progress["timestamp"])
    sources = progress.get("sources") or []
    operators = progress.get("stateOperators") or []
    return Batch(
        started_s=started,
        duration_s=float(durations.get(WHOLE, progress.get("batchDuration", 0))) / 1000,
        rows=int(progress.get("numInputRows") or 0),
        split_ms={phase: float(ms) for phase, ms in durations.items() if phase != WHOLE},
        processed=_least(read_offsets(source.get("endOffset")) for source in sources),
        latest=_least(read_offsets(source.get("latestOffset")) for source in sources),
        latest_at_s=started + float(durations.get("latestOffset", 0)) / 1000,
        state_rows=sum(int(operator.get("numRowsTotal") or 0) for operator in operators),
        state_bytes=sum(int(operator.get("memoryUsedBytes") or 0) for operator in operators),
        watermark_s=_watermark_s(progress.get("eventTime") or {}),
    )


def read_offsets(given: Any) -> dict[str, int]:
    """Spark's `{"topic": {"0": 17}}`, as JSON text or parsed, as `{"topic-0": 17}`; null has none."""
    found = json.loads(given) if isinstance(given, str) else given
    return {
        f"{topic}-{partition}": int(offset)
        for topic, partitions in (found or {}).items()
        for partition, offset in partitions.items()
    }


def committed_offsets(commits: Mapping[int, str], planned: Mapping[int, str]) -> dict[str, int] | None:
    """Where a query stands, from the texts of its checkpoint's `commits` and `offsets` files by batch number.

    None without a committed batch: the query will begin where its topics begin.
    """
    done = [number for number in planned if number in commits]
    if not done:
        return None
    # Version, metadata, then one line a source; a source that had nothing yet has a dash.
    sources = [line for line in planned[max(done)].splitlines()[2:] if line.strip() not in ("", "-")]
    return _least(read_offsets(line) for line in sources)


def _least(offsets: Any) -> dict[str, int]:
    """Several sources' offsets together: of a partition that two read, the one that is behind counts."""
    found: dict[str, int] = {}
    for each in offsets:
        for partition, offset in each.items():
            found[partition] = min(offset, found.get(partition, offset))
    return found


def _unix_s(text: str) -> float:
    """Spark's `2026-05-01T12:00:00.123Z`."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC).timestamp()


def _watermark_s(event_time: Mapping[str, str]) -> float | None:
    """The watermark; the start of 1970 is Spark's way to say that there is none yet."""
    found = event_time.get("watermark")
    return (_unix_s(found) or None) if found else None
