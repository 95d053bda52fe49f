"""The nearest of three attractions to where a taxi ride begins, and how far it is.

A record's value is a line of CSV in the order of fogctl's traces; longitude and latitude of the pick-up are
its fourth and fifth field. Every record comes out again under its own key, as `line,attraction,kilometres`;
one without a usable position as `line,invalid,`. Nothing is dropped, so all can be counted.
Native expressions only, so the stages also run in Spark's real-time mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fogapps.work import burnt
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
    distances = [_km(f.col("lon"), f.col("lat"), *place).alias(name) for name, *place in ATTRACTIONS]
    measured = _positions(rides).select("key", "line", "lon", *distances)
    known = [f.col(name) for name, *_ in ATTRACTIONS]
    return measured.select("key", _answer(known, burnt(f.col("lon"), options)).alias("value"))


def parse(rides: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """First of three: the ride's line with its position in front, as `lon|lat|line`; `||line` without one."""
    lon, lat, line = f.col("lon"), f.col("lat"), f.col("line")
    parsed = f.concat_ws("|", lon.cast("string"), lat.cast("string"), line)
    value = f.when(lon.isNotNull() & burnt(lon, options), parsed).otherwise(f.concat(f.lit("||"), line))
    return _positions(rides).select("key", value.alias("value"))


def measure(pickups: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Second of three: the distance to each attraction, as `km|km|km|line`; `|||line` without a position."""
    parted = pickups.select("key", f.split(_line(), r"\|", 3).alias("parts"))
    lon, lat = (f.get("parts", f.lit(place)).try_cast("double") for place in (0, 1))
    line = f.coalesce(f.get("parts", f.lit(2)), f.lit(""))
    placed = parted.select("key", lon.alias("lon"), lat.alias("lat"), line.alias("line"))
    lon, lat = f.col("lon"), f.col("lat")
    kilometres = [_km(lon, lat, *place).cast("string") for _, *place in ATTRACTIONS]
    known = lon.isNotNull() & lat.isNotNull() & burnt(lon, options)
    measured = f.when(known, f.concat_ws("|", *kilometres)).otherwise(f.lit("|" * (len(ATTRACTIONS) - 1)))
    return placed.select("key", f.concat_ws("|", measured, "line").alias("value"))


def choose(distances: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Third of three: the nearest attraction; the same output as the one-stage app."""
    count = len(ATTRACTIONS)
    parted = distances.select("key", f.split(_line(), r"\|", count + 1).alias("parts"))
    kilometres = [
        f.get("parts", f.lit(place)).try_cast("double").alias(name)
        for place, (name, *_) in enumerate(ATTRACTIONS)
    ]
    line = f.coalesce(f.get("parts", f.lit(count)), f.lit(""))
    measured = parted.select("key", line.alias("line"), *kilometres)
    known = [f.col(name) for name, *_ in ATTRACTIONS]
    return measured.select("key", _answer(known, burnt(known[0], options)).alias("value"))


def _line() -> Column:
    """A record's value; one without a value is an empty line."""
    return f.coalesce(f.col("value"), f.lit(""))


def _positions(rides: DataFrame) -> DataFrame:
    """Key, line, longitude and latitude of the pick-up; both null unless they are a place on Earth.

    Devices without a fix report 0, 0, which is in the Atlantic.
    """
    parted = rides.select("key", _line().alias("line")).withColumn("fields", f.split("line", ","))
    lon, lat = (f.get("fields", f.lit(index)).try_cast("double") for index in (_LON_FIELD, _LAT_FIELD))
    given = parted.select("key", "line", lon.alias("lon"), lat.alias("lat"))
    lon, lat = f.col("lon"), f.col("lat")
    usable = lon.between(-180, 180) & lat.between(-90, 90) & ((lon != 0) | (lat != 0))
    return given.select("key", "line", f.when(usable, lon).alias("lon"), f.when(usable, lat).alias("lat"))


def _km(lon: Column, lat: Column, place_lon: float, place_lat: float) -> Column:
    """Euclidean distance on the plane that touches New York; off by less than 0.2 % within the city."""
    east = (lon - f.lit(place_lon)) * f.lit(KM_PER_DEGREE * COS_NEW_YORK)
    north = (lat - f.lit(place_lat)) * f.lit(KM_PER_DEGREE)
    return f.sqrt(east * east + north * north)


def _answer(kilometres: Sequence[Column], worked: Column) -> Column:
    """The ride's line with the nearest attraction, out of the distances to each."""
    least = f.least(*kilometres)
    name = f.lit(ATTRACTIONS[-1][0])
    for (attraction, *_), km in reversed(list(zip(ATTRACTIONS, kilometres, strict=True))):
        name = f.when(km == least, f.lit(attraction)).otherwise(name)
    answer = f.concat_ws(",", "line", name, f.round(least, 3).cast("string"))
    invalid = f.concat_ws(",", "line", f.lit("invalid"), f.lit(""))
    return f.when(least.isNotNull() & worked, answer).otherwise(invalid)
