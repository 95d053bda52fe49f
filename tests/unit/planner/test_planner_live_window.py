"""A live window from looks at the injector and Spark's reports of batches."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fogctl.bench.data import values
from fogctl.bench.live import by_arrival
from fogctl.errors import FogError
from fogctl.planner.live import batches_of
from fogctl.planner.live_window import StageRun, window_of
from fogctl.planner.measure import verdict
from fogctl.runtime.app import load
from fogctl.runtime.progress import recorded

BEGAN = 1_800_000_000.0


def report(
    end_s: float, lasted_s: float, rows: int, processed: int, latest: int | None = None
) -> dict[str, Any]:
    """As Spark tells a batch that ended then."""
    started = datetime.fromtimestamp(BEGAN + end_s - lasted_s, UTC)
    halves = (processed // 2, processed - processed // 2)
    there = latest if latest is not None else processed
    return {
        "timestamp": started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 1000 * lasted_s},
        "sources": [
            {
                "endOffset": {"t": {"0": halves[0], "1": halves[1]}},
                "latestOffset": {"t": {"0": there // 2, "1": there - there // 2}},
            }
        ],
    }


def stage(folder: Path, reports: list[dict[str, Any]], name: str = "work", replicas: int = 2) -> StageRun:
    file = folder / name / "progress.jsonl"
    file.parent.mkdir()
    file.write_text("\n".join(map(json.dumps, reports)) + '\n{"timestamp": "2026')
    return StageRun(name, batches_of(recorded(folder / name, 0.0)), replicas, freshness_s=5.0)


def looks(rate: float, seconds: int, before: int = 0) -> list[tuple[float, int]]:
    return [(BEGAN + second, before + round(rate * second)) for second in range(seconds + 1)]


def test_lag_is_what_was_sent_less_what_batches_committed(tmp_path: Path) -> None:
    # A batch every 2 s takes what had come when it began, 2 s before.
    reports = [report(end, 2.0, 200, 100 * (end - 2)) for end in range(4, 61, 2)]
    window = window_of(looks(100.0, 60), [stage(tmp_path, reports)], 1, None, 100.0)
    assert window.lags[:6] == (0, 100, 200, 300, 200, 300)
    assert window.injected_per_s == pytest.approx(100.0)
    assert window.processed_per_s == pytest.approx(100.0)
    assert window.cycle_s == pytest.approx(2.0)
    (seen,) = window.stages
    assert seen.rate_per_s == pytest.approx(29 * 200 / 60)
    assert seen.busyness == pytest.approx(2.0 / 5.0)
    assert seen.true_rate_per_s == pytest.approx(seen.rate_per_s / 2 / 0.4)
    assert verdict(window, 100.0).sustained


def test_records_of_windows_before_count_too(tmp_path: Path) -> None:
    reports = [report(-1.0, 2.0, 500, 500), *(report(end, 2.0, 50, 500 + 50 * end) for end in range(1, 61))]
    window = window_of(looks(50.0, 60, before=520), [stage(tmp_path, reports)], 1, None, 100.0)
    assert window.lags[0] == 20
    assert set(window.lags[1:]) == {20}


def test_a_stage_that_falls_behind_is_seen(tmp_path: Path) -> None:
    reports = [report(end, 5.0, 400, 80 * end) for end in range(5, 121, 5)]
    window = window_of(looks(100.0, 120), [stage(tmp_path, reports)], 1, None, 100.0)
    found = verdict(window, 100.0)
    assert not found.sustained
    assert "grew by 20" in found.reason
    assert window.stages[0].busyness == 1.0


def test_the_lag_of_later_stages_is_added(tmp_path: Path) -> None:
    first = stage(tmp_path, [report(end, 1.0, 100, 100 * end) for end in range(1, 61)], "first")
    behind = [report(end, 1.0, 50, 50 * end, latest=100 * end) for end in range(1, 61)]
    window = window_of(looks(100.0, 60), [first, stage(tmp_path, behind, "second")], 1, None, 100.0)
    assert window.lags[10] == 500
    assert window.lags[60] == 3000
    assert [seen.name for seen in window.stages] == ["first", "second"]


def test_a_window_without_batches_has_processed_nothing() -> None:
    window = window_of(looks(10.0, 30), [StageRun("work", (), 1, 5.0)], 1, "broker", 9.0)
    assert (window.processed_per_s, window.cycle_s, window.limited_by) == (0.0, 30.0, "broker")
    assert window.stages[0].true_rate_per_s == 0.0


@pytest.mark.parametrize("name", ["nexmark-q5", "uc2", "uc4", "ospbench", "taxi", "identity"])
def test_data_is_there_for_the_apps_that_ship(name: str) -> None:
    made = values(load(name), keys=7, seed=2)
    assert len(made) >= 10_000
    assert made == values(load(name), keys=7, seed=2)
    if name in ("uc2", "uc4"):
        sensors = [json.loads(value)["sensor"] for value in made]
        assert len(set(sensors)) == 7
        assert sensors.count(sensors[0]) == len(sensors) / 7
        assert ("/" in sensors[0]) == (name == "uc4")


def test_apps_without_data_are_told() -> None:
    with pytest.raises(FogError, match="there is no data for the stream lines of logs"):
        values(load("logs"), keys=7, seed=2)


def test_data_at_rest_counts_by_its_arrival() -> None:
    assert dict(by_arrival(load("uc2")).stages[0].options)["time"] == "arrival"
    assert by_arrival(load("taxi")) == load("taxi")
