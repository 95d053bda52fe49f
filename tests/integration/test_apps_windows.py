"""Both window methods in a real Spark: the same results, judged by plain Python, over late rows too."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fogapps import windows
from fogapps.windows import Aggregate, Hop
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from fogctl.runtime import local

START = datetime(2026, 5, 1, tzinfo=UTC)
ALL = {
    "rows": Aggregate("count"),
    "n": Aggregate("count", "v"),
    "total": Aggregate("sum", "v"),
    "mean": Aggregate("mean", "v"),
    "least": Aggregate("min", "v"),
    "most": Aggregate("max", "v"),
    "whole": Aggregate("sum", "w"),
    "half": Aggregate("mean", "w"),
}
Row = tuple[str | None, int, float | None, int]
"""Key, milliseconds since START, value, whole value."""
Result = dict[tuple[str | None, int, int], tuple[Any, ...]]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = local.session()
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")  # as in a stage
    yield session
    session.stop()


def random_rows(rng: random.Random, count: int, span_ms: int) -> list[Row]:
    """Multiples of a quarter, so that sums are exact in any order."""
    return [
        (
            rng.choice(("a", "b", "c", None)),
            rng.randrange(span_ms),
            None if rng.random() < 0.1 else rng.randrange(-400, 400) / 4,
            rng.randrange(-(2**40), 2**40),
        )
        for _ in range(count)
    ]


def judged(rows: Sequence[tuple[Row, set[tuple[int, int]]]]) -> Result:
    """What must come out if each row is in those windows (begin and end in ms)."""
    groups: dict[tuple[str | None, int, int], list[Row]] = {}
    for row, its_windows in rows:
        for begin, end in its_windows:
            groups.setdefault((row[0], begin, end), []).append(row)
    made: Result = {}
    for key, members in groups.items():
        values = [row[2] for row in members if row[2] is not None]
        whole = [row[3] for row in members]
        made[key] = (
            len(members),
            len(values),
            sum(values) if values else None,
            sum(values) / len(values) if values else None,
            min(values, default=None),
            max(values, default=None),
            sum(whole),
            pytest.approx(sum(whole) / len(whole), rel=1e-12, abs=1e-3),
        )
    return made


def windows_of(time_ms: int, hop: Hop) -> set[tuple[int, int]]:
    """Every window that holds the time, by trying; they are counted from 1970, like START."""
    size, slide = hop.size_us / 1000, hop.slide_us / 1000
    origin = START.timestamp() * 1000
    last = math.floor((origin + time_ms) / slide)
    begins = [number * slide - origin for number in range(last, last - math.ceil(size / slide) - 1, -1)]
    return {(round(begin), round(begin + size)) for begin in begins if begin <= time_ms < begin + size}


def found(rows: Sequence[Any]) -> Result:
    made: Result = {}
    for row in rows:
        edges = (
            round((row["window"][edge].replace(tzinfo=UTC) - START) / timedelta(milliseconds=1))
            for edge in ("start", "end")
        )
        key = (row["k"], *edges)
        assert key not in made, "a window is written once"
        made[key] = tuple(row[name] for name in ALL)
    return made


@pytest.mark.parametrize(
    "hop",
    [Hop(10, 2), Hop(7, 3), Hop(5, 5), Hop(60, 1), Hop(1.5, 0.2), Hop(86_400, 3_600)],
    ids=lambda hop: f"{hop.size_s:g}/{hop.slide_s:g}",
)
def test_both_methods_give_what_python_gives(spark: SparkSession, hop: Hop) -> None:
    rows = random_rows(random.Random(hop.size_us), 250, round(3000 * hop.size_s))
    wanted = judged([(row, windows_of(row[1], hop)) for row in rows])
    data = [(k, START + timedelta(milliseconds=t), v, w) for k, t, v, w in rows]
    table = spark.createDataFrame(data, "k STRING, t TIMESTAMP, v DOUBLE, w BIGINT").cache()
    for method in windows.METHOD.values():
        assert found(method(table, "t", ["k"], hop, ALL).collect()) == wanted
    table.unpersist()


def stream(
    spark: SparkSession, folder: Path, batches: Sequence[Sequence[Row]], hop: Hop, late_ms: int, method: str
) -> Result:
    """What a real streaming query writes when the batches come one after the other."""
    source = folder / "in"
    if not source.exists():
        source.mkdir()
        for number, batch in enumerate(batches):
            lines = [
                {"k": k, "t": (START + timedelta(milliseconds=t)).isoformat(), "v": v, "w": w}
                for k, t, v, w in batch
            ]
            file = source / f"{number:04}.json"
            file.write_text("\n".join(map(json.dumps, lines)))
            os.utime(file, (number, number))
    rows = (
        spark.readStream.schema("k STRING, t TIMESTAMP, v DOUBLE, w BIGINT")
        .option("maxFilesPerTrigger", 1)
        .json(str(source))
        .withWatermark("t", f"{late_ms} milliseconds")
    )
    name = f"{method}_{folder.name.replace('-', '_')}"
    query = (
        windows.METHOD[method](rows, "t", ["k"], hop, ALL)
        .writeStream.format("memory")
        .queryName(name)
        .outputMode("append")
        .option("checkpointLocation", str(folder / method))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found(spark.table(name).collect())


def expected(batches: Sequence[Sequence[Row]], hop: Hop, late_ms: int, *, by_slice: bool) -> Result:
    """Spark's rules, played through: in a batch what ended by the watermark before is late; what ends by the
    new one, the greatest time of the batches before less the delay, is written."""
    slices = Hop(hop.slice_us / 1e6, hop.slice_us / 1e6)
    counted: list[tuple[Row, set[tuple[int, int]]]] = []
    late_mark = mark = latest = -math.inf
    for batch in batches:
        late_mark, mark = mark, max(mark, latest - late_ms)
        for row in batch:
            its_windows = windows_of(row[1], hop)
            if by_slice:
                ((_, slice_end),) = windows_of(row[1], slices)
                its_windows = its_windows if slice_end > late_mark else set()
            counted.append((row, {window for window in its_windows if window[1] > late_mark}))
        latest = max([latest, *(row[1] for row in batch)])
    return {key: values for key, values in judged(counted).items() if key[2] <= mark}


def random_batches(rng: random.Random, most_late_ms: int) -> list[list[Row]]:
    """Time goes on, now and then with a leap; each row is up to so much late."""
    now, batches = 0, []
    for _ in range(9):
        now += rng.choice((500, 2500, 9000))
        batch = random_rows(rng, rng.randrange(1, 25), 1)
        batches.append(
            [(k, now + rng.randrange(2000) - rng.randrange(most_late_ms), v, w) for k, _, v, w in batch]
        )
    return batches


@pytest.mark.parametrize(("seed", "hop"), [(1, Hop(10, 2)), (2, Hop(6, 4)), (3, Hop(8, 0.5))])
def test_rows_late_within_the_delay_are_in_every_window_of_both(
    spark: SparkSession, tmp_path: Path, seed: int, hop: Hop
) -> None:
    late_ms = 4000
    batches = random_batches(random.Random(seed), late_ms - 2000)
    native, sliced = (stream(spark, tmp_path, batches, hop, late_ms, m) for m in ("native", "sliced"))
    assert len(native) > 10
    assert native == expected(batches, hop, late_ms, by_slice=False)
    assert sliced == native


@pytest.mark.parametrize("seed", [4, 5])
def test_rows_later_than_the_delay_are_counted_as_the_guide_says(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    hop, late_ms = Hop(12, 3), 1000
    batches = random_batches(random.Random(seed), 15_000)
    by_row, by_slice = (expected(batches, hop, late_ms, by_slice=flag) for flag in (False, True))
    assert by_row != by_slice, "this stream must tell the two rules apart"
    assert stream(spark, tmp_path, batches, hop, late_ms, "native") == by_row
    assert stream(spark, tmp_path, batches, hop, late_ms, "sliced") == by_slice


def test_slices_cannot_be_written_in_update_mode(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    made = {
        method: windows.METHOD[method](rows, "timestamp", ["value"], Hop(10, 2), {"n": Aggregate("count")})
        for method in ("native", "sliced")
    }
    with pytest.raises(AnalysisException, match="late rows"):
        made["sliced"].writeStream.format("noop").outputMode("update").start()
    made["native"].writeStream.format("noop").outputMode("update").start().stop()


def test_a_result_needs_a_name_of_its_own_and_a_column_that_exists(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "k STRING, t TIMESTAMP, v DOUBLE")
    for method in windows.METHOD.values():
        with pytest.raises(ValueError, match="k: each result needs a name of its own"):
            method(rows, "t", ["k"], Hop(2, 1), {"k": Aggregate("count")})
        with pytest.raises(ValueError, match="there is no column time, x"):
            method(rows, "time", ["k"], Hop(2, 1), {"n": Aggregate("sum", "x")})
        with pytest.raises(ValueError, match="at least one aggregate"):
            method(rows, "t", ["k"], Hop(2, 1), {})
