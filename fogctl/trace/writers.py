"""Writes a trace as CSV or Parquet, by the file's ending."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from fogctl.errors import FogError
from fogctl.trace.rides import Rides


def write(rides: Rides, path: Path) -> None:
    """Write under a temporary name first: a file of that name is always whole."""
    if path.suffix not in {".csv", ".parquet"}:
        raise FogError(f"cannot tell the format from {path.suffix or 'no ending'!r}", file=path,
                       hint="end the name in .csv or .parquet")  # fmt: skip
    partial = path.with_name(f".{path.name}.partial")
    try:
        if path.suffix == ".csv":
            pa_csv.write_csv(rides.table, partial)
        else:
            pa_parquet.write_table(rides.table, partial)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise FogError(f"cannot be written: {error.strerror or error}", file=path, exit_code=1) from error
