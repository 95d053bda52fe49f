"""How stages look to people: within a hundred columns, also when one does not answer."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from fogctl.cli.app_view import stage_details, stages_table
from fogctl.metrics.values import StageMetrics, stage_to_json

BUSY = StageMetrics(
    app="taxi",
    stage="nearest",
    at_s=1794823580.79,
    nodes=("pi1", "pi2"),
    slots=12,
    input_rate=1234.56,
    processed_rate=1198.7,
    lag=123456,
    lag_by_partition={"taxi.rides-0": 123456},
    lag_trend=35.9,
    batch_ms=1977.826,
    batch_split_ms={"addBatch": 1841.3},
    batch_rows=2126.2,
    max_rows=3550,
    busyness=0.97,
    true_rate=1199.1,
    state_rows=12000,
    state_bytes=3 << 20,
    watermark_delay_s=61.5,
)


def shown(stages: list[dict[str, object]]) -> list[str]:
    out = StringIO()
    Console(file=out, width=300).print(stages_table("taxi", stages))
    return out.getvalue().splitlines()


def test_a_busy_stage_on_two_nodes_fits_a_hundred_columns_with_every_number() -> None:
    lines = shown([{"stage": "nearest", "state": "running", "metrics": stage_to_json(BUSY)}])
    assert max(map(len, (line.rstrip() for line in lines))) <= 100
    row = next(line for line in lines if "nearest" in line)
    for text in ("pi1, pi2", "1235", "1199", "123456", "+35.9", "1.98", "2126", "97%"):
        assert text in row
    details = stage_details([{"stage": "nearest", "metrics": stage_to_json(BUSY)}])
    assert details == ["nearest: state 12,000 rows, 3.0 MiB; watermark 61.5 s behind the clock"]


def test_a_stage_that_does_not_answer_or_has_not_looked_yet_has_an_empty_row() -> None:
    silent = {"stage": "nearest", "state": "no answer", "error": "gone", "executors": [], "last": None}
    young = {"stage": "copy", "state": "running", "executors": [{"node": "pi1"}], "metrics": None}
    lines = shown([silent, young])
    assert any("no answer" in line for line in lines)
    assert any("copy" in line and "pi1" in line for line in lines)
    assert stage_details([silent, young]) == []
