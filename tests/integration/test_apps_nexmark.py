"""Nexmark, the task samples and OSPBench in a real Spark: streams give what batches and plain Python give."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fogapps.nexmark.events import Event, events
from fogapps.ospbench.flows import Flow, flows
from fogapps.uc.readings import Reading, Sensors, readings
from pyspark.sql import SparkSession
from streamed_stage import stream_results

from fogctl.runtime import local, realtime_plan
from fogctl.runtime.app import load
from fogctl.runtime.local import run_stage
from fogctl.runtime.stage_query import load_function

START = datetime(2026, 5, 1, tzinfo=UTC)
LATER = START + timedelta(days=400)
GARBAGE = ["", "{", "[]", "12", '{"type": "bid"}', '{"sensor": "x"}', '{"type": "bid", "time": "soon"}']


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = local.session()
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")  # as in a stage
    yield session
    session.stop()


def iso(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def begin(time: datetime, size_s: float) -> datetime:
    return START + (time - START) // timedelta(seconds=size_s) * timedelta(seconds=size_s)


def hops(time: datetime, size_s: float, slide_s: float) -> list[datetime]:
    last = begin(time, slide_s)
    found = [last - number * timedelta(seconds=slide_s) for number in range(round(size_s / slide_s))]
    return [start for start in found if time < start + timedelta(seconds=size_s)]


def batch(app: str, stage: str, lines: Sequence[str], **options: str) -> list[dict[str, Any]]:
    """Results over all records at once."""
    return [json.loads(value) for _, value in run_stage(app, stage, list(lines), options=options)]


def streamed(
    spark: SparkSession,
    folder: Path,
    app: str,
    stage: str,
    lines: Sequence[str],
    last: Sequence[str],
    **options: str,
) -> list[dict[str, Any]]:
    """Results of a real streaming query over the records in four batches; `last` ends all that is open."""
    size = -(-len(lines) // 4)
    batches = [lines[at : at + size] for at in range(0, len(lines), size)] + [last, last]
    return [value for _, value in stream_results(spark, folder, app, stage, batches, **options)]


def same(left: Sequence[dict[str, Any]], right: Sequence[dict[str, Any]]) -> bool:
    """Whether the rows are the same, in any order; sums of floats may be added up in any order too."""

    def parted(rows: Sequence[dict[str, Any]]) -> list[tuple[str, list[float]]]:
        floats = [[value for value in row.values() if isinstance(value, float)] for row in rows]
        others = [{k: v for k, v in row.items() if not isinstance(v, float)} for row in rows]
        return sorted(zip((json.dumps(other, sort_keys=True) for other in others), floats, strict=True))

    ours, theirs = parted(left), parted(right)
    return [other for other, _ in ours] == [other for other, _ in theirs] and all(
        mine == pytest.approx(yours, rel=1e-9) for (_, mine), (_, yours) in zip(ours, theirs, strict=True)
    )


@pytest.fixture(scope="module")
def auction_house() -> list[Event]:
    """Nearly a minute of events, some of them late; before them two auctions with as many bids each."""
    equals = [
        Event("bid", START - timedelta(seconds=99), {"auction": n, "bidder": 7, "price": 5}) for n in (8, 7)
    ]
    return [*equals, *events(6000, seed=3, rate_per_s=120.0, late_s=1.5)]


@pytest.fixture(scope="module")
def lines(auction_house: list[Event]) -> list[str]:
    return [*(event.line() for event in auction_house), *GARBAGE]


@pytest.fixture(scope="module")
def bids(auction_house: list[Event]) -> list[Event]:
    return [event for event in auction_house if event.kind == "bid"]


LAST = [
    Event("person", LATER, {"id": 1, "name": "last"}).line(),
    Event("bid", LATER, {"auction": 1, "bidder": 1, "price": 1}).line(),
]


def test_q1_converts_every_bid(spark: SparkSession, lines: list[str], bids: list[Event]) -> None:
    made = batch("nexmark-q1", "q1", lines)
    assert [(row["auction"], row["bidder"], row["time"]) for row in made] == [
        (bid.fields["auction"], bid.fields["bidder"], iso(bid.time)) for bid in bids
    ]
    assert [row["price"] for row in made] == pytest.approx([bid.fields["price"] * 0.908 for bid in bids])


def test_q2_selects_every_123rd_auction(spark: SparkSession, lines: list[str], bids: list[Event]) -> None:
    wanted = [bid.fields for bid in bids if bid.fields["auction"] % 123 == 0]
    assert len(wanted) > 3
    assert batch("nexmark-q2", "q2", lines) == [
        {"auction": bid["auction"], "price": bid["price"]} for bid in wanted
    ]


def test_q5_finds_the_hottest_auctions_by_either_method(
    spark: SparkSession, tmp_path: Path, lines: list[str], bids: list[Event]
) -> None:
    counts: dict[datetime, Counter[int]] = defaultdict(Counter)
    for bid in bids:
        for start in hops(bid.time, 10, 2):
            counts[start][bid.fields["auction"]] += 1
    wanted = [
        {
            "from": iso(start),
            "to": iso(start + timedelta(seconds=10)),
            "auctions": sorted(auction for auction, n in counted.items() if n == max(counted.values())),
            "bids": max(counted.values()),
        }
        for start, counted in counts.items()
    ]
    assert any(len(row["auctions"]) > 1 for row in wanted), "equals must be among the data"
    assert same(batch("nexmark-q5", "q5", lines, method="native"), wanted)
    for method in ("native", "sliced"):
        folder = tmp_path / method
        folder.mkdir()
        made = streamed(spark, folder, "nexmark-q5", "q5", lines, LAST, method=method)
        assert same(made, wanted)


def test_q8_finds_who_registered_and_sold(
    spark: SparkSession, tmp_path: Path, lines: list[str], auction_house: list[Event]
) -> None:
    sellers = {
        (begin(event.time, 10), event.fields["seller"]) for event in auction_house if event.kind == "auction"
    }
    wanted = [
        {
            "from": iso(begin(event.time, 10)),
            "to": iso(begin(event.time, 10) + timedelta(seconds=10)),
            "id": event.fields["id"],
            "name": event.fields["name"],
        }
        for event in auction_house
        if event.kind == "person" and (begin(event.time, 10), event.fields["id"]) in sellers
    ]
    assert len(wanted) > 3
    assert same(batch("nexmark-q8", "q8", lines), wanted)
    assert same(streamed(spark, tmp_path, "nexmark-q8", "q8", lines, LAST), wanted)


def test_q11_counts_the_bids_of_sessions(
    spark: SparkSession, tmp_path: Path, lines: list[str], bids: list[Event]
) -> None:
    times: dict[int, list[datetime]] = defaultdict(list)
    for bid in bids:
        times[bid.fields["bidder"]].append(bid.time)
    gap = timedelta(seconds=3)
    wanted = []
    for bidder, its_times in times.items():
        sessions: list[list[datetime]] = []
        for time in sorted(its_times):
            if sessions and time - sessions[-1][-1] < gap:
                sessions[-1].append(time)
            else:
                sessions.append([time])
        wanted += [
            {"bidder": bidder, "bids": len(one), "from": iso(one[0]), "to": iso(one[-1] + gap)}
            for one in sessions
        ]
    assert len(wanted) > len(times), "somebody must come back"
    assert same(batch("nexmark-q11", "q11", lines, gap_s="3"), wanted)
    assert same(streamed(spark, tmp_path, "nexmark-q11", "q11", lines, LAST, gap_s="3"), wanted)


@pytest.fixture(scope="module")
def taken() -> list[Reading]:
    return list(readings(Sensors(keys=20, per_key_per_s=1.0, depth=3), 3000, seed=4, late_s=3.0))


def statistics(values: Sequence[float]) -> dict[str, float]:
    return {
        "count": len(values),
        "sum": sum(values),
        "mean": sum(values) / len(values),
        "min": min(values),
        "max": max(values),
    }


LAST_READING = [Reading("last", LATER, 0.0).line()]


def test_uc1_stores_each_reading_once_however_often_it_is_written(
    spark: SparkSession, tmp_path: Path, taken: list[Reading]
) -> None:
    database = tmp_path / "store.sqlite"
    given = [*(reading.line() for reading in taken[:500]), *GARBAGE]
    for _ in range(2):  # a batch that is done again
        made = run_stage("uc1", "store", given, options={"database": f"sqlite:{database}"})
        assert [key for key, _ in made] == [str(number) for number in range(1, len(given) + 1)]
        assert [json.loads(value)["stored"] for _, value in made] == [True] * 500 + [False] * len(GARBAGE)
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT sensor, micros, value FROM readings").fetchall()
    micros = [round((r.time - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)) for r in taken]
    wanted = {(r.sensor, at, r.value) for r, at in zip(taken[:500], micros, strict=False)}
    assert len(rows) == len(wanted)
    assert set(rows) == wanted


def test_uc2_downsamples(spark: SparkSession, tmp_path: Path, taken: list[Reading]) -> None:
    groups: dict[tuple[str, datetime], list[float]] = defaultdict(list)
    for reading in taken:
        groups[reading.sensor, begin(reading.time, 60)].append(reading.value)
    wanted = [
        {"sensor": sensor, "from": iso(start), "to": iso(start + timedelta(seconds=60)), **statistics(values)}
        for (sensor, start), values in groups.items()
    ]
    given = [*(reading.line() for reading in taken), *GARBAGE]
    assert same(batch("uc2", "downsample", given), wanted)
    assert same(streamed(spark, tmp_path, "uc2", "downsample", given, LAST_READING), wanted)


@pytest.mark.parametrize(("size_s", "slide_s"), [(300, 60), (30, 1), (1200, 60), (2_592_000, 86_400)])
def test_uc3_aggregates_by_hour_of_the_day(
    spark: SparkSession, taken: list[Reading], size_s: int, slide_s: int
) -> None:
    some = taken[:400]
    groups: dict[tuple[str, int, datetime], list[float]] = defaultdict(list)
    for reading in some:
        for start in hops(reading.time, size_s, slide_s):
            groups[reading.sensor, reading.time.hour, start].append(reading.value)
    wanted = [
        {"sensor": sensor, "hour": hour, "from": iso(start), "to": iso(start + timedelta(seconds=size_s)),
         **statistics(values)}
        for (sensor, hour, start), values in groups.items()
    ]  # fmt: skip
    assert {row["hour"] for row in wanted} == {23, 0}
    given = [*(reading.line() for reading in some), *GARBAGE]
    options = {"window_s": str(size_s), "slide_s": str(slide_s)}
    for method in ("native", "sliced"):
        assert same(batch("uc3", "by_hour", given, method=method, **options), wanted)


def test_uc4_sums_every_level_of_the_hierarchy(
    spark: SparkSession, tmp_path: Path, taken: list[Reading]
) -> None:
    last: dict[tuple[str, datetime], Reading] = {}
    for reading in taken:
        key = (reading.sensor, begin(reading.time, 60))
        if key not in last or last[key].time < reading.time:
            last[key] = reading
    groups: dict[tuple[str, datetime], list[float]] = defaultdict(list)
    for (sensor, start), reading in last.items():
        parts = sensor.split("/")
        for level in range(1, len(parts)):
            groups["/".join(parts[:level]), start].append(reading.value)
    wanted = [
        {"group": group, "from": iso(start), "to": iso(start + timedelta(seconds=60)),
         "count": len(values), "sum": sum(values), "mean": sum(values) / len(values)}
        for (group, start), values in groups.items()
    ]  # fmt: skip
    assert {row["group"].count("/") for row in wanted} == {0, 1, 2}
    given = [*(reading.line() for reading in taken), *GARBAGE]
    assert same(batch("uc4", "groups", given), wanted)
    assert same(streamed(spark, tmp_path, "uc4", "groups", given, LAST_READING), wanted)


def test_ospbench_adds_up_the_lanes(spark: SparkSession, tmp_path: Path) -> None:
    passed = list(flows(points=5, count=1500, seed=5, late_s=2.0))
    groups: dict[tuple[str, datetime], list[Flow]] = defaultdict(list)
    for flow in passed:
        for start in hops(flow.time, 60, 15):
            groups[flow.measurement, start].append(flow)
    wanted = [
        {"measurement": point, "from": iso(start), "to": iso(start + timedelta(seconds=60)),
         "flow": sum(flow.cars for flow in members), "records": len(members)}
        for (point, start), members in groups.items()
    ]  # fmt: skip
    given = [*(flow.line() for flow in passed), *GARBAGE]
    options = {"window_s": "60", "slide_s": "15"}
    assert same(batch("ospbench", "aggregate", given, method="native", **options), wanted)
    end = [Flow("last", "lane1", LATER, 0).line()]
    made = streamed(spark, tmp_path, "ospbench", "aggregate", given, end, method="sliced", **options)
    assert same(made, wanted)


def test_by_arrival_old_records_are_in_the_windows_of_now(spark: SparkSession) -> None:
    now = datetime(2026, 6, 1, 12, 0, 1, tzinfo=UTC)
    given = [("k", event.line(), now) for event in events(200, seed=1)]
    made = run_stage("nexmark-q8", "q8", given, options={"time": "arrival"})
    assert {json.loads(value)["from"] for _, value in made} == {"2026-06-01T12:00:00.000Z"}


@pytest.mark.parametrize("name", ["nexmark-q1", "nexmark-q2", "nexmark-q5", "nexmark-q8", "nexmark-q11",
                                  "uc2", "uc3", "uc4", "ospbench"])  # fmt: skip
def test_nothing_but_the_store_needs_python_on_the_nodes(spark: SparkSession, name: str) -> None:
    app = load(name)
    columns = ("cast(value as string) key", "cast(value as string) value", "timestamp")
    stream = spark.readStream.format("rate").load().selectExpr(*columns)
    for stage in app.stages:
        made = load_function(app.code, stage.function)(stream, dict(stage.options))
        assert realtime_plan.facts(made).python == ()


@pytest.mark.parametrize(
    ("app", "stage", "options", "words"),
    [
        ("nexmark-q5", "q5", {"method": "fast"}, 'method is auto, native or sliced, not "fast"'),
        ("nexmark-q5", "q5", {"slide_s": "20"}, "must not exceed size_s"),
        ("nexmark-q1", "q1", {"time": "now"}, 'time is own or arrival, not "now"'),
        ("uc2", "downsample", {"window_s": "0"}, "window_s is a number of seconds"),
        ("uc3", "by_hour", {"rows_per_slice": "-1"}, "rows_per_slice is a number above 0"),
        ("uc1", "store", {"database": "mysql://x"}, "sqlite:/PATH or postgresql://"),
        ("uc1", "store", {"database": "sqlite:here.db"}, "needs an absolute path"),
        ("uc1", "store", {"database": "sqlite:/no/such/folder/x.db"}, "there is no folder"),
    ],
)
def test_bad_options_are_told_in_one_sentence(
    spark: SparkSession, app: str, stage: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        run_stage(app, stage, [], options=options)
    assert "\n" not in str(caught.value)
