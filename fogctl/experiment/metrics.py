"""The rows of metrics.parquet: a stage, a node or the host at one second of a part. Written line by line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        ("policy", pa.string()),
        ("repetition", pa.int32()),
        ("at_s", pa.float64()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("offered_rate", pa.float64()),
        ("input_rate", pa.float64()),
        ("processed_rate", pa.float64()),
        ("lag", pa.float64()),
        ("replicas", pa.int32()),
        ("share", pa.float64()),
        ("cores", pa.float64()),
        ("nodes", pa.string()),
        ("rtt_max_ms", pa.float64()),
        ("batch_ms", pa.float64()),
        ("batch_rows", pa.float64()),
        ("busyness", pa.float64()),
        ("used_cores", pa.float64()),
        ("quota_cores", pa.float64()),
        ("memory_bytes", pa.int64()),
        ("busy", pa.float64()),
        ("executors", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line; what does not apply is None. `at_s` counts from the start of the part's replay."""

    policy: str
    repetition: int
    at_s: float
    kind: str
    """stage, node or host each second; batch: one micro-batch of a stage, at its end."""
    name: str
    offered_rate: float | None = None
    """Records due in this second by the schedule; None for a stage that reads another stage."""
    input_rate: float | None = None
    processed_rate: float | None = None
    lag: float | None = None
    replicas: int | None = None
    share: float | None = None
    """Mean share of its replicas."""
    cores: float | None = None
    """Sum of share × the node's quota over its replicas; None where a node is not limited."""
    nodes: str | None = None
    """Where its replicas are, joined by commas."""
    rtt_max_ms: float | None = None
    batch_ms: float | None = None
    batch_rows: float | None = None
    busyness: float | None = None
    used_cores: float | None = None
    quota_cores: float | None = None
    memory_bytes: int | None = None
    busy: float | None = None
    """Share of the host's CPU in use."""
    executors: int | None = None
    """Replicas that the driver has: those that were placed and have registered."""


class RowWriter:
    """Rows appended to a file of JSON lines, so that a killed run keeps what it has seen."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._stream: TextIO = file.open("w", encoding="utf-8")

    def write(self, rows: Iterable[Row]) -> None:
        """Append the rows of one second."""
        for row in rows:
            kept = {name: value for name in SCHEMA.names if (value := getattr(row, name)) is not None}
            self._stream.write(json.dumps(kept) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Let the file go."""
        self._stream.close()


def read_lines(file: Path) -> pa.Table:
    """The rows of a RowWriter's file; a last line cut short by a crash is passed over."""
    rows: list[dict[str, Any]] = []
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return SCHEMA.empty_table()
    for line in text.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def save(table: pa.Table, file: Path) -> None:
    """Write a table in one piece: a reader sees the old or the new one."""
    fresh = file.with_name(file.name + ".new")
    pq.write_table(table, fresh, compression="zstd")
    fresh.replace(file)


def load(file: Path) -> pa.Table:
    """Read a table back; an empty one if there is none."""
    return pq.read_table(file, schema=SCHEMA) if file.is_file() else SCHEMA.empty_table()
