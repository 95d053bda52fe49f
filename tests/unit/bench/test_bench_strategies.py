"""What search strategies save: the table of the guide is what its command makes, judged by plain loops."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3]))

from benchmarks import strategies
from fogctl.bench.bench_file import Metric
from fogctl.bench.load import load
from fogctl.bench.search import run
from fogctl.bench.simulated import SimulatedSubject
from fogctl.planner.journal import Journal

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "bench.md"


def test_the_table_of_the_guide_is_the_one_that_is_made() -> None:
    guide = GUIDE.read_text(encoding="utf-8").partition("<!-- begin strategies -->")[2]
    assert guide.partition("<!-- end strategies -->")[0].strip() == strategies.report().strip()


def test_the_figures_of_the_simulated_benchmark_are_those_of_a_run(tmp_path: Path) -> None:
    case = load("simulated")
    assert case.benchmark.system.simulated is not None
    subject = SimulatedSubject(case.benchmark.system.simulated, case.benchmark.load, case.execution.seed)
    found = run(case, subject, Journal(tmp_path / "j"))
    said = ", ".join(f"{name.replace(',', ' with')} {count}" for name, count in found.needed.items())
    assert said in " ".join(GUIDE.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("executed", list(strategies.EXECUTIONS))
@pytest.mark.parametrize("surface", list(strategies.SURFACES))
def test_the_thesis_strategy_makes_as_many_experiments_as_a_plain_loop(executed: str, surface: str) -> None:
    execution, sustained = strategies.EXECUTIONS[executed], strategies.SURFACES[surface]
    place = count = 0
    for amount in execution.loads:
        while place < len(execution.resources):
            count += 1
            if amount <= sustained(execution.resources[place]):
                break
            place += 1
    (row,) = (
        row
        for row in strategies.rows()
        if (row.executed, row.metric, row.strategy) == (executed, Metric.demand, "linear, lower bound")
    )
    assert row.experiments[surface] == count


def test_savings_are_of_what_the_full_search_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert strategies.main(["-o", "json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        execution = strategies.EXECUTIONS[row["executed"]]
        every = len(execution.loads) * len(execution.resources) * len(strategies.SURFACES)
        assert row["saved"] == pytest.approx(1 - sum(row["experiments"].values()) / every)
        assert 0 <= row["saved"] < 1
