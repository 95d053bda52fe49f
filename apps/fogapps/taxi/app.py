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
    line = _line(f.col("value"))
    lon, lat = _position(line)
    distances = [_km(lon, lat, *place) for _, *place in ATTRACTIONS]
    return rides.select("key", _answer(line, distances, burnt(lon, options)).alias("value"))


def parse(rides: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """First of three: the ride's line with its position in front, as `lon|lat|line`; `||line` without one."""
    line = _line(f.col("value"))
    lon, lat = _position(line)
    parsed = f.concat_ws("|", lon.cast("string"), lat.cast("string"), line)
    value = f.when(lon.isNotNull() & burnt(lon, options), parsed).otherwise(f.concat(f.lit("||"), line))
    return rides.select("key", value.alias("value"))


def measure(pickups: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Second of three: the distance to each attraction, as `km|km|km|line`; `|||line` without a position."""
    parts = f.split(_line(f.col("value")), r"\|", 3)
    lon, lat = (f.get(parts, f.lit(place)).try_cast("double") for place in (0, 1))
    line = _line(f.get(parts, f.lit(2)))
    kilometres = [_km(lon, lat, *place).cast("string") for _, *place in ATTRACTIONS]
    known = lon.isNotNull() & lat.isNotNull() & burnt(lon, options)
    measured = f.when(known, f.concat_ws("|", *kilometres)).otherwise(f.lit("|" * (len(ATTRACTIONS) - 1)))
    return pickups.select("key", f.concat_ws("|", measured, line).alias("value"))


def choose(distances: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Third of three: the nearest attraction; the same output as the one-stage app."""
    count = len(ATTRACTIONS)
    parts = f.split(_line(f.col("value")), r"\|", count + 1)
    kilometres = [f.get(parts, f.lit(place)).try_cast("double") for place in range(count)]
    line = _line(f.get(parts, f.lit(count)))
    return distances.select("key", _answer(line, kilometres, burnt(kilometres[0], options)).alias("value"))


def _line(text: Column) -> Column:
    """A record without a value is an empty line."""
    return f.coalesce(text, f.lit(""))


def _position(line: Column) -> tuple[Column, Column]:
    """Longitude and latitude of the pick-up; both null unless they are a place on Earth.

    Devices without a fix report 0, 0, which is in the Atlantic.
    """
    fields = f.split(line, ",")
    lon, lat = (f.get(fields, f.lit(index)).try_cast("double") for index in (_LON_FIELD, _LAT_FIELD))
    usable = lon.between(-180, 180) & lat.between(-90, 90) & ((lon != 0) | (lat != 0))
    return f.when(usable, lon), f.when(usable, lat)


def _km(lon: Column, lat: Column, place_lon: float, place_lat: float) -> Column:
    """Euclidean distance on the plane that touches New York; off by less than 0.2 % within the city."""
    east = (lon - f.lit(place_lon)) * f.lit(KM_PER_DEGREE * COS_NEW_YORK)
    north = (lat - f.lit(place_lat)) * f.lit(KM_PER_DEGREE)
    return f.sqrt(east * east + north * north)


def _answer(line: Column, kilometres: Sequence[Column], worked: Column) -> Column:
    least = f.least(*kilometres)
    name = f.lit(ATTRACTIONS[-1][0])
    for (attraction, *_), km in reversed(list(zip(ATTRACTIONS, kilometres, strict=True))):
        name = f.when(km == least, f.lit(attraction)).otherwise(name)
    answer = f.concat_ws(",", line, name, f.round(least, 3).cast("string"))
    invalid = f.concat_ws(",", line, f.lit("invalid"), f.lit(""))
    return f.when(least.isNotNull() & worked, answer).otherwise(invalid)
