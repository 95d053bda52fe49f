"""The nearest of three attractions to where a taxi ride begins, and how far it is.

A record's value is a line of CSV in the order of fogctl's traces. Every record comes out again under its own
key, also one that cannot be read, which is marked `invalid`: nothing is dropped, so all can be counted.
Native expressions only, so the stages also run in Spark's real-time mode.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

ATTRACTIONS = (
    ("Empire State Building", -73.985656, 40.748433),
    ("Statue of Liberty", -74.044500, 40.689249),
    ("Central Park Zoo", -73.971834, 40.767778),
)
KM_PER_DEGREE = 111.195
COS_NEW_YORK = 0.7577
_LON_FIELD, _LAT_FIELD = 3, 4


def nearest(rides: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """All of it in one stage: ride, attraction, kilometres."""
    lon, lat = _position(f.col("value"))
    distances = [_km(lon, lat, *place) for _, *place in ATTRACTIONS]
    return rides.select("key", _answer(f.col("value"), distances, _work(lon, options)).alias("value"))


def parse(rides: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """First of three: the ride's line with its position in front, as `lon|lat|line`."""
    lon, lat = _position(f.col("value"))
    burnt = _work(lon, options)
    parsed = f.concat_ws("|", lon.cast("string"), lat.cast("string"), f.col("value"))
    readable = lon.isNotNull() & lat.isNotNull() & burnt
    value = f.when(readable, parsed).otherwise(f.concat(f.lit("||"), f.col("value")))
    return rides.select("key", value.alias("value"))


def measure(pickups: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Second of three: the distance to each attraction, as `km|km|km|line`."""
    parts = f.split("value", r"\|", 3)
    lon, lat = (f.try_element_at(parts, f.lit(place)).try_cast("double") for place in (1, 2))
    burnt = _work(lon, options)
    kilometres = [f.when(burnt, _km(lon, lat, *place)).cast("string") for _, *place in ATTRACTIONS]
    filled = [f.coalesce(km, f.lit("")) for km in kilometres]
    return pickups.select("key", f.concat_ws("|", *filled, f.try_element_at(parts, f.lit(3))).alias("value"))


def choose(distances: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Third of three: the nearest attraction; the same output as the one-stage app."""
    count = len(ATTRACTIONS)
    parts = f.split("value", r"\|", count + 1)
    kilometres = [f.try_element_at(parts, f.lit(place)).try_cast("double") for place in range(1, count + 1)]
    line = f.try_element_at(parts, f.lit(count + 1))
    return distances.select("key", _answer(line, kilometres, _work(kilometres[0], options)).alias("value"))


def _position(line: Column) -> tuple[Column, Column]:
    fields = f.split(line, ",")
    lon, lat = (f.get(fields, f.lit(index)).try_cast("double") for index in (_LON_FIELD, _LAT_FIELD))
    return lon, lat


def _km(lon: Column, lat: Column, place_lon: float, place_lat: float) -> Column:
    """Euclidean distance on the plane that touches New York; off by less than 0.1 % within the city."""
    east = (lon - f.lit(place_lon)) * f.lit(KM_PER_DEGREE * COS_NEW_YORK)
    north = (lat - f.lit(place_lat)) * f.lit(KM_PER_DEGREE)
    return f.sqrt(east * east + north * north)


def _answer(line: Column, kilometres: list[Column], burnt: Column) -> Column:
    least = f.least(*kilometres)
    name = f.lit(ATTRACTIONS[-1][0])
    for (attraction, *_), km in reversed(list(zip(ATTRACTIONS, kilometres, strict=True))):
        name = f.when(km == least, f.lit(attraction)).otherwise(name)
    answer = f.concat_ws(",", line, name, f.round(least, 3).cast("string"))
    return f.when(least.isNotNull() & burnt, answer).otherwise(
        f.concat_ws(",", line, f.lit("invalid"), f.lit(""))
    )


def _work(seed: Column, options: Mapping[str, str]) -> Column:
    """Burn CPU: a sum of that many sines of the record's own data, and then true whatever it is."""
    steps = int(options.get("work", "0"))
    if steps <= 0:
        return f.lit(True)
    start = f.coalesce(seed, f.lit(0.5))
    total = f.aggregate(
        f.sequence(f.lit(1), f.lit(steps)), f.lit(0.0), lambda sum_, x: sum_ + f.sin(start * x)
    )
    return total < f.lit(float(steps + 1))
