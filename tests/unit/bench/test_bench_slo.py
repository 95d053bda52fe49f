"""Objectives on the saw-tooth of micro-batches: false alarms and misses of the rules, as the guide says."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[3]))

from benchmarks import objectives
from benchmarks.objectives import CYCLES_S, OURS, Lag
from fogctl.bench.bench_file import Slo
from fogctl.bench.objectives import judge
from fogctl.planner.measure import Window

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "bench.md"


def alarms(load: float, cycle_s: float) -> tuple[float, ...]:
    return objectives.alarms(Lag(load, cycle_s))


def shares(text: str) -> Iterator[tuple[tuple[str, ...], list[float]]]:
    """Each row of the tables: what it is of, and its percentages."""
    for line in re.findall(r"^\| (\d+ s \| .*) \|$", text, re.MULTILINE):
        cells = line.split(" | ")
        words = next(place for place, cell in enumerate(cells) if cell in ("false alarms", "missed")) + 1
        yield tuple(cells[:words]), [float(cell.removesuffix("%")) / 100 for cell in cells[words:]]


def test_the_rates_of_the_guide_are_those_found() -> None:
    guide = GUIDE.read_text(encoding="utf-8").partition("<!-- begin objectives -->")[2]
    told = list(shares(guide.partition("<!-- end objectives -->")[0]))
    made = list(shares(objectives.report()))
    assert [of for of, _ in told] == [of for of, _ in made]
    assert len(told) == 16 + 16 + 24
    for (of, said), (_, found) in zip(told, made, strict=True):
        assert said == pytest.approx(found, abs=0.04), of


def test_an_alarm_is_wrong_where_the_engine_keeps_up_and_its_absence_where_not() -> None:
    for lag in (Lag(0.9, 5.0), Lag(1.2, 5.0)):
        said = np.array(objectives.alarms(lag, 10))
        assert np.allclose(objectives.wrong(lag, 10), said if lag.load < 1 else 1 - said)


def test_the_command_writes_its_tables_between_the_markers_of_a_guide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text("before\n<!-- begin objectives -->\nold\n<!-- end objectives -->\nafter\n")
    assert objectives.main(["--runs", "2", "--markdown", str(guide), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    text = guide.read_text()
    assert "old" not in text
    assert text.startswith("before")
    assert text.endswith("after\n")
    assert [each["wrong"]["`lag-trend`"] for each in found[:16]] == [
        row[3] for _, row in list(shares(text))[:16]
    ]


@pytest.mark.parametrize("cycle_s", CYCLES_S[:3])
def test_the_saw_tooth_is_no_trend(cycle_s: float) -> None:
    for load in (0.5, 0.9):
        assert alarms(load, cycle_s)[3] <= 0.08


@pytest.mark.parametrize("cycle_s", CYCLES_S[:3])
def test_an_overload_of_a_fifth_is_seen(cycle_s: float) -> None:
    assert alarms(1.2, cycle_s)[3] >= 0.9


def test_other_rules_cry_wolf_or_sleep_where_ours_does_neither() -> None:
    regression, ratio, widened, ours = (
        np.array([alarms(load, 30.0)[rule] for load in (0.9, 1.1)]) for rule in range(4)
    )
    assert regression[0] > 3 * ours[0]
    assert ratio[0] > 2 * ours[0]
    assert 1 - widened[1] > 1.4 * (1 - ours[1])


def test_each_objective_judges_by_its_own_share() -> None:
    times = tuple(map(float, range(100)))
    growing = Window(times, tuple(30.0 * t for t in times), 1000.0, 970.0, 1.0)
    kinds = {
        "lag-trend": ({"share": "1%"}, {"share": "5%"}),
        "lag-trend-ratio": ({"share": "2%"}, {"share": "5%"}),
        "processed": ({"share": "99%"}, {"share": "96%"}),
    }
    for kind, (strict, lenient) in kinds.items():
        for given, met in ((strict, False), (lenient, True)):
            (found,) = judge(growing, 1000.0, [Slo.model_validate({"kind": kind, **given})])
            assert (found.kind, found.met) == (kind, met), found


def test_too_few_looks_meet_nothing() -> None:
    few = Window((0.0, 1.0), (0.0, 0.0), 10.0, 10.0, 1.0)
    (found,) = judge(few, 10.0, OURS[:1])
    assert (found.met, found.reason) == (False, "only 2 looks at the lag")
