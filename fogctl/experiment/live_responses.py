"""Response times of a live run: from when a record reached its topic to when its result was written."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from kafka import KafkaConsumer, TopicPartition

from fogctl.experiment.responses import summary
from fogctl.runtime.app import App
from fogctl.runtime.kafka import Reach
from fogctl.runtime.kafka_config import KafkaConnection

_PATIENCE_S = 30.0


def events(reach: Reach, app: App, now_s: float) -> list[dict[str, Any]]:
    """An event for each result stream that keeps record numbers; records that came out twice count once."""
    found = []
    with reach as connection:
        born: dict[bytes, int] = {}
        for stream in app.sources:
            born.update(_stamps(connection, app.topic(stream)))
        for stage in app.stages:
            if stage.output not in app.sinks or stage.output not in app.numbered:
                continue
            left = _stamps(connection, app.topic(stage.output))
            times = [(at - born[key]) / 1e3 for key, at in left.items() if key in born]
            if times:
                told = {"at_s": now_s, "what": "responses", "path": stage.name}
                found.append({**told, **summary(np.maximum(np.array(times), 1e-4))})
    return found


def _stamps(connection: KafkaConnection, topic: str) -> dict[bytes, int]:
    """By key the first time stamp (ms) in a topic: whoever wrote a record stamped it."""
    consumer = KafkaConsumer(**connection.for_kafka_python(), enable_auto_commit=False, fetch_max_wait_ms=100)
    stamps: dict[bytes, int] = {}
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        if not partitions:
            return stamps
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        deadline = time.monotonic() + _PATIENCE_S
        while any(consumer.position(p) < ends[p] for p in partitions) and time.monotonic() < deadline:
            got = consumer.poll(timeout_ms=500, max_records=10_000)
            for records in got.values():
                for record in records:
                    if record.key is not None:
                        stamps.setdefault(record.key, int(record.timestamp))
            if got:
                deadline = time.monotonic() + _PATIENCE_S
    finally:
        consumer.close()
    return stamps
