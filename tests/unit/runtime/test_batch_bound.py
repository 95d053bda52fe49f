from __future__ import annotations

from pathlib import Path
from typing import Any

from fogctl.runtime import batch_size
from fogctl.runtime.batch_bound import BatchBound, shares


def batch(rows: int, duration_ms: float) -> dict[str, Any]:
    return {"numInputRows": rows, "durationMs": {"triggerExecution": duration_ms}}


def backlog(bound: BatchBound, replicas: int, batches: int, row_ms: float = 5.0) -> None:
    """A stage with more waiting than it may take, each row at that price."""
    for _ in range(batches):
        bound.observe(batch(bound.max_rows, 200 + row_ms * bound.max_rows / replicas), replicas)


def test_a_stage_with_a_backlog_comes_to_its_bound_and_remembers_it(tmp_path: Path) -> None:
    file = tmp_path / "batch_size.json"
    bound = BatchBound(2000.0, 4, file)
    assert bound.max_rows == batch_size.first_limit(4)
    backlog(bound, 2, 20)
    assert 1500 <= 200 + 5.0 * bound.max_rows / 2 <= 2000
    again = BatchBound(2000.0, 4, file)
    assert again.max_rows == bound.max_rows
    again.observe(batch(again.max_rows, 1800.0), 1)
    assert again.max_rows == bound.max_rows // 2


def test_a_cold_batch_after_a_change_of_replicas_teaches_nothing(tmp_path: Path) -> None:
    bound = BatchBound(2000.0, 4, tmp_path / "batch_size.json")
    backlog(bound, 1, 20)
    before = bound.max_rows
    assert bound.observe(batch(before, 1800.0), 2)
    assert bound.max_rows == 2 * before
    assert not bound.observe(batch(bound.max_rows, 30_000.0), 2)
    assert bound.max_rows == 2 * before


def test_who_measures_can_fix_it_and_let_it_go(tmp_path: Path) -> None:
    bound = BatchBound(2000.0, 4, tmp_path / "batch_size.json")
    bound.fix(77)
    backlog(bound, 2, 10)
    assert bound.max_rows == 77
    assert bound.facts()["fixed"]
    bound.fix(None)
    backlog(bound, 2, 20)
    assert bound.max_rows > 77
    assert bound.facts()["held"]


def test_a_torn_memory_is_no_memory(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"max_rows": null, "replicas": 1}'):
        (tmp_path / "batch_size.json").write_text(text)
        assert BatchBound(2000.0, 1, tmp_path / "batch_size.json").max_rows == batch_size.first_limit(1)


def test_inputs_share_the_bound_by_what_waits_in_each() -> None:
    def source(name: str, rows: int, end: int, latest: int) -> dict[str, Any]:
        return {
            "description": name,
            "numInputRows": rows,
            "endOffset": {name: {"0": end}},
            "latestOffset": {name: {"0": latest}},
        }

    progress = {"sources": [source("a", 100, 100, 900), source("b", 100, 100, 100)]}
    assert shares(100, progress) == {"a": 90, "b": 10}
    assert shares(1, progress) == {"a": 1, "b": 1}
    idle = {"sources": [{"description": "a", "numInputRows": 0, "endOffset": None, "latestOffset": None}]}
    assert shares(50, idle) == {"a": 50}
