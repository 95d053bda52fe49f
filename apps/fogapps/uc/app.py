"""Theodolite's four task samples: store, downsample, aggregate by time attribute, aggregate a hierarchy.

A record's value is JSON: `{"sensor": "plant/hall-2/motor-7", "time": "2026-05-01T12:00:00.250Z", "value":
21.5}`; `fogapps.uc.readings` makes them. What is not that is left out, except by `store`, which marks it. The
option `time: arrival` counts when a record arrived instead of when it was taken, so that data at rest can be
sent again and again. Native expressions, but for `store`, which writes with Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from fogapps.uc import store as database
from fogapps.windows import Aggregate
from fogapps.windows_options import event_time, hop, iso, seconds, timely, windowed
from fogapps.work import burnt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

_READING = "sensor STRING, time STRING, value DOUBLE"
STATISTICS = {
    "count": Aggregate("count", "number"),
    "sum": Aggregate("sum", "number"),
    "mean": Aggregate("mean", "number"),
    "min": Aggregate("min", "number"),
    "max": Aggregate("max", "number"),
}


def store(readings: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """UC1: write each reading to a database; every record comes out under its key with whether it was stored.

    The option `database` is `sqlite:FILE` (a file on each node) or `postgresql://…`. A reading is one row,
    found by sensor and time: a batch that is done again writes the same rows again.
    """
    where = options.get("database", database.DEFAULT)
    database.check(where)
    time = _read(readings, options, keep_all=True)
    converted = time.select("key", "sensor", f.unix_micros("time").alias("micros"), "number")
    writer = partial(database.write, where, options.get("table", "readings"))
    return converted.mapInArrow(writer, "key STRING, value STRING")


def downsample(readings: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """UC2: count, sum, mean, least and greatest of each sensor's readings over `window_s` (60)."""
    size_s = seconds(options, "window_s", 60.0)
    rows = timely(_read(readings, options), options, 5.0)
    tumbling = hop({"window_s": str(size_s), "slide_s": str(size_s)}, size_s, size_s)
    made = windowed(rows, {**options, "method": "native"}, ["sensor"], tumbling, STATISTICS)
    return _written(made, "sensor")


def by_hour(readings: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """UC3: the same by sensor and hour of the day over hopping windows, 30 days every day unless told."""
    rows = timely(_read(readings, options), options, 5.0).withColumn("hour", f.hour("time"))
    days = hop(options, 30 * 86_400.0, 86_400.0)
    return _written(windowed(rows, options, ["sensor", "hour"], days, STATISTICS), "sensor", "hour")


def groups(readings: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """UC4: of every group, at each level, the sum of its sensors' last readings of `window_s` (60).

    A sensor's name is the path to it: `plant/hall-2/motor-7` is in the groups `plant/hall-2` and `plant`. The
    last readings are found first, then each goes to all its groups at once; the original sends results of one
    level round to the next, which takes a round of its own for each.
    """
    rows = timely(_read(readings, options), options, 5.0)
    size = f"{seconds(options, 'window_s', 60.0)} seconds"
    last = rows.groupBy(f.window("time", size).alias("turn"), "sensor").agg(
        f.max(f.struct("time", "number")).alias("last")
    )
    parts = f.split("sensor", "/")
    levels = f.slice(f.sequence(f.lit(0), f.size(parts) - 1), 2, f.size(parts))
    paths = f.transform(levels, lambda level: f.array_join(f.slice(parts, 1, level), "/"))
    members = last.select("turn", f.explode(paths).alias("group"), f.col("last")["number"].alias("number"))
    made = members.groupBy(f.window("turn", size).alias("window"), "group").agg(
        f.count("number").alias("count"), f.sum("number").alias("sum"), f.mean("number").alias("mean")
    )
    return _written(made, "group", numbers=("count", "sum", "mean"))


def _read(readings: DataFrame, options: Mapping[str, str], *, keep_all: bool = False) -> DataFrame:
    """Key, sensor, time and number of each reading; if all are kept, null where it is not one."""
    parsed = readings.select("key", f.from_json("value", _READING).alias("reading"), "timestamp")
    reading = f.col("reading")
    time = event_time(options, reading["time"].try_cast("timestamp"), f.col("timestamp"))
    made = parsed.select(
        "key", reading["sensor"].alias("sensor"), time.alias("time"), reading["value"].alias("number")
    )
    usable = (f.length("sensor") > 0) & f.col("time").isNotNull() & f.col("number").isNotNull()
    usable = usable & ~f.isnan("number") & burnt(f.col("number"), options)
    if not keep_all:
        return made.filter(usable)
    marked = made.withColumn("usable", f.coalesce(usable, f.lit(False)))
    return marked.select(
        "key", *(f.when(f.col("usable"), f.col(name)).alias(name) for name in made.columns[1:])
    )


def _written(made: DataFrame, *keys: str, numbers: tuple[str, ...] = tuple(STATISTICS)) -> DataFrame:
    """A result a window: its first key as key, everything as JSON."""
    window: Column = f.col("window")
    edges = (iso(window["start"]).alias("from"), iso(window["end"]).alias("to"))
    return made.select(
        f.col(keys[0]).alias("key"), f.to_json(f.struct(*keys, *edges, *numbers)).alias("value")
    )
