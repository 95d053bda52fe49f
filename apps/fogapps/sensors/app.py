"""The mean of each sensor's readings over windows of time, one result a window when it is over.

A record's value is JSON: `{"sensor": "roof-1", "time": "2026-05-01T12:00:00.250Z", "value": 21.5}`. What is
not that, what has no finite value, and what comes from the future (a wrong clock would end the windows of
all) is counted under the sensor `(invalid)` at the time it arrived: with nothing late, the counts of all
windows add up to the records that came. Readings are meant to be sent when they are taken: in a replay of
old ones, an unreadable one arrives long after their windows and ends them, so clean such a trace first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from fogapps.work import burnt
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

INVALID = "(invalid)"
"""The sensor under which unreadable readings are counted."""

_READING = "sensor STRING, time STRING, value DOUBLE"
_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"


def mean(readings: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Mean and count of each sensor's readings over windows of `window_s` seconds (10).

    A reading may come `late_s` seconds (5) after a later one of any sensor; one that comes later still is
    left out once its window's result is written. That happens in the batch after the one in which the
    readings' own times have passed the window's end by `late_s`.
    """
    window_s, late_s = _seconds(options, "window_s", 10.0), _seconds(options, "late_s", 5.0)
    read = readings.select(f.from_json("value", _READING).alias("reading"), "timestamp")
    reading = f.col("reading")
    taken = reading["time"].try_cast("timestamp")
    number = reading["value"]
    finite = number.isNotNull() & ~f.isnan(number) & (f.abs(number) < f.lit(math.inf))
    # A null, here and below, is not valid either: `known` says so.
    past = f.unix_micros(taken) <= f.unix_micros("timestamp") + f.lit(round(late_s * 1e6))
    valid = (f.length(reading["sensor"]) > 0) & past & finite & burnt(number, options)
    judged = read.select(
        reading["sensor"].alias("sensor"),
        taken.alias("taken"),
        number.alias("number"),
        f.coalesce(valid, f.lit(False)).alias("known"),
        "timestamp",
    )
    cleaned = judged.select(
        f.when(f.col("known"), f.col("sensor")).otherwise(f.lit(INVALID)).alias("sensor"),
        f.when(f.col("known"), f.col("taken")).otherwise(f.col("timestamp")).alias("time"),
        f.when(f.col("known"), f.col("number")).alias("number"),
    )
    means = (
        cleaned.withWatermark("time", f"{late_s} seconds")
        .groupBy(f.window("time", f"{window_s} seconds"), "sensor")
        .agg(f.mean("number").alias("mean"), f.count("*").alias("count"))
    )
    start, end = (f.date_format(f.col("window")[edge], _ISO) for edge in ("start", "end"))
    result = f.struct("sensor", start.alias("from"), end.alias("to"), "mean", "count")
    return means.select(f.col("sensor").alias("key"), f.to_json(result).alias("value"))


def _seconds(options: Mapping[str, str], name: str, default: float) -> float:
    given = options.get(name, str(default))
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not 0.001 <= value <= 86_400:
        raise ValueError(f'the option {name} is a number of seconds from 0.001 to 86400, not "{given}"')
    return value
