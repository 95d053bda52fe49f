"""Removes what is not a ride: duplicates and invalid rows, each counted by its reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogctl.trace.rides import Rides

# New York and its airports, with room to spare.
_WEST, _EAST, _SOUTH, _NORTH = -74.3, -73.6, 40.4, 41.1


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The rides that are left, in order of time, and how many rows went for which reason."""

    rides: Rides
    removed: dict[str, int]
    moved: int
    """Rows that stood out of order in the file and were sorted in."""


def clean(rides: Rides) -> Cleaned:
    """Drop duplicates and invalid rows, then sort by pick-up time. A row is counted for its first fault."""
    table = rides.table
    pickup, dropoff = _micros(table, "pickup_time"), _micros(table, "dropoff_time")
    faults = {
        "no pick-up time": np.isnan(pickup),
        "no coordinates": _missing(table, "pickup_lon", "pickup_lat"),
        "outside the city": ~_inside(table),
        "no passengers": ~(table["passengers"].to_numpy(zero_copy_only=False).astype(float) >= 1),
        # A ride that has not ended yet has no end, or the epoch in the 2013 format: that is no fault.
        "ends before it starts": (dropoff > 0) & (dropoff < pickup),
        "duplicate": _repeated(table),
    }
    bad = np.zeros(table.num_rows, dtype=bool)
    removed = {"unreadable line": rides.unreadable}
    for reason, found in faults.items():
        removed[reason] = int((found & ~bad).sum())
        bad |= found
    kept = Rides(table.filter(pa.array(~bad)))
    times = _micros(kept.table, "pickup_time")
    latest = np.maximum.accumulate(times) if times.size else times
    return Cleaned(kept.in_order(), removed, int((times < latest).sum()))


def _micros(table: pa.Table, name: str) -> NDArray[np.float64]:
    return np.asarray(table[name].cast(pa.int64()).to_numpy(zero_copy_only=False), dtype=float)


def _missing(table: pa.Table, *names: str) -> NDArray[np.bool_]:
    values = [table[name].to_numpy(zero_copy_only=False).astype(float) for name in names]
    return np.asarray(np.logical_or.reduce([np.isnan(value) | (value == 0.0) for value in values]))


def _inside(table: pa.Table) -> NDArray[np.bool_]:
    lon = table["pickup_lon"].to_numpy(zero_copy_only=False).astype(float)
    lat = table["pickup_lat"].to_numpy(zero_copy_only=False).astype(float)
    return np.asarray((lon >= _WEST) & (lon <= _EAST) & (lat >= _SOUTH) & (lat <= _NORTH))


def _repeated(table: pa.Table) -> NDArray[np.bool_]:
    """Rows that equal an earlier one in ride, time and taxi, or in all but the ride's number.

    The second, because files without ride numbers get them by counting rows.
    """
    frame = table.to_pandas()
    same_ride = frame.duplicated(["pickup_time", "ride_id", "taxi_id"])
    same_rest = frame.duplicated([name for name in frame.columns if name != "ride_id"])
    return np.asarray(same_ride | same_rest, dtype=bool)
