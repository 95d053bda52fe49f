"""`fogctl bench`: the files, the search with every strategy, going on where it stopped, table and plot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fogctl.bench.bench_file import BenchmarkFile, ExecutionFile, Metric, Simulated, Strategy
from fogctl.bench.data import require_data
from fogctl.bench.live import by_arrival
from fogctl.bench.load import Case, asking, load, shipped
from fogctl.bench.objectives import judge
from fogctl.bench.search import bounds, counts, run
from fogctl.bench.simulated import SimulatedSubject
from fogctl.cli.bench import app
from fogctl.errors import FogError
from fogctl.planner.journal import Journal
from fogctl.planner.measure import Window
from fogctl.runtime import app as apps
from fogctl.runtime.app_options import with_options

BENCHMARK = {
    "name": "probe",
    "system": {"simulated": {"rate_of_one": 1000, "growth": 0.9}},
    "load": {"by": "keys"},
}
EXECUTION = {"benchmark": "b.yaml", "loads": [500, 1000, 2000, 3000], "resources": [1, 2, 3, 4, 6]}


def case(**execution: object) -> Case:
    asked = {"benchmark": BENCHMARK, "execution": {**EXECUTION, **execution}}
    return Case(
        BenchmarkFile.model_validate(asked["benchmark"]),
        ExecutionFile.model_validate(asked["execution"]),
        asked,
        Path(),
    )


class KilledError(Exception):
    """The machine stopped."""


class Known:
    """A subject whose capacity is known and whose experiments are counted; it may die."""

    def __init__(self, per_replica: float = 800.0, dies_after: int | None = None) -> None:
        self.made: list[tuple[float, int, int]] = []
        self._per_replica, self._dies_after = per_replica, dies_after

    def experiment(self, load: float, resources: int, repetition: int, *_: float) -> Window:
        if self._dies_after is not None and len(self.made) >= self._dies_after:
            raise KilledError
        self.made.append((load, resources, repetition))
        excess = max(0.0, load - self._per_replica * resources)
        times = tuple(map(float, range(60)))
        return Window(times, tuple(excess * t for t in times), load, load - excess, 1.0)


@pytest.mark.parametrize("name", [name for name in shipped() if name != "simulated"])
def test_a_live_benchmark_that_ships_names_an_app_with_data_and_options_that_it_has(name: str) -> None:
    loaded = load(name)
    system = loaded.benchmark.system.live
    assert system is not None
    app = by_arrival(apps.load(system.app))
    given = [
        f"{stage}.{key}={value}" for stage, more in system.options.items() for key, value in more.items()
    ]
    app = with_options(app, given)
    assert require_data(app, 10) in ("readings", "flows")
    assert loaded.benchmark.name == name
    other = asking(loaded, Metric.capacity)
    assert other.execution.metric is Metric.capacity
    assert other.asked != loaded.asked


def test_the_task_samples_and_ospbench_ship() -> None:
    assert shipped() == ["ospbench", "simulated", "uc1", "uc2", "uc3", "uc4"]


def test_a_right_guess_saves_experiments() -> None:
    linear = ExecutionFile.model_validate(
        {"benchmark": "b", "loads": [100 * n for n in range(1, 13)], "resources": list(range(1, 41))}
    )
    found = counts(linear, {float(100 * n): float(3 * n) for n in range(1, 13)})
    assert found["guided, lower bound"] < found["binary, lower bound"] < found["full"]
    assert found["guided, lower bound"] <= 2 * 12 + 4  # two for each, and a few to find the first


def test_what_ships_loads_and_is_answered(tmp_path: Path) -> None:
    loaded = load("simulated")
    system = loaded.benchmark.system.simulated
    assert system is not None
    subject = SimulatedSubject(system, loaded.benchmark.load, 1)
    found = run(loaded, subject, Journal(tmp_path / "j"))
    for keys, replicas in found.answers.items():
        assert replicas is not None
        # A batch has half a second of fixed time in five.
        most = 0.9 * system.rate_of_one
        assert most * replicas**system.growth >= 0.97 * keys
        fewer = max((n for n in loaded.execution.resources if n < replicas), default=0)
        assert most * fewer**system.growth <= 1.03 * keys


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("lower_bound", [True, False])
def test_every_strategy_finds_the_same(
    tmp_path: Path, metric: Metric, strategy: Strategy, lower_bound: bool
) -> None:
    this = case(metric=metric.value, strategy=strategy.value, lower_bound=lower_bound)
    subject = Known()
    found = run(this, subject, Journal(tmp_path / "j"))
    wanted: dict[float, float | None]
    if metric is Metric.demand:
        wanted = {500: 1, 1000: 2, 2000: 3, 3000: 4}
    else:
        wanted = {1: 500, 2: 1000, 3: 2000, 4: 3000, 6: 3000}
    assert found.answers == wanted
    bound = lower_bound and strategy is not Strategy.full
    assert len(subject.made) == found.needed[f"{strategy}, lower bound" if bound else strategy.value]
    assert found.needed["full"] == 20
    least, most = bounds(this.execution)
    assert least <= len(subject.made) <= most


def test_a_load_beyond_all_resources_has_no_answer_and_the_slope_is_of_the_others(tmp_path: Path) -> None:
    found = run(case(), Known(per_replica=400.0), Journal(tmp_path / "j"))
    assert found.answers == {500: 2, 1000: 3, 2000: 6, 3000: None}
    assert found.slope == pytest.approx(3 / 1000)
    assert all(found.slope * at <= answer for at, answer in found.answers.items() if answer)
    nothing = run(case(), Known(per_replica=1.0), Journal(tmp_path / "k"))
    assert (set(nothing.answers.values()), nothing.slope) == ({None}, None)


def test_the_median_of_the_repetitions_decides(tmp_path: Path) -> None:
    this = case(loads=[500], resources=[1], repetitions=3)
    bad = Window(tuple(map(float, range(60))), tuple(900.0 * t for t in range(60)), 500.0, 1.0, 1.0)

    class OnceBad(Known):
        def experiment(self, load: float, resources: int, repetition: int, *_: float) -> Window:
            seen = super().experiment(load, resources, repetition)
            return bad if repetition == 1 else seen

    found = run(this, OnceBad(), Journal(tmp_path / "j"))
    assert [made.sustained for made in found.experiments] == [True, False, True]
    assert found.answers == {500: 1}


def test_a_killed_run_goes_on_and_makes_nothing_twice(tmp_path: Path) -> None:
    this = case(repetitions=3, strategy="binary")
    journal = Journal(tmp_path / "folder" / "experiments.jsonl")
    whole = Known()
    wanted = run(this, whole, Journal(tmp_path / "whole"))
    first, second = Known(dies_after=7), Known()
    with pytest.raises(KilledError):
        run(this, first, journal)
    assert run(this, second, journal) == wanted
    assert first.made + second.made == whole.made
    third = Known()
    assert run(this, third, journal) == wanted
    assert third.made == []


def test_an_experiment_is_kept_with_its_lag_so_that_it_can_be_judged_again(tmp_path: Path) -> None:
    this, journal = case(), Journal(tmp_path / "j")
    made = run(
        this, SimulatedSubject(Simulated(rate_of_one=1000), this.benchmark.load, 1), journal
    ).experiments
    lines = journal.read()[1]
    assert len(lines) == len(made) > 3
    for line in lines:
        seen = Window(**line["seen"])
        assert len(seen.lags) == len(seen.times_s) == this.execution.duration
        again = judge(seen, this.benchmark.load.rate_per_s(line["load"]), this.benchmark.slos)
        assert [f"{each.kind}: {each.reason}" for each in again] == line["reasons"]
        assert all(each.met for each in again) == line["sustained"]


def test_experiments_kept_without_their_lag_are_read_too(tmp_path: Path) -> None:
    this, file = case(), tmp_path / "j"
    whole = run(this, Known(), Journal(file))
    head, *lines = map(json.loads, file.read_text().splitlines())
    older = [head, *({name: value for name, value in line.items() if name != "seen"} for line in lines)]
    file.write_text("".join(json.dumps(line) + "\n" for line in older))
    again = Known()
    assert run(this, again, Journal(file)).answers == whole.answers
    assert again.made == []


def test_other_loads_do_not_go_into_the_same_folder(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    run(case(), Known(), journal)
    with pytest.raises(FogError, match="holds measurements of something else: execution changed"):
        run(case(loads=[1, 2]), Known(), journal)


def test_a_load_that_cannot_be_injected_is_refused_and_the_rest_is_kept(tmp_path: Path) -> None:
    class Slow(Known):
        def experiment(self, load: float, resources: int, repetition: int, *_: float) -> Window:
            seen = super().experiment(load, resources, repetition)
            most = min(load, 1500.0)
            limit = "injector" if most < load else None
            return Window(seen.times_s, seen.lags, most, seen.processed_per_s, 1.0, limit)

    journal = Journal(tmp_path / "j")
    with pytest.raises(FogError, match="the injector managed only 1,500 of 2,000 records/s") as caught:
        run(case(), Slow(), journal)
    assert caught.value.exit_code == 3
    assert len(journal.read()[1]) == 3


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.sampled_from(list(Strategy)),
    st.booleans(),
    st.sampled_from(list(Metric)),
)
def test_the_forecast_holds_whatever_the_answers(
    steps: list[int], strategy: Strategy, lower_bound: bool, metric: Metric
) -> None:
    """Answers that never fall, over choices 1 to 6 (beyond: none)."""
    answers, at = [], 0
    for step in steps:
        at += step // 3
        answers.append(float(at) if 1 <= at <= 6 else (1.0 if at < 1 else None))
    given_values, choices = [float(n + 1) for n in range(len(steps))], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    loads, resources = (given_values, choices) if metric is Metric.demand else (choices, given_values)
    if metric is Metric.capacity:
        answers = [6.0 if answer is None else answer for answer in answers]
    this = case(loads=loads, resources=resources, strategy=strategy.value, lower_bound=lower_bound,
                metric=metric.value).execution  # fmt: skip
    found = counts(this, dict(zip(given_values, answers, strict=True)))
    name = strategy.value if strategy is Strategy.full or not lower_bound else f"{strategy}, lower bound"
    least, most = bounds(this)
    assert least <= found[name] <= most


def write(folder: Path, benchmark: str | None = None, execution: str | None = None) -> str:
    (folder / "b.yaml").write_text(
        benchmark or "name: probe\nsystem: {simulated: {rate_of_one: 1000}}\nload: {by: rate}\n"
    )
    file = folder / "e.yaml"
    file.write_text(execution or "benchmark: b.yaml\nloads: [500, 1500]\nresources: [1, 2]\n")
    return str(file)


def test_commands_run_show_and_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path)
    forecast = CliRunner().invoke(app, ["run", file, "--dry-run", "-o", "json"], catch_exceptions=False)
    assert json.loads(forecast.stdout)["experiments"] == {"least": 2, "most": 3}
    assert not (tmp_path / "bench-probe").exists()
    made = CliRunner().invoke(app, ["run", file, "-o", "json"], catch_exceptions=False)
    data = json.loads(made.stdout)
    assert made.stderr.startswith("probe: 2 to 3 experiments of 5 min"), "its cost comes first"
    assert [each["answer"] for each in data["answers"]] == [1, 2]
    shown = CliRunner().invoke(
        app, ["show", "bench-probe", "--plot", "demand.svg", "-o", "json"], catch_exceptions=False
    )
    assert json.loads(shown.stdout) == data
    picture = (tmp_path / "demand.svg").read_text()
    assert "linear bound" in picture
    assert "load (records/s)" in picture
    people = CliRunner().invoke(app, ["show", "bench-probe"], catch_exceptions=False)
    assert "3 experiments were made" in people.stdout
    assert "linear, lower bound" in people.stdout


@pytest.mark.parametrize(
    ("benchmark", "execution", "words"),
    [
        ("name: x\nload: {by: rate}\n", None, "b.yaml:1: system: is missing"),
        ("name: x\nsystem: {}\nload: {by: rate}\n", None, "b.yaml:2: system: needs one of"),
        ("name: x\nsystem: {simulated: {rate_of_one: 0}}\nload: {by: rate}\n", None, "a number above 0"),
        ("name: x\nsystem: {simulated: {rate_of_one: 9}}\nload: {by: bytes}\n", None, '"bytes" is not'),
        (None, "benchmark: c.yaml\nloads: [1]\nresources: [1]\n", "e.yaml:1: benchmark: there is no file"),
        (None, "benchmark: b.yaml\nloads: [2, 1]\nresources: [1]\n", "must ascend, but 1 follows 2"),
        (None, "benchmark: b.yaml\nloads: [1]\nresources: [1.5]\n", "resources are whole numbers"),
        (None, "benchmark: b.yaml\nloads: []\nresources: [1]\n", "loads: has too few items"),
        (None, "benchmark: b.yaml\nloads: [1]\nresources: [1]\nrepetitions: 2\n", "repetitions must be odd"),
        (None, "benchmark: b.yaml\nloads: [1]\nresources: [1]\nwarm_up: 0s\n", "must be more than 0"),
        (None, "benchmark: b.yaml\nloads: [1]\nresources: [1]\nduration: 9\n", "the unit is missing"),
        (None, "benchmark: b.yaml\nload: [1]\nresources: [1]\n", 'did you mean "loads"?'),
    ],
)  # fmt: skip
def test_bad_files_are_told_in_one_sentence(
    tmp_path: Path, benchmark: str | None, execution: str | None, words: str
) -> None:
    file = write(tmp_path, benchmark, execution)
    with pytest.raises(FogError) as caught:
        load(file)
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FogError, match='did you mean "simulated"'):
        load("simulatd")
    with pytest.raises(FogError, match="no such file"):
        CliRunner().invoke(app, ["show", str(tmp_path)], catch_exceptions=False)
    (tmp_path / "experiments.jsonl").write_text('{"format": 1, "asked": {"app": "x"}}\n')
    with pytest.raises(FogError, match="is not of a benchmark"):
        CliRunner().invoke(app, ["show", str(tmp_path)], catch_exceptions=False)


def test_showing_an_unfinished_benchmark_says_what_is_missing(tmp_path: Path) -> None:
    this = case()
    with pytest.raises(KilledError):
        run(this, Known(dies_after=2), Journal(tmp_path / "experiments.jsonl"))
    with pytest.raises(FogError, match=r"the experiment with load .* is not made yet") as caught:
        CliRunner().invoke(app, ["show", str(tmp_path)], catch_exceptions=False)
    assert caught.value.exit_code == 3
