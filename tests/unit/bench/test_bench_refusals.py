"""`fogctl bench` when no answer can come: one sentence, exit 2 or 3, and what was made is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fogctl.bench.bench_file import Live, Load, LoadType
from fogctl.bench.data import MOST_KEYS, require_data
from fogctl.bench.load import load
from fogctl.bench.search import run
from fogctl.bench.simulated import SimulatedSubject
from fogctl.cli.bench import app
from fogctl.errors import FogError
from fogctl.planner.journal import Journal
from fogctl.planner.measure import Window
from fogctl.planner.simulated import SimulatedStage
from fogctl.runtime import app as app_files

EXECUTION = "benchmark: b.yaml\nloads: [500, 1500, 2500]\nresources: [1, 2, 3]\n"


def benchmark(slos: str = "", rate_of_one: float = 1000, more: str = "") -> str:
    system = f"{{simulated: {{rate_of_one: {rate_of_one:g}{more}}}}}"
    return f"name: probe\nsystem: {system}\nload: {{by: rate}}\n{slos}"


def write(folder: Path, what: str, execution: str = EXECUTION) -> str:
    (folder / "b.yaml").write_text(what)
    (folder / "e.yaml").write_text(execution)
    return str(folder / "e.yaml")


def refused(*arguments: str) -> FogError:
    with pytest.raises(FogError) as caught:
        CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return caught.value


class SlowInjector:
    """A simulated engine whose injector sends at most so many records a second."""

    def __init__(self, most_per_s: float) -> None:
        self.most_per_s = most_per_s

    def experiment(
        self, load: float, resources: int, repetition: int, warm_up_s: float, duration_s: float
    ) -> Window:
        engine = SimulatedStage(1000.0 * resources, seed=repetition + 1, injector_most_per_s=self.most_per_s)
        engine.run(load, warm_up_s)
        return engine.run(load, duration_s)


@pytest.mark.parametrize(
    ("slos", "words"),
    [
        ("slos: [{kind: processed, share: 100%}]\n", "b.yaml:4: slos[0]: share of processed must be below"),
        ("slos: [{kind: lag-trend-ratio, share: 0%}]\n", "slos[0]: share of lag-trend-ratio must be above"),
        ("slos: [{kind: lag-trend, confidence: 100%}]\n", "slos[0]: confidence must lie between"),
        ("slos: []\n", "slos"),
    ],
)
def test_objectives_that_cannot_be_met_are_refused_before_anything_runs(
    tmp_path: Path, slos: str, words: str
) -> None:
    error = refused("run", write(tmp_path, benchmark(slos)), "--to", str(tmp_path / "out"))
    assert words in str(error)
    assert error.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_look_too_short_for_any_objective_is_refused(tmp_path: Path) -> None:
    error = refused("run", write(tmp_path, benchmark(), EXECUTION + "duration: 5s\n"))
    assert "e.yaml:4: duration: must be 10s or more" in str(error)
    assert error.exit_code == 2


def test_an_engine_without_time_for_rows_is_refused(tmp_path: Path) -> None:
    error = refused("run", write(tmp_path, benchmark(more=", fixed: 5s, freshness: 5s")))
    assert "needs a freshness above fixed" in str(error)
    assert error.exit_code == 2


def test_nothing_sustained_is_told_with_the_reason_and_all_experiments_are_kept(tmp_path: Path) -> None:
    file, out = write(tmp_path, benchmark(rate_of_one=10)), str(tmp_path / "out")
    error = refused("run", file, "--to", out)
    assert "nothing was sustained, not even load 500 on 3 (lag-trend: the lag changes by +4" in str(error)
    assert error.exit_code == 3
    kept = (tmp_path / "out" / "experiments.jsonl").read_text()
    assert kept.count('"sustained": false') >= 3
    # The table is still told; and again from what was kept, with nothing made anew.
    with pytest.raises(FogError):
        CliRunner().invoke(app, ["show", out], catch_exceptions=False)
    assert refused("run", file, "--to", out).exit_code == 3
    assert (tmp_path / "out" / "experiments.jsonl").read_text() == kept


def test_a_load_above_what_can_be_sent_is_refused_and_later_gone_on_with(tmp_path: Path) -> None:
    case = load(write(tmp_path, benchmark()))
    journal = Journal(tmp_path / "out" / "experiments.jsonl")
    with pytest.raises(FogError, match="the injector managed only 2,000 of 2,500 records/s") as caught:
        run(case, SlowInjector(2000.0), journal)
    assert caught.value.exit_code == 3
    assert "experiments made so far are kept" in str(caught.value)
    before = journal.file.read_text()
    assert [line["load"] for line in journal.read()[1]][-1] == 1500
    outcome = run(case, SlowInjector(3000.0), journal)
    assert outcome.answers == {500: 1, 1500: 2, 2500: 3}
    assert journal.file.read_text().startswith(before)


def test_a_generator_that_is_slow_in_silence_is_noticed_too(tmp_path: Path) -> None:
    class Silent(SlowInjector):
        def experiment(self, *given: float) -> Window:  # type: ignore[override]
            return replace(super().experiment(*given), limited_by=None)  # type: ignore[arg-type]

    with pytest.raises(FogError, match="the injector managed only 400 of 500") as caught:
        run(load(write(tmp_path, benchmark())), Silent(400.0), Journal(tmp_path / "j"))
    assert caught.value.exit_code == 3


def test_apps_and_keys_without_data_are_refused_before_anything_is_deployed() -> None:
    with pytest.raises(FogError, match="there is no data for the stream lines of logs") as caught:
        require_data(app_files.load("logs"), 10)
    assert caught.value.exit_code == 2
    with pytest.raises(FogError, match="1,000,001 keys are more than the 1,000,000"):
        require_data(app_files.load("uc2"), MOST_KEYS + 1)
    from fogctl.bench.live import LiveSubject

    # No testbed is asked for: the load is looked at first.
    with pytest.raises(FogError, match="2,000,000 keys are more"):
        LiveSubject.of(
            Live(app="uc2"), Load(by=LoadType.keys), 1, 1, 2e6, None, lambda _: None  # type: ignore[arg-type]
        )  # fmt: skip


def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_runs(tmp_path: Path) -> None:
    file, out = write(tmp_path, benchmark()), tmp_path / "out"
    for plot, words in (("x.word", "cannot draw .word"), ("nowhere/x.svg", "there is no such folder")):
        error = refused("run", file, "--to", str(out), "--plot", str(tmp_path / plot))
        assert words in str(error)
        assert error.exit_code == 2
    assert not out.exists()


def test_a_line_that_is_no_experiment_is_named(tmp_path: Path) -> None:
    case = load(write(tmp_path, benchmark()))
    system = case.benchmark.system.simulated
    assert system is not None
    journal = Journal(tmp_path / "experiments.jsonl")
    run(case, SimulatedSubject(system, case.benchmark.load, 1), journal)
    lines = journal.file.read_text().splitlines()
    lines[2] = json.dumps({"load": 3})
    journal.file.write_text("\n".join(lines) + "\n")
    error = refused("show", str(tmp_path))
    assert "experiments.jsonl:3: is not an experiment" in str(error)
    assert error.exit_code == 2
