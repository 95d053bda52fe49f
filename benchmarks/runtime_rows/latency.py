"""From a record's arrival in the input topic to its result in the sink; and the replay's accuracy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from kafka import KafkaConsumer, TopicPartition

from benchmarks.row import Row
from benchmarks.runtime_rows.bed import RIDE, Bed, Settings, bed
from fogctl.runtime import app as apps
from fogctl.runtime import kafka
from fogctl.runtime.app import App
from fogctl.runtime.app_file import Mode, OutputMode
from fogctl.trace.kafka_sink import KafkaSink
from fogctl.trace.replay import promptly, replay

_RATE_PER_S = 20.0
_CPU_CORES = 1.0
"""Real-time mode keeps all its tasks running, and each must come to its turn."""


def rows(settings: Settings) -> Iterator[Row]:
    """Percentiles in both modes at 20 records/s, one replica 5 ms away with a core; then the replay alone."""
    seconds = 15 if settings.quick else 60
    for mode in Mode:
        with bed(_in(mode), 1, cpu_cores=_CPU_CORES) as here:
            here.deploy(["pi1"])
            with here.load(_RATE_PER_S):
                time.sleep(10)
                since = time.time()
                time.sleep(seconds)
            here.audit()
            taken = _latencies_ms(here, since)
            for percent in (50, 95, 99):
                yield Row(f"{mode.value}, p{percent}", float(np.percentile(taken, percent)), "ms")
            if mode is Mode.micro_batch:
                yield from _replay(here, 5 if settings.quick else 30)


def _in(mode: Mode) -> App:
    """The taxi app in that mode, with as many slots as it has tasks."""
    app = apps.load("taxi")
    stage = app.stages[0]
    output = OutputMode.update if mode is Mode.real_time else OutputMode.append
    changed = replace(stage, mode=mode, output_mode=output, partitions=4, slots=4)
    return replace(app, stages=(changed,))


def _latencies_ms(here: Bed, since_s: float) -> list[float]:
    arrived = _times(here, here.app.topic(here.app.sources[0]))
    written = _times(here, here.app.topic(here.app.sinks[0]))
    return [(written[key] - at) for key, at in arrived.items() if key in written and at >= since_s * 1000]


def _times(here: Bed, topic: str) -> dict[bytes, int]:
    """When each record of a topic was written first, in milliseconds of the clock, by its key."""
    found: dict[bytes, int] = {}
    with kafka.reachable(here.running) as where:
        consumer = KafkaConsumer(**where.for_kafka_python(), enable_auto_commit=False, fetch_max_wait_ms=100)
        parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(parts)
        ends = consumer.end_offsets(parts)
        consumer.seek_to_beginning(*parts)
        while any(consumer.position(part) < ends[part] for part in parts):
            for records in consumer.poll(timeout_ms=500, max_records=10_000).values():
                for record in records:
                    found.setdefault(record.key, record.timestamp)
        consumer.close()
    return found


def _replay(here: Bed, seconds: int) -> Iterator[Row]:
    due_s = np.arange(seconds * 1000) / 1000.0
    numbers = here.apps.sent_numbers(here.app.name)
    first = numbers.reserve(len(due_s))
    with kafka.reachable(here.running) as where:
        sink = KafkaSink(where, here.app.topic(here.app.sources[0]), numbers, first, first + len(due_s))
        with promptly(due_s):
            done = replay([RIDE] * len(due_s), due_s, sink, first_number=first)
    yield Row("replay at 1,000 records/s, p99 of the schedule error", done.error_ms_p99, "ms", 5.0)
    yield Row("replay at 1,000 records/s, behind at the end", done.late_s * 1000, "ms", 100.0)
