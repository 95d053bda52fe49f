"""Reads a trace: our own CSV and Parquet, New York's TLC files with coordinates, and the 2013 ride format.

The format is told from the columns, not from the file's name. Cells that are not what they should be become
empty: cleaning counts them. Files that are not traces at all are refused with one sentence.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from fogctl.errors import FogError
from fogctl.trace.rides import SCHEMA, Rides

# Our column: the names it had in TLC's files from 2009 on. CSV files since July 2016 have zones instead of
# coordinates, and so have all Parquet files but those of 2009 and 2010.
_TLC_NAMES = {
    "pickup_time": ("tpep_pickup_datetime", "pickup_datetime", "trip_pickup_datetime"),
    "dropoff_time": ("tpep_dropoff_datetime", "dropoff_datetime", "trip_dropoff_datetime"),
    "pickup_lon": ("pickup_longitude", "start_lon"),
    "pickup_lat": ("pickup_latitude", "start_lat"),
    "dropoff_lon": ("dropoff_longitude", "end_lon"),
    "dropoff_lat": ("dropoff_latitude", "end_lat"),
    "passengers": ("passenger_count",),
    "taxi_id": ("medallion",),
    "driver_id": ("hack_license",),
}
_RIDES_2013 = (
    *("ride_id", "event", "pickup_time", "dropoff_time", "pickup_lon", "pickup_lat"),
    *("dropoff_lon", "dropoff_lat", "passengers", "taxi_id", "driver_id"),
)
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
_TIME = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?$"


def read(path: Path) -> Rides:
    """The rides of a file, in its order."""
    try:
        columns, unreadable = (_parquet(path), 0) if _starts_with(path, b"PAR1") else _delimited(path)
    except FogError:
        raise
    except (EOFError, zlib.error) as error:
        raise FogError(
            "the compressed file ends too early", file=path, hint="fetch or make it again"
        ) from error
    except (OSError, UnicodeDecodeError, pa.ArrowInvalid) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise FogError(f"cannot be read as a trace: {reason}", file=path) from error
    return Rides(_table(_known(columns, path)), unreadable)


def _starts_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _parquet(path: Path) -> dict[str, pa.ChunkedArray]:
    table = pa_parquet.read_table(path)
    return {name: table[name] for name in table.column_names}


def _delimited(path: Path) -> tuple[dict[str, pa.ChunkedArray], int]:
    """The columns, and how many lines do not have as many."""
    data = gzip.decompress(path.read_bytes()) if _starts_with(path, b"\x1f\x8b") else path.read_bytes()
    first = data[: data.find(b"\n") if b"\n" in data else len(data)].decode("utf-8").strip()
    if not first:
        raise FogError("is empty", file=path, hint="make one: fogctl trace make rides.csv")
    names = first.split(",")
    headerless = len(names) == len(_RIDES_2013) and names[1] in {"START", "END"}
    names = list(_RIDES_2013) if headerless else [name.strip().strip('"') for name in names]
    if len(set(names)) != len(names):
        raise FogError("a column name stands twice in the first line", file=path)
    skipped: list[int] = []

    def skip(row: pa_csv.InvalidRow) -> str:
        skipped.append(row.number or 0)
        return "skip"

    table = pa_csv.read_csv(
        pa.BufferReader(data),
        read_options=pa_csv.ReadOptions(column_names=names, skip_rows=0 if headerless else 1),
        parse_options=pa_csv.ParseOptions(invalid_row_handler=skip),
        convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )
    if len(skipped) > table.num_rows:
        raise FogError(f"most lines do not have the {len(names)} columns of the first", file=path)
    return {name: table[name] for name in names}, len(skipped)


def _known(columns: dict[str, pa.ChunkedArray], path: Path) -> dict[str, pa.ChunkedArray]:
    """The file's columns under our names."""
    lower = {name.strip().lower(): column for name, column in columns.items()}
    if {"ride_id", "pickup_time", "pickup_lon", "pickup_lat"} <= set(lower):
        if "event" in lower:
            starts = pc.equal(lower["event"], "START")
            lower = {name: column.filter(starts) for name, column in lower.items() if name != "event"}
        return {name: lower[name] for name in SCHEMA.names if name in lower}
    found = {ours: _first(lower, names) for ours, names in _TLC_NAMES.items()}
    if found["pickup_time"] is None:
        raise FogError(
            f"no pick-up time among its columns ({', '.join(list(columns)[:5])}, …)", file=path,
            hint="known: fogctl's own traces, TLC trip records, the 2013 ride format",
        )  # fmt: skip
    if found["pickup_lon"] is None or found["pickup_lat"] is None:
        raise FogError(
            "has taxi zones but no coordinates", file=path,
            hint="of TLC's files only 2009 and 2010 have them: fogctl trace fetch 2010-05, or trace make",
        )  # fmt: skip
    return {ours: column for ours, column in found.items() if column is not None}


def has_coordinates(names: Iterable[str]) -> bool:
    """Whether columns of these names tell where rides began."""
    lower = {name.strip().lower() for name in names}
    return all(lower & {ours, *_TLC_NAMES[ours]} for ours in ("pickup_lon", "pickup_lat"))


def _first(columns: dict[str, pa.ChunkedArray], names: Iterable[str]) -> pa.ChunkedArray | None:
    return next((columns[name] for name in names if name in columns), None)


def _table(columns: dict[str, pa.ChunkedArray]) -> pa.Table:
    rows = len(columns["pickup_time"])
    made = {
        field.name: _typed(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(rows, field.type)
        for field in SCHEMA
    }
    if "ride_id" not in columns:
        made["ride_id"] = pa.array(range(1, rows + 1), pa.int64())
    return pa.table(made, schema=SCHEMA)


def _typed(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """The column in the wanted type; text that does not fit becomes null, hashes become numbers."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column.cast(wanted, safe=False)
    if pa.types.is_timestamp(wanted):
        fits = pc.match_substring_regex(column, _TIME)
        return pc.if_else(fits, column, None).cast(wanted)
    number = pc.match_substring_regex(column, _NUMBER)
    if pa.types.is_floating(wanted):
        return pc.if_else(number, pc.utf8_trim_whitespace(column), None).cast(wanted)
    if pc.any(pc.and_(pc.invert(number), pc.not_equal(column, ""))).as_py() and pa.types.is_int64(wanted):
        # Medallions and licences are hashes in some years: number them in order of appearance.
        return pa.chunked_array([column.combine_chunks().dictionary_encode().indices.cast(wanted)])
    return (
        pc.if_else(number, pc.utf8_trim_whitespace(column), None).cast(pa.float64()).cast(wanted, safe=False)
    )
