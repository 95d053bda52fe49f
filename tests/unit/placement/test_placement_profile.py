"""A profile from recorded progress and CPU counters: worked out by hand, with and without state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fogctl.errors import REFUSED, FogError
from fogctl.metrics.node import Reading
from fogctl.placement.measure import Look, cpu_use
from fogctl.placement.profile import Profile, StateSource, read_profile, write_profile
from fogctl.placement.window import CpuUse, Written, stage_profile, state_use
from fogctl.runtime.progress import recorded

# As Spark 4 wrote it, with fewer partitions.
RECORDED = json.loads(
    """{"id": "4daf45dd", "runId": "3221ac1b", "name": "identity.copy",
 "timestamp": "2026-11-16T09:38:25.000Z", "batchId": 7, "batchDuration": 4000, "numInputRows": 100,
 "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 25.0,
 "durationMs": {"addBatch": 3927, "commitOffsets": 23, "queryPlanning": 14, "triggerExecution": 4000},
 "stateOperators": [],
 "sources": [{"description": "KafkaV2[Subscribe[identity.records]]",
   "startOffset": {"identity.records": {"0": 0, "1": 0}},
   "endOffset": {"identity.records": {"0": 60, "1": 40}},
   "latestOffset": {"identity.records": {"0": 60, "1": 40}}, "numInputRows": 100}],
 "sink": {"description": "KafkaTable", "numOutputRows": 100}, "at": 1794821909.1}"""
)
STARTED_S = 1794821905.0
ROCKSDB: dict[str, Any] = {
    "operatorName": "stateStoreSave",
    "numRowsTotal": 10,
    "numRowsUpdated": 4,
    "memoryUsedBytes": 99999,
    "customMetrics": {
        "rocksdbTotalBytesRead": 3000,
        "rocksdbTotalBytesReadThroughIterator": 1000,
        "rocksdbTotalBytesWritten": 2000,
        "rocksdbTotalBytesWrittenByCompaction": 77777,
    },
}
IN_MEMORY: dict[str, Any] = {
    "operatorName": "stateStoreSave",
    "numRowsTotal": 50,
    "numRowsUpdated": 20,
    "numRowsRemoved": 5,
    "memoryUsedBytes": 99999,
    "customMetrics": {"loadedMapCacheHitCount": 3, "stateOnCurrentVersionSizeBytes": 5000},
}


def batch(
    at_s: float, rows: int = 100, seconds: float = 4.0, *operators: dict[str, Any], wrote: int | None = None
) -> dict[str, Any]:
    """A recorded batch that began so long after the first."""
    from datetime import UTC, datetime

    began = datetime.fromtimestamp(STARTED_S + at_s, UTC).isoformat(timespec="milliseconds")
    return {
        **RECORDED,
        "timestamp": began.replace("+00:00", "Z"),
        "numInputRows": rows,
        "durationMs": {"triggerExecution": seconds * 1000},
        "stateOperators": list(operators),
        "sink": {"description": "KafkaTable", "numOutputRows": rows if wrote is None else wrote},
    }


def profiled(events: list[dict[str, Any]], began: float, ended: float, **more: Any) -> Any:
    given = {
        "cpu": [CpuUse("pi1", 3.0, ended - began), CpuUse("pi2", 1.0, ended - began)],
        "written": Written(),
        "busyness": 0.5,
        **more,
    }
    return stage_profile("copy", events, began_s=STARTED_S + began, ended_s=STARTED_S + ended, **given)


def test_cpu_and_rates_are_those_of_the_records_in_the_window() -> None:
    written = Written(records=999, bytes_per_record=40.0)
    found = profiled([RECORDED, batch(4.0, wrote=200)], 0.0, 10.0, written=written)
    assert found.records == 200
    assert found.records_per_s == pytest.approx(20)
    assert found.records_per_s_per_replica == pytest.approx(10)
    assert found.cpu_s_per_record == pytest.approx(4.0 / 200)
    assert found.output_records_per_record == pytest.approx(1.5)
    assert found.output_bytes_per_record == pytest.approx(60)
    assert [replica.cpu_used_cores for replica in found.replicas] == pytest.approx([0.3, 0.1])
    assert (found.state_bytes_per_record, found.state_source) == (0, StateSource.none)


def test_a_batch_counts_by_as_much_of_it_as_lies_in_the_window() -> None:
    # A quarter of the first, all of the second, half of the third.
    events = [batch(0.0, 100), batch(4.0, 10, 2.0), batch(6.0, 40)]
    found = profiled(events, 3.0, 8.0)
    assert found.records == pytest.approx(25 + 10 + 20)


def test_what_spark_does_not_count_is_counted_in_the_topic() -> None:
    # In real-time mode a batch says -1.
    found = profiled([batch(0.0), batch(4.0, wrote=-1)], 0.0, 10.0, written=Written(50, 10.0))
    assert found.output_records_per_record == pytest.approx(50 / 200)
    assert found.output_bytes_per_record == pytest.approx(2.5)


def test_a_window_without_records_has_no_profile() -> None:
    assert profiled([], 0.0, 10.0) is None
    assert profiled([batch(0.0, rows=0)], 0.0, 10.0) is None
    assert profiled([batch(0.0)], 5.0, 10.0) is None


def test_rocksdb_counts_bytes_itself() -> None:
    use = state_use(batch(0.0, 100, 4.0, ROCKSDB))
    assert (use.read_bytes, use.written_bytes, use.source) == (4000, 2000, StateSource.rocksdb)
    # Twice the operator, half of the batch.
    found = profiled([batch(0.0, 100, 4.0, ROCKSDB, ROCKSDB)], 0.0, 2.0)
    assert found.state_read_bytes_per_record == pytest.approx(80)
    assert found.state_written_bytes_per_record == pytest.approx(40)


def test_the_store_in_memory_is_counted_in_rows_of_mean_size() -> None:
    use = state_use(batch(0.0, 100, 4.0, IN_MEMORY))
    assert (use.read_bytes, use.written_bytes, use.source) == (20 * 100, 25 * 100, StateSource.rows)
    empty = {**IN_MEMORY, "numRowsTotal": 0, "numRowsUpdated": 0}
    assert state_use(batch(0.0, 100, 4.0, empty)).read_bytes == 0


def reading(at_s: float, **parts: float) -> Reading:
    return Reading(at_s, 0.0, None, 0, None, {}, parts)


def test_cpu_is_the_difference_of_the_replicas_own_counter() -> None:
    first = Look(0.0, {"pi1": reading(100.0, a=5.0, b=1.0)}, {})
    last = Look(0.0, {"pi1": reading(110.5, a=7.0, b=9.0)}, {})
    assert cpu_use("pi1", "a", first, last) == CpuUse("pi1", 2.0, 10.5)


@pytest.mark.parametrize(
    "after", [{}, {"pi1": reading(110.0)}, {"pi1": reading(110.0, a=0.5)}], ids=["node", "part", "anew"]
)
def test_a_replica_that_was_gone_meanwhile_is_no_measurement(after: dict[str, Reading]) -> None:
    first = Look(0.0, {"pi1": reading(100.0, a=5.0)}, {})
    with pytest.raises(FogError, match="a on pi1 was not there all the time") as refused:
        cpu_use("pi1", "a", first, Look(0.0, after, {}))
    assert refused.value.exit_code == REFUSED


def test_progress_is_read_from_both_files_and_cut_lines_are_passed_over(tmp_path: Path) -> None:
    old, new = batch(0.0), batch(10.0)
    (tmp_path / "progress.old.jsonl").write_text('mInputRows": 3}\n' + json.dumps(old) + "\n")
    (tmp_path / "progress.jsonl").write_text(json.dumps(new) + "\n" + json.dumps(new)[:50])
    assert recorded(tmp_path, STARTED_S) == [old, new]
    assert recorded(tmp_path, STARTED_S + 4.0) == [new]
    assert recorded(tmp_path / "nowhere", 0.0) == []


@pytest.fixture
def profile() -> Profile:
    stage = profiled([batch(0.0, 100, 4.0, ROCKSDB)], 0.0, 4.0)
    return Profile(app="identity", measured_at="2026-11-16T09:38:29+00:00", window_s=4.0, stages=[stage])


def test_a_profile_is_the_same_after_a_way_through_its_file(profile: Profile, tmp_path: Path) -> None:
    write_profile(profile, tmp_path / "p.json")
    assert read_profile(tmp_path / "p.json") == profile
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]
    assert json.loads((tmp_path / "p.json").read_text())["version"] == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 2}, "version"),
        ({"window_s": -1}, "window_s"),
        ({"wndow": 1}, "wndow"),
        ({"stages": []}, "stages"),
    ],
)
def test_a_wrong_profile_is_refused_by_file_and_key(
    profile: Profile, tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    file = tmp_path / "p.json"
    file.write_text(json.dumps({**profile.model_dump(mode="json"), **change}))
    with pytest.raises(FogError) as refused:
        read_profile(file)
    assert sentence in str(refused.value)
    assert "p.json" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_stages_of_a_profile_have_names_of_their_own(profile: Profile, tmp_path: Path) -> None:
    data = profile.model_dump(mode="json")
    (tmp_path / "p.json").write_text(json.dumps({**data, "stages": data["stages"] * 2}))
    with pytest.raises(FogError, match='two stages are called "copy"'):
        read_profile(tmp_path / "p.json")
