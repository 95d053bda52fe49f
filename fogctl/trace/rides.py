"""A trace in memory: one row a ride, columns with fixed names and types."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

SCHEMA = pa.schema(
    [
        ("ride_id", pa.int64()),
        ("pickup_time", pa.timestamp("us")),
        ("dropoff_time", pa.timestamp("us")),
        ("pickup_lon", pa.float64()),
        ("pickup_lat", pa.float64()),
        ("dropoff_lon", pa.float64()),
        ("dropoff_lat", pa.float64()),
        ("passengers", pa.int32()),
        ("taxi_id", pa.int64()),
        ("driver_id", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Rides:
    """Rides in the order of the file; cells that a file left empty are null."""

    table: pa.Table
    unreadable: int = 0
    """Lines of the file that did not have its columns: cut short, or garbled."""

    def __post_init__(self) -> None:
        if self.table.schema != SCHEMA:
            raise ValueError(f"a trace has the columns {SCHEMA.names}, not {self.table.schema.names}")

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def pickup_s(self) -> NDArray[np.float64]:
        """Pick-up times in seconds since the first one of the file; NaN where a row has none."""
        micros = self.table["pickup_time"].cast(pa.int64()).to_numpy(zero_copy_only=False).astype(float)
        return np.asarray((micros - np.nanmin(micros)) / 1e6 if len(micros) else micros)

    def in_order(self) -> Rides:
        """The same rides sorted by pick-up time; rides of the same instant keep their order."""
        times = self.table["pickup_time"].cast(pa.int64()).to_numpy(zero_copy_only=False).astype(float)
        return Rides(self.table.take(pa.array(np.argsort(times, kind="stable"))))

    def values(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Each ride as the CSV text that a streaming app receives, columns in SCHEMA's order."""
        # Small batches: a replay waits while one is written out.
        plain = pa_csv.WriteOptions(include_header=False, quoting_style="none")
        for batch in self.table.slice(start, None if stop is None else stop - start).to_batches(1000):
            lines = io.BytesIO()
            pa_csv.write_csv(batch, lines, plain)
            yield from lines.getvalue().splitlines()
