"""Makes a taxi trace from a seed: New York's daily shape, plausible coordinates, dirt on request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogctl.trace.rides import SCHEMA, Rides

HOURLY_SHAPE = (
    *(0.76, 0.47, 0.30, 0.21, 0.18, 0.23, 0.58, 1.04, 1.24, 1.19, 1.11, 1.11),
    *(1.16, 1.15, 1.20, 1.13, 0.92, 1.16, 1.46, 1.57, 1.52, 1.54, 1.48, 1.28),
)
"""Taxi passengers in New York by hour of a Wednesday or Thursday, July 2014 to January 2015; mean 1."""

# Where rides begin and end: name, longitude, latitude, spread in degrees, share of the rides.
_PLACES = (
    ("Midtown", -73.985, 40.755, 0.0110, 0.40),
    ("Lower Manhattan", -74.006, 40.718, 0.0090, 0.20),
    ("Upper East Side", -73.959, 40.773, 0.0090, 0.15),
    ("Upper West Side", -73.976, 40.786, 0.0090, 0.10),
    ("Brooklyn", -73.960, 40.695, 0.0200, 0.07),
    ("LaGuardia", -73.872, 40.774, 0.0040, 0.04),
    ("Kennedy", -73.785, 40.646, 0.0050, 0.04),
)
_PASSENGER_SHARES = (0.71, 0.14, 0.04, 0.02, 0.06, 0.03)
_DIRT = ("duplicate", "no coordinates", "outside", "no passengers", "ends before it starts", "out of order")


@dataclass(frozen=True, slots=True)
class MakeOptions:
    """What to make. `dirt` is the share of rides that are spoiled, evenly over six kinds of spoiling."""

    seed: int = 1
    days: float = 2.0
    rides_per_day: float = 500_000
    start: str = "2013-05-01T00:00:00"
    dirt: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.days <= 366:
            raise ValueError(f"days must be above 0 and at most 366, not {self.days}")
        if not 0 < self.rides_per_day <= 50_000_000:
            raise ValueError(
                f"rides per day must be above 0 and at most 50 million, not {self.rides_per_day}"
            )
        if not 0 <= self.dirt <= 1:
            raise ValueError(f"dirt is a share between 0 and 1, not {self.dirt}")


def make(options: MakeOptions) -> Rides:
    """The trace of these options: the same options always give the same rides."""
    rng = np.random.default_rng(options.seed)
    pickup_s = _arrivals(options, rng)
    count = pickup_s.size
    start_us = np.datetime64(options.start, "us").astype(np.int64)
    pickup_us = start_us + (pickup_s * 1e6).astype(np.int64)
    from_lon, from_lat = _coordinates(count, rng)
    to_lon, to_lat = _coordinates(count, rng)
    km = 111.0 * np.hypot((to_lon - from_lon) * 0.757, to_lat - from_lat)
    # City traffic: about 18 km/h with a long tail, and a minute to get in and out.
    duration_s = 60 + km / 18 * 3600 * rng.lognormal(0.0, 0.3, count)
    taxis = rng.integers(0, 13_000, count)
    columns = {
        "ride_id": np.arange(1, count + 1),
        "pickup_time": pickup_us,
        "dropoff_time": pickup_us + (duration_s * 1e6).astype(np.int64),
        "pickup_lon": from_lon.round(6),
        "pickup_lat": from_lat.round(6),
        "dropoff_lon": to_lon.round(6),
        "dropoff_lat": to_lat.round(6),
        "passengers": rng.choice(np.arange(1, 7), count, p=_PASSENGER_SHARES).astype(np.int32),
        "taxi_id": 2_013_000_000 + taxis,
        "driver_id": 2_013_000_000 + (taxis * 2 + (pickup_s % 86_400 >= 43_200)),
    }
    rides = Rides(pa.table({name: pa.array(columns[name]) for name in SCHEMA.names}).cast(SCHEMA))
    return _spoil(rides, options.dirt, rng) if options.dirt else rides


def rate_shape(hour_of_day: NDArray[np.float64]) -> NDArray[np.float64]:
    """Relative demand at an hour of the day (fractions too): linear between the middles of the hours."""
    knots = np.concatenate(([-0.5], np.arange(24) + 0.5, [24.5]))
    values = np.concatenate(([HOURLY_SHAPE[-1]], HOURLY_SHAPE, [HOURLY_SHAPE[0]]))
    return np.interp(np.mod(hour_of_day, 24.0), knots, values)


def _arrivals(options: MakeOptions, rng: np.random.Generator) -> NDArray[np.float64]:
    """Pick-up times in seconds: a Poisson process whose rate follows the day, minute by minute."""
    start_hour = (np.datetime64(options.start, "s") - np.datetime64(options.start, "D")).astype(int) / 3600
    minutes = int(np.ceil(options.days * 1440))
    weight = rate_shape(start_hour + (np.arange(minutes) + 0.5) / 60)
    counts = rng.poisson(options.rides_per_day / 1440 * weight)
    minute = np.repeat(np.arange(minutes), counts)
    seconds = np.sort(60.0 * (minute + rng.random(minute.size)))
    return seconds[seconds < options.days * 86_400]


def _coordinates(count: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    lon, lat, spread, share = (np.array([place[field] for place in _PLACES]) for field in (1, 2, 3, 4))
    which = rng.choice(len(_PLACES), count, p=share / share.sum())
    return rng.normal(lon[which], spread[which]), rng.normal(lat[which], spread[which])


def _spoil(rides: Rides, dirt: float, rng: np.random.Generator) -> Rides:
    """Spoil a share of the rides, each in one way, and mark nothing: cleaning has to find them."""
    table = rides.table
    count = table.num_rows
    spoiled = rng.permutation(count)[: round(dirt * count)]
    by_kind = dict(zip(_DIRT, np.array_split(spoiled, len(_DIRT)), strict=True))
    columns = {
        name: table[name].cast(pa.int64() if pa.types.is_timestamp(table[name].type) else table[name].type)
        .to_numpy().copy()
        for name in SCHEMA.names
    }  # fmt: skip
    for name in ("pickup_lon", "pickup_lat"):
        columns[name][by_kind["no coordinates"]] = 0.0
    columns["pickup_lat"][by_kind["outside"]] += 20.0
    columns["passengers"][by_kind["no passengers"]] = 0
    late = by_kind["ends before it starts"]
    columns["dropoff_time"][late] = columns["pickup_time"][late] - 1_000_000
    order = np.concatenate((np.arange(count), by_kind["duplicate"])).astype(float)
    # A duplicate follows its original; a ride out of order comes up to a hundred rows late.
    order[count:] += 0.5
    order[by_kind["out of order"]] += rng.integers(2, 100, by_kind["out of order"].size)
    rows = np.concatenate((np.arange(count), by_kind["duplicate"]))[np.argsort(order, kind="stable")]
    spoilt = pa.table({name: pa.array(columns[name][rows]) for name in SCHEMA.names})
    return Rides(spoilt.cast(SCHEMA))
