"""The options of stages with windows: lengths, lateness, which time counts, and which method aggregates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from fogapps import windows
from fogapps.windows import Aggregate, Hop

LONGEST_S = 10 * 365 * 86_400


def seconds(options: Mapping[str, str], name: str, default: float, least: float = 0.001) -> float:
    """An option that is a length of time."""
    given = options.get(name, str(default))
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not least <= value <= LONGEST_S:
        raise ValueError(
            f'the option {name} is a number of seconds from {least:g} to {LONGEST_S}, not "{given}"'
        )
    return value


def chosen(options: Mapping[str, str], name: str, possible: Sequence[str]) -> str:
    """An option that is one of some words; the first if it is not given."""
    given = options.get(name, possible[0])
    if given not in possible:
        raise ValueError(f'the option {name} is {", ".join(possible[:-1])} or {possible[-1]}, not "{given}"')
    return given


def hop(options: Mapping[str, str], size_s: float, slide_s: float) -> Hop:
    """The windows of the options `window_s` and `slide_s`."""
    return Hop(seconds(options, "window_s", size_s), seconds(options, "slide_s", slide_s))


def event_time(options: Mapping[str, str], own: Column, arrival: Column) -> Column:
    """Which time of a record counts, by the option `time`: its `own` (default), or that of its `arrival`.

    Records at rest that are sent again and again carry old times; by arrival, windows behave as if they were
    new.
    """
    return own if chosen(options, "time", ("own", "arrival")) == "own" else arrival


def timely(rows: DataFrame, options: Mapping[str, str], default_s: float) -> DataFrame:
    """Rows with a watermark on `time`: they may come `late_s` seconds after later ones."""
    return rows.withWatermark("time", f"{seconds(options, 'late_s', default_s, least=0.0)} seconds")


def windowed(
    rows: DataFrame,
    options: Mapping[str, str],
    keys: Sequence[str],
    hop: Hop,
    aggregates: Mapping[str, Aggregate],
) -> DataFrame:
    """Windows over `time` by the option `method`: auto (default), native or sliced.

    For auto, `rows_per_slice` says how many records of a key come in a slide (100), and `rows_per_batch` how
    many of all keys in a batch, if they are few. In output mode `update` it must be native.
    """
    method = chosen(options, "method", ("auto", "native", "sliced"))
    if method != "auto":
        return windows.METHOD[method](rows, "time", keys, hop, aggregates)
    expected = _amount(options, "rows_per_slice", 100.0)
    batch = _amount(options, "rows_per_batch", windows.LARGE_BATCH)
    return windows.auto(rows, "time", keys, hop, aggregates, rows_per_slice=expected, rows_per_batch=batch)


def _amount(options: Mapping[str, str], name: str, default: float) -> float:
    if name not in options:
        return default
    try:
        value = float(options[name])
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f'the option {name} is a number above 0, not "{options[name]}"')
    return value


def iso(time: Column) -> Column:
    """A time as text: UTC, with milliseconds."""
    return f.date_format(time, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
