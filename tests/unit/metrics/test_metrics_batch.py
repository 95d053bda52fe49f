"""Progress events and checkpoints as Spark 4.3 writes them."""

from __future__ import annotations

import json

import pytest

from fogctl.metrics.batch import committed_offsets, read_batch

# As written by a real query, shortened to two partitions.
PROGRESS = """{"id": "4daf45dd", "runId": "3221ac1b", "name": "identity.copy",
 "timestamp": "2026-11-16T09:38:41.223Z", "batchId": 1, "batchDuration": 6567, "numInputRows": 31,
 "inputRowsPerSecond": 7.7, "processedRowsPerSecond": 18.9,
 "durationMs": {"addBatch": 6396, "commitOffsets": 39, "getBatch": 1, "latestOffset": 35,
   "queryPlanning": 70, "triggerExecution": 6567, "walCommit": 21},
 "stateOperators": [{"operatorName": "stateStoreSave", "numRowsTotal": 12, "memoryUsedBytes": 3400},
   {"operatorName": "dedupe", "numRowsTotal": 3, "memoryUsedBytes": 100}],
 "eventTime": {"avg": "2026-11-16T09:38:40.000Z", "watermark": "2026-11-16T09:38:30.000Z"},
 "sources": [{"description": "KafkaV2[Subscribe[identity.records]]",
   "startOffset": {"identity.records": {"0": 0, "1": 0}},
   "endOffset": {"identity.records": {"0": 18, "1": 13}},
   "latestOffset": {"identity.records": {"0": 20, "1": 13}}, "numInputRows": 31}],
 "sink": {"description": "KafkaTable", "numOutputRows": 31}}"""


def test_a_progress_event_is_read_as_spark_wrote_it() -> None:
    batch = read_batch(json.loads(PROGRESS))
    assert batch.started_s == 1794821921.223
    assert batch.ended_s == pytest.approx(1794821921.223 + 6.567)
    assert batch.latest_at_s == pytest.approx(1794821921.223 + 0.035)
    assert (batch.rows, batch.state_rows, batch.state_bytes) == (31, 15, 3500)
    assert batch.processed == {"identity.records-0": 18, "identity.records-1": 13}
    assert batch.latest == {"identity.records-0": 20, "identity.records-1": 13}
    assert "triggerExecution" not in batch.split_ms
    assert batch.split_ms["addBatch"] == 6396
    assert batch.watermark_s == 1794821910.0


def test_offsets_may_be_json_text_or_missing() -> None:
    data = json.loads(PROGRESS)
    source = data["sources"][0]
    source["endOffset"] = json.dumps(source["endOffset"])
    source["latestOffset"] = None
    data["eventTime"] = {"watermark": "1970-01-01T00:00:00.000Z"}
    batch = read_batch(data)
    assert batch.processed == {"identity.records-0": 18, "identity.records-1": 13}
    assert batch.latest == {}
    assert batch.watermark_s is None


def test_of_a_partition_that_two_sources_read_the_one_behind_counts() -> None:
    data = json.loads(PROGRESS)
    second = json.loads(json.dumps(data["sources"][0]))
    second["endOffset"]["identity.records"]["0"] = 4
    data["sources"].append(second)
    assert read_batch(data).processed == {"identity.records-0": 4, "identity.records-1": 13}


def test_a_checkpoint_says_where_its_newest_committed_batch_ended() -> None:
    planned = {
        0: 'v1\n{"batchWatermarkMs":0}\n{"a":{"0":5}}\n{"b":{"0":1}}',
        1: 'v1\n{"batchWatermarkMs":0}\n{"a":{"0":9}}\n-',
        2: 'v1\n{"batchWatermarkMs":0}\n{"a":{"0":12}}\n{"b":{"0":2}}',
    }
    assert committed_offsets({0: "v1\n{}", 1: "v1\n{}"}, planned) == {"a-0": 9}
    assert committed_offsets({0: "v1\n{}"}, planned) == {"a-0": 5, "b-0": 1}
    assert committed_offsets({}, planned) is None
