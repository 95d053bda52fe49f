"""The benchmark of window methods: its order is fair, and its table says what was missed."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import windows as bench
from fogctl.planner.journal import Journal


def test_every_case_is_measured_by_both_methods_in_every_round_and_neither_always_first() -> None:
    order = list(bench._order())
    assert len(order) == len(set(order)) == len(bench.CASES) * 2 * bench.ROUNDS
    first = Counter(method for _, _, method, _ in order[::2])
    assert set(first) == set(bench.METHODS)
    assert max(first.values()) - min(first.values()) <= bench.ROUNDS
    for overlaps, rows in bench.CASES:
        begun = {each[2] for each in order[::2] if each[:2] == (overlaps, rows)}
        assert begun == set(bench.METHODS), "each method comes first in some round"
    assert {place[:2] for place in order[:: len(bench.CASES) * 2]} != {order[0][:2]}


def write(folder: Path, sliced_us: float, rounds: int = 3) -> Path:
    file = folder / f"{sliced_us}.jsonl"
    journal = Journal(file)
    journal.open_for({"campaign": "windows"})
    for round_ in range(rounds):
        for method, cost in (("native", 30.0), ("sliced", sliced_us)):
            measured = bench.Measured(60, 17, method, round_, cost + 0.1 * round_)
            journal.add({"part": "rows", **asdict(measured)})
    journal.add({"part": "fixed", "method": "native", "turn": 0, "cpu_ms_per_batch": 431.0})
    return file


def test_the_table_has_the_medians_and_a_target_that_is_missed_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["show", str(write(tmp_path, 10.0)), "--plot", str(tmp_path / "plot.svg")]) == 0
    out = capsys.readouterr().out
    assert "| 60 | 17 | 33,223 | 99,010 | 2.98 (target 2) | sliced | 0.0% |" in out
    assert (tmp_path / "plot.svg").exists()
    assert "204 of 210 queries: not measured yet" in out
    assert "hardly a row, native: 431 ms of CPU" in out
    assert "hardly a row, sliced: not measured yet" in out
    assert bench.main(["show", str(write(tmp_path, 20.0)), "-o", "json"]) == 1
    (line,) = json.loads(capsys.readouterr().out)
    assert line["ratio"] == pytest.approx(30.1 / 20.1)


def test_how_cost_grows_with_the_overlaps_is_told_for_each_method() -> None:
    costs = {
        (overlaps, rows, method): 10.0 * (overlaps if method == "native" else 1 + overlaps / rows)
        for overlaps, rows in bench.CASES
        for method in bench.METHODS
    }
    cases = list(bench.lines(costs))
    assert bench.growth(cases, "native") == pytest.approx((60, 60))
    assert bench.growth(cases, "sliced") == pytest.approx(((1 + 60 / 500) / (1 + 1 / 500), 31 / 1.5))
    assert bench.growth([case for case in cases if case.overlaps > 1], "native") is None
    measured = [
        {"part": "rows", "overlaps": o, "rows_per_slice": r, "method": m, "round": 0, "cpu_us_per_row": cost}
        for (o, r, m), cost in costs.items()
    ]
    assert "From 1 to 60 overlaps a row's CPU time grows 60.0- to 60.0-fold, native." in bench.report(
        measured
    )


def test_overlaps_from_1_to_60_and_2_to_500_rows_are_foretold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {1, 5, 20, 30, 60} <= set(bench.OVERLAPS)
    assert (min(bench.ROWS_PER_SLICE), max(bench.ROWS_PER_SLICE)) == (2, 500)
    assert bench.main(["measure", "--to", str(tmp_path / "w.jsonl"), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "rows: 210 of 210 measurements" in out
    assert "needs no root" in out
