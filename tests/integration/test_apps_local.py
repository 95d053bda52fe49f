"""The shipped apps in a real Spark inside this process: results judged by plain Python, plans by Spark."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fogapps.logs.lines import Line, lines
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from streamed_stage import stream_results

from fogctl.runtime import local, realtime_plan
from fogctl.runtime.app import App, Stage, load
from fogctl.runtime.local import Record, run_stage
from fogctl.runtime.realtime import PlanFacts
from fogctl.runtime.stage_query import Spec, load_function, result_of
from fogctl.trace.make import MakeOptions, make

PLACES = {
    "Empire State Building": (-73.985656, 40.748433),
    "Statue of Liberty": (-74.044500, 40.689249),
    "Central Park Zoo": (-73.971834, 40.767778),
}
LITTLE_WORK = {"work": "3"}
DIRTY_RIDES: Sequence[Record] = [
    *("", ",", "no ride at all", "1,t,t,,40.7", "1,t,t,-73.9", "1,t,t,NaN,40.7", "1,t,t,-73.9,Infinity"),
    *("1,t,t,0.0,0.0,rest", "1,t,t,-273.9,40.7", "1,t,t,-73.9,140.7", "1,t,t,abc,40.7", "|||", "a|b|c|d|e"),
    *('1,t,t,"-73.9","40.7"', "ü,☃,\x00,-73.9,x", "1,t,t,- 73.9,40.7", "1|2,t|,t,x,y|z", None),
]
ODD_RIDES: Sequence[Record] = [
    "a|b,t,t,-73.9,40.7,|",
    "1,t,t, -73.95 ,4.07e1",
    "1\n,t,t,-73.9,40.7\n",
    "1,t,t,0,40",
]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = local.session()
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")  # as in a stage
    yield session
    session.stop()


@pytest.fixture(scope="module")
def rides() -> list[Record]:
    made = make(MakeOptions(seed=3, days=0.02, rides_per_day=20_000, dirt=0.3))
    return [*(value.decode() for value in made.values()), *DIRTY_RIDES, *ODD_RIDES]


@pytest.fixture(scope="module")
def places(spark: SparkSession, rides: list[Record]) -> list[tuple[str, str]]:
    return run_stage("taxi", "nearest", rides, options=LITTLE_WORK)


def kilometres(lon: float, lat: float, place: tuple[float, float]) -> float:
    """Along the great circle: another formula than the app's."""
    (x1, y1), (x2, y2) = ((math.radians(x), math.radians(y)) for x, y in ((lon, lat), place))
    half = math.sin((y2 - y1) / 2) ** 2 + math.cos(y1) * math.cos(y2) * math.sin((x2 - x1) / 2) ** 2
    return 2 * 6371.0 * math.asin(math.sqrt(half))


def position(line: str) -> tuple[float, float] | None:
    try:
        lon, lat = (float(field) for field in line.split(",")[3:5])
    except ValueError:
        return None
    fine = abs(lon) <= 180 and abs(lat) <= 90 and (lon, lat) != (0, 0)
    return (lon, lat) if fine else None


def test_every_ride_comes_out_once_under_its_key_with_its_line(
    rides: list[Record], places: list[tuple[str, str]]
) -> None:
    assert len(rides) > 300
    assert [key for key, _ in places] == [str(number) for number in range(1, len(rides) + 1)]
    for ride, (_, value) in zip(rides, places, strict=True):
        assert value.rsplit(",", 2)[0] == (ride or "")


def test_the_attraction_is_the_nearest_and_the_distance_right(
    rides: list[Record], places: list[tuple[str, str]]
) -> None:
    judged = 0
    for ride, (_, value) in zip(rides, places, strict=True):
        _, name, km = value.rsplit(",", 2)
        here = position(str(ride or ""))
        assert (name == "invalid") == (here is None), value
        if here is None:
            assert km == ""
        elif -74.3 < here[0] < -73.6 and 40.4 < here[1] < 41.1:
            true = {place: kilometres(*here, at) for place, at in PLACES.items()}
            judged += 1
            assert true[name] <= min(true.values()) * 1.004 + 0.001, value
            assert float(km) == pytest.approx(true[name], rel=0.002, abs=0.001)
    assert judged > 200


def test_three_stages_give_what_one_gives(rides: list[Record], places: list[tuple[str, str]]) -> None:
    pickups = run_stage("taxi3", "parse", rides, options=LITTLE_WORK)
    distances = run_stage("taxi3", "measure", pickups, options=LITTLE_WORK)
    assert run_stage("taxi3", "choose", distances, options=LITTLE_WORK) == places


@pytest.mark.parametrize("work", ["-1", "much", "1.5", "99999999", ""])
def test_work_that_is_no_amount_is_refused(spark: SparkSession, work: str) -> None:
    with pytest.raises(ValueError, match="the option work is a whole number from 0 to 10000000"):
        run_stage("taxi", "nearest", [], options={"work": work})


@pytest.fixture(scope="module")
def log_lines() -> list[Line]:
    return list(lines(600, seed=8, dirt=0.25))


@pytest.fixture(scope="module")
def entries(spark: SparkSession, log_lines: list[Line]) -> list[tuple[str, str]]:
    return run_stage("logs", "parser", [line.text for line in log_lines])


def test_every_line_is_read_or_marked_invalid(log_lines: list[Line], entries: list[tuple[str, str]]) -> None:
    assert [key for key, _ in entries] == [str(number) for number in range(1, len(log_lines) + 1)]
    for line, (_, value) in zip(log_lines, entries, strict=True):
        entry = json.loads(value)
        if not line.valid:
            assert entry == {"valid": False, "line": line.text}
            continue
        assert entry.pop("valid") is True
        again = "{time} {level} {component}[{pid}]: {message}".format(**entry)
        assert again == line.text


def test_a_line_without_text_and_one_with_line_breaks(spark: SparkSession) -> None:
    text = "2026-02-28T00:00:00Z INFO a[1]: one\ntwo  three "
    made = run_stage("logs", "parser", [("x", None), ("y", text), ("z", text + "\n")])
    assert [key for key, _ in made] == ["x", "y", "z"]
    assert [json.loads(value).get("message") for _, value in made] == [
        None, "one\ntwo  three ", "one\ntwo  three \n",
    ]  # fmt: skip


@pytest.mark.parametrize("by", ["component", "level"])
def test_counts_are_those_of_the_lines(
    log_lines: list[Line], entries: list[tuple[str, str]], by: str
) -> None:
    made = run_stage("logs", "counter", entries, options={"by": by})
    assert all(json.loads(value)[by] == key for key, value in made)
    counted = {key: json.loads(value)["count"] for key, value in made}
    assert counted == Counter(getattr(line, by) or "(invalid)" for line in log_lines)


def test_each_entry_has_the_patterns_it_matches(
    log_lines: list[Line], entries: list[tuple[str, str]]
) -> None:
    made = run_stage("logs", "matcher", entries, options=LITTLE_WORK)
    assert [key for key, _ in made] == [key for key, _ in entries]
    for line, (_, value) in zip(log_lines, made, strict=True):
        wanted = {"valid": True, "component": line.component, "matches": list(line.matches)}
        assert json.loads(value) == (wanted if line.valid else {"valid": False})


def test_a_pattern_of_one_s_own(spark: SparkSession) -> None:
    entry = json.dumps({"valid": True, "component": "a", "message": "volume 7 is tired"})
    made = run_stage(
        "logs", "matcher", [entry, "garbage", None], options={**LITTLE_WORK, "pattern.tired": r"\d is t"}
    )
    assert [json.loads(value).get("matches") for _, value in made] == [["tired"], None, None]


def test_counting_by_something_else_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match='the option by is component or level, not "pid"'):
        run_stage("logs", "counter", [], options={"by": "pid"})


def reading(sensor: str, second: float, value: object) -> str:
    time = datetime(2026, 5, 1, 12, tzinfo=UTC) + timedelta(seconds=second)
    return json.dumps({"sensor": sensor, "time": time.isoformat().replace("+00:00", "Z"), "value": value})


def test_means_are_those_of_the_readings_and_counts_add_up(spark: SparkSession) -> None:
    given = [(f"s{n % 3}", n * 0.7, math.sin(n)) for n in range(100)]
    garbage = [
        *("", "{", "[]", "12", None, reading("", 1, 1), reading("a", 1, None), reading("a", 1, "x")),
        *('{"sensor": "a", "value": 1}', '{"sensor": "a", "time": "yesterday", "value": 1}'),
        *(reading("a", 1, float("nan")), reading("a", 1, float("inf")), reading("a", 606, 1.0)),
    ]
    arrival = datetime(2026, 5, 1, 12, 10, tzinfo=UTC)
    early_but_possible = reading("s0", 604, 1.0)  # ahead of its arrival, by less than late_s
    values = [*(reading(*one) for one in given), *garbage, early_but_possible]
    made = run_stage("sensors", "mean", [("k", value, arrival) for value in values])
    assert all(json.loads(value)["sensor"] == key for key, value in made)
    results = [json.loads(value) for _, value in made]
    invalid = [result for result in results if result["sensor"] == "(invalid)"]
    assert [result["count"] for result in invalid] == [len(garbage)]
    assert sum(result["count"] for result in results) == len(values)
    groups: dict[tuple[str, str], list[float]] = {("s0", "2026-05-01T12:10:00.000Z"): [1.0]}
    for sensor, second, value in given:
        start = f"2026-05-01T12:0{int(second) // 60}:{int(second) % 60 // 10}0.000Z"
        groups.setdefault((sensor, start), []).append(value)
    found = {(r["sensor"], r["from"]): r["mean"] for r in results if r["sensor"] != "(invalid)"}
    assert found == {key: pytest.approx(sum(values) / len(values)) for key, values in groups.items()}


@pytest.mark.parametrize("given", ["0", "-1", "soon", "nan", "1e9"])
def test_a_window_that_is_no_time_is_refused(spark: SparkSession, given: str) -> None:
    with pytest.raises(ValueError, match="the option window_s is a number of seconds"):
        run_stage("sensors", "mean", [], options={"window_s": given})


def test_the_counter_writes_what_changed_in_each_batch(spark: SparkSession, tmp_path: Path) -> None:
    first, second = (
        [json.dumps({"valid": True, "component": name, "message": "m"}) for name in names]
        for names in ("aab", "ac")
    )
    made = stream_results(spark, tmp_path, "logs", "counter", [first, second])
    assert sorted((key, value["count"]) for key, value in made[:2]) == [("a", 2), ("b", 1)]
    assert sorted((key, value["count"]) for key, value in made[2:]) == [("a", 3), ("c", 1)]


def test_a_window_is_written_once_when_it_is_over_and_late_readings_are_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [
        [reading("a", 1, 2.0), reading("a", 9, 4.0)],
        [reading("a", 14, 8.0), reading("a", 8, 6.0)],  # the second comes late, but in time
        [reading("a", 30, 1.0)],
        [reading("a", 31, 1.0)],
        [reading("a", 3, 1000.0), reading("a", 32, 1.0)],  # the first comes too late
        [reading("a", 60, 1.0)],
        [reading("a", 61, 1.0)],
    ]
    made = stream_results(spark, tmp_path, "sensors", "mean", batches)
    assert sorted((value["from"][-7:-1], value["mean"], value["count"]) for _, value in made) == [
        ("00.000", 4.0, 3),
        ("10.000", 8.0, 1),
        ("30.000", 1.0, 3),
    ]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            'return records.select("key", "timestamp")',
            "returns the columns key, timestamp; value is missing (end with .select(…) that names both)",
        ),
        ('return records.groupBy("value").count()', "returns the columns value, count; key is missing"),
        ('records.select("key", "value")', "returns NoneType, not a DataFrame (does it end with return?)"),
    ],
)
def test_a_function_whose_result_is_no_key_and_value_is_refused_with_what_is_missing(
    spark: SparkSession, tmp_path: Path, body: str, sentence: str
) -> None:
    code = tmp_path / "app.py"
    code.write_text(f"def work(records, options):\n    {body}\n")
    fields = {field.name: None for field in dataclasses.fields(Spec)}
    stage = {"function": "work", "options": {}}
    spec = Spec(**{**fields, "stage": stage, "code": str(code), "origin": "mine/app.py"})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"the function work of mine/app\.py") as caught:
        result_of(spec, [local.records(spark, ["1"])])
    assert sentence in str(caught.value)


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    columns = ("cast(value as string) key", "cast(value as string) value", "timestamp")
    return spark.readStream.format("rate").load().selectExpr(*columns)


def stages() -> list[tuple[App, Stage]]:
    """Those that can run in real-time mode, and the sensors'."""
    names = ("identity", "logs", "sensors", "taxi", "taxi3")
    return [(app, stage) for app in map(load, names) for stage in app.stages]


@pytest.mark.parametrize(("app", "stage"), stages(), ids=lambda value: value.name)
def test_the_shipped_apps_are_native(stream: DataFrame, app: App, stage: Stage) -> None:
    result = load_function(app.code, stage.function)(stream, dict(stage.options))
    shuffles = (1,) if stage.name in ("counter", "mean") else ()
    assert realtime_plan.facts(result) == PlanFacts(shuffle_tasks=shuffles)
    assert realtime_plan.stateful(result) == ({"Aggregate"} if shuffles else set())


@pytest.mark.parametrize(
    ("app", "stage"),
    [(app, stage) for app, stage in stages() if stage.name not in ("copy", "counter")],
    ids=lambda value: value.name,
)
def test_work_is_done_once_a_record_and_cannot_be_left_out(stream: DataFrame, app: App, stage: Stage) -> None:
    result = load_function(app.code, stage.function)(stream, {**dict(stage.options), "work": "77"})
    optimized = result._jdf.queryExecution().sparkSession().sessionState().optimizer()
    plan = optimized.execute(result._jdf.queryExecution().analyzed()).toString()
    assert plan.count("aggregate(") == 1


def test_python_is_found_wherever_it_hides(stream: DataFrame) -> None:
    @f.udf("string")
    def hidden(text):
        return text

    @f.udf("string")
    def second(text):
        return text

    found = [
        realtime_plan.facts(result).python
        for result in (
            stream.select("key", f.concat(f.lit("x"), hidden("value")).alias("value")),
            stream.filter(hidden("value") == "a").select("key", f.upper("value").alias("value")),
            stream.groupBy(hidden("key").alias("key")).count(),
            stream.select("key", second(f.upper(hidden("value"))).alias("value")),
        )
    ]
    assert found == [*[("the UDF hidden",)] * 3, ("the UDF second", "the UDF hidden")]


def test_python_that_makes_whole_rows_is_found(stream: DataFrame) -> None:
    pytest.importorskip("pandas", reason="Spark needs pandas to define these")

    def same(part: Any) -> Any:
        return part

    def stateful(key: Any, parts: Any, state: Any) -> Any:
        return parts

    columns = "key string, value string"
    by_key = stream.groupBy("key")
    found = [
        realtime_plan.facts(result).python
        for result in (
            stream.mapInPandas(same, columns),
            stream.mapInArrow(same, columns).select("key"),
            by_key.applyInPandas(same, columns),
            by_key.applyInPandasWithState(stateful, columns, "n int", "update", "NoTimeout"),
        )
    ]
    assert found == [("mapInPandas",), ("mapInArrow",), ("applyInPandas",), ("applyInPandasWithState",)]


def test_foreign_operators_are_named_and_shuffles_counted(spark: SparkSession, stream: DataFrame) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    try:
        timed = stream.withWatermark("timestamp", "5 seconds")
        small = spark.createDataFrame([("1", "2")], "key string, other string")
        plans = {
            PlanFacts(): stream.join(f.broadcast(small), "key").union(stream.join(small, "key")),
            PlanFacts(unsupported=("coalesce",)): stream.coalesce(1),
            PlanFacts(unsupported=("repartitionByRange",)): stream.repartitionByRange(3, "key"),
            PlanFacts(unsupported=("orderBy",)): stream.orderBy("key"),
            PlanFacts(unsupported=("limit",)): stream.limit(3),
            PlanFacts(unsupported=("join of two streams",)): stream.join(
                stream.withColumnRenamed("value", "other"), "key"
            ),
            PlanFacts(unsupported=("session windows",)): timed.groupBy(
                f.session_window("timestamp", "5 seconds")
            ).count(),
            PlanFacts(shuffle_tasks=(4,)): timed.groupBy(f.window("timestamp", "5 seconds")).count(),
            PlanFacts(shuffle_tasks=(4, 3)): stream.repartition(3).dropDuplicates(["key"]),
            PlanFacts(shuffle_tasks=(5,)): stream.repartition(5, "key"),
        }
        assert {facts: realtime_plan.facts(result) for facts, result in plans.items()} == {
            facts: facts for facts in plans
        }
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "1")
