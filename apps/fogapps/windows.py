"""Aggregates over overlapping windows of time, by two methods that give the same results; and which to take.

`native` is Spark's own hopping window: every row is copied into each window it is in, so the work grows with
the overlaps. `sliced` first aggregates the rows of each slice of time, then the slices of each window: a row
is touched once however many windows overlap, and only one row a slice and key is copied (Traub et al.'s
Scotty; Theodolite thesis, section 9.3, where demand grows with the overlaps except with slicing).

    hop = Hop(size_s=60, slide_s=1)
    total = {"n": Aggregate("count"), "mean_kw": Aggregate("mean", "kw")}
    rows = readings.withWatermark("time", "5 seconds")
    sliced(rows, "time", ["sensor"], hop, total)     # window (start, end), sensor, n, mean_kw

**Streams.** Set the watermark before. Both write each window once, in the same batch, when the watermark has
passed its end. `sliced` is two stateful operators one after the other, which Spark allows in output mode
`append` only; in `update` mode take `native`.

**Late rows.** A row that is late by no more than the watermark's delay is counted by both in all its windows.
One that comes later still is counted by `native` in those of its windows that are not over yet, by `sliced`
in none if its slice is over. Spark promises nothing about such rows; give `withWatermark` the delay you need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

Kind = Literal["count", "sum", "mean", "min", "max"]
Method = Literal["native", "sliced", "auto"]
METHODS: tuple[Method, ...] = get_args(Method)
_LONGEST_S = 1000 * 365 * 86_400

# CPU time in microseconds on a PC's core with the settings of a stage, fitted to benchmarks/windows.py.
ROW_US, ROW_COPY_US = 1.5, 1.57
SLICE_US, SLICE_COPY_US = 12.7, 1.24
WINDOW_US = 20.8
BATCH_US = {"native": 227_000.0, "sliced": 420_000.0}
LARGE_BATCH = 90_000.0
"""Rows of a batch, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Hop:
    """Windows of `size_s` seconds that begin every `slide_s` seconds, counted from 1970; exact to 1 µs."""

    size_s: float
    slide_s: float

    def __post_init__(self) -> None:
        for name, value in (("size_s", self.size_s), ("slide_s", self.slide_s)):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or not 1e-6 <= value <= _LONGEST_S:
                raise ValueError(f"{name} is a number of seconds of at least 0.000001, not {value!r}")
        if self.slide_s > self.size_s:
            raise ValueError(
                f"slide_s ({self.slide_s:g}) must not exceed size_s ({self.size_s:g}): rows in between "
                "would be in no window"
            )

    @property
    def size_us(self) -> int:
        """A window's length in microseconds, which is what Spark counts in."""
        return round(self.size_s * 1e6)

    @property
    def slide_us(self) -> int:
        """From one window's begin to the next one's, in microseconds."""
        return round(self.slide_s * 1e6)

    @property
    def slice_us(self) -> int:
        """The longest slices of which every window is made: the slide, where the size is a multiple of it."""
        return math.gcd(self.size_us, self.slide_us)

    @property
    def overlaps(self) -> float:
        """In how many windows a row is."""
        return self.size_us / self.slide_us


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What to compute of a column's values that are not null; `count` without a column counts rows."""

    kind: Kind
    column: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f'an aggregate is {", ".join(get_args(Kind))}, not "{self.kind}"')
        if self.column is None and self.kind != "count":
            raise ValueError(f"{self.kind} needs a column")


Windowed = Callable[[DataFrame, str, Sequence[str], Hop, Mapping[str, Aggregate]], DataFrame]


def native(
    rows: DataFrame, time: str, keys: Sequence[str], hop: Hop, aggregates: Mapping[str, Aggregate]
) -> DataFrame:
    """By Spark's hopping windows: columns `window`, the keys, the aggregates under their names."""
    _check(rows, time, keys, aggregates)
    window = f.window(time, *_durations(hop.size_us, hop.slide_us)).alias("window")
    whole = [_whole(aggregate).alias(name) for name, aggregate in aggregates.items()]
    return rows.groupBy(window, *keys).agg(*whole)


def sliced(
    rows: DataFrame, time: str, keys: Sequence[str], hop: Hop, aggregates: Mapping[str, Aggregate]
) -> DataFrame:
    """By slices, then windows over slices: the columns of `native`, and the same rows.

    A sum or mean of floating-point values is added up in another order, so its last digits may differ.
    """
    _check(rows, time, keys, aggregates)
    parts = [part for name, aggregate in aggregates.items() for part in _parts(name, aggregate)]
    slices = rows.groupBy(f.window(time, *_durations(hop.slice_us)).alias("slice"), *keys).agg(*parts)
    # The slice's own column carries the watermark on: windows over it are over when the slices are.
    window = f.window("slice", *_durations(hop.size_us, hop.slide_us)).alias("window")
    joined = [_joined(name, aggregate).alias(name) for name, aggregate in aggregates.items()]
    return slices.groupBy(window, *keys).agg(*joined)


def auto(
    rows: DataFrame,
    time: str,
    keys: Sequence[str],
    hop: Hop,
    aggregates: Mapping[str, Aggregate],
    *,
    rows_per_slice: float,
    rows_per_batch: float = LARGE_BATCH,
    append: bool = True,
) -> DataFrame:
    """By the method that costs less, as `choose` says."""
    method = choose(hop, rows_per_slice, rows_per_batch=rows_per_batch, append=append)
    return METHOD[method](rows, time, keys, hop, aggregates)


def choose(
    hop: Hop, rows_per_slice: float, *, rows_per_batch: float = LARGE_BATCH, append: bool = True
) -> Literal["native", "sliced"]:
    """The cheaper method where `rows_per_slice` rows of each key come in the length of a slide.

    That number is the rate of a key (the stream's rate by the number of keys) times the slide. With few rows
    in a batch it does not matter what a row costs: then the second operator of `sliced` is what decides. In
    output mode `update` (`append` false) slices cannot be chained.
    """
    for name, value in (("rows_per_slice", rows_per_slice), ("rows_per_batch", rows_per_batch)):
        if not value > 0:
            raise ValueError(f"{name} must be more than 0, not {value}")
    worth_it = append and hop.overlaps > 1 and cost_ratio(hop, rows_per_slice, rows_per_batch) > 1
    return "sliced" if worth_it else "native"


def cost_ratio(hop: Hop, rows_per_slice: float, rows_per_batch: float = LARGE_BATCH) -> float:
    """What `native` costs, as a multiple of what `sliced` costs: CPU time of a row by a model.

    A row costs native a copy for each overlap. It costs sliced one visit, and its part of what a slice costs:
    to keep it in a state store and to copy it into each window. Both keep the windows. The constants are
    fitted to a benchmark (see docs/windows.md); only their ratios matter.
    """
    copies = hop.overlaps
    rows = (
        rows_per_slice * hop.slice_us / hop.slide_us
    )  # shorter slices, where the slide does not divide the size
    windows = WINDOW_US / rows_per_slice
    native_us = ROW_US + ROW_COPY_US * copies + windows + BATCH_US["native"] / rows_per_batch
    slices = (SLICE_US + SLICE_COPY_US * copies) / rows
    sliced_us = ROW_US + ROW_COPY_US + slices + windows + BATCH_US["sliced"] / rows_per_batch
    return native_us / sliced_us


METHOD: Mapping[str, Windowed] = {"native": native, "sliced": sliced}
"""The two methods by name."""


def _durations(*microseconds: int) -> list[str]:
    return [f"{each} microseconds" for each in microseconds]


def _check(rows: DataFrame, time: str, keys: Sequence[str], aggregates: Mapping[str, Aggregate]) -> None:
    if not aggregates:
        raise ValueError("name at least one aggregate")
    taken = ["window", "slice", *keys, *aggregates]
    if double := sorted({name for name in taken if taken.count(name) > 1}):
        raise ValueError(f"{', '.join(double)}: each result needs a name of its own")
    used = [time, *keys, *(each.column for each in aggregates.values() if each.column is not None)]
    if lacking := [name for name in dict.fromkeys(used) if name not in rows.columns]:
        raise ValueError(f"there is no column {', '.join(lacking)}: there are {', '.join(rows.columns)}")


def _whole(aggregate: Aggregate) -> Column:
    if aggregate.column is None:
        return f.count("*")
    return getattr(f, aggregate.kind)(f.col(aggregate.column))  # type: ignore[no-any-return]


def _parts(name: str, aggregate: Aggregate) -> list[Column]:
    """What a slice keeps of an aggregate."""
    if aggregate.kind == "mean" and aggregate.column is not None:
        value = f.col(aggregate.column)
        # As double, like Spark's own mean: a sum of large whole numbers could overflow.
        return [f.sum(value.cast("double")).alias(f"{name}.sum"), f.count(value).alias(f"{name}.count")]
    return [_whole(aggregate).alias(name)]


def _joined(name: str, aggregate: Aggregate) -> Column:
    """An aggregate out of those of the slices."""
    if aggregate.kind == "mean":
        total, count = f.sum(f.col(f"`{name}.sum`")), f.sum(f.col(f"`{name}.count`"))
        return f.when(count > 0, total / count)
    if aggregate.kind in ("count", "sum"):
        return f.sum(f.col(f"`{name}`"))
    return getattr(f, aggregate.kind)(f.col(f"`{name}`"))  # type: ignore[no-any-return]
