"""The bridge from MQTT to Kafka: records a second and CPU for each, from a backlog that Mosquitto holds."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

from benchmarks.row import Row
from benchmarks.runtime_rows.bed import Settings, bed
from fogctl.mqtt.credentials import device_names
from fogctl.mqtt.device import Job
from fogctl.mqtt.operate import BRIDGE_SERVICE, MOSQUITTO_SERVICE, Mqtt
from fogctl.runtime import kafka
from fogctl.testbed.running import Running

STREAM = "readings"
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class BridgeFigures:
    """What carrying so many records cost."""

    records: int
    seconds: float
    bridge_cpu_s: float
    mosquitto_cpu_s: float
    bridge_rss_bytes: int

    @property
    def rate_per_s(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU of the bridge for each record, in microseconds."""
        return 1e6 * self.bridge_cpu_s / self.records


def rows(settings: Settings) -> Iterator[Row]:
    """A backlog of readings, carried as fast as the bridge can."""
    with bed("sensors", 1, cpu_cores=None) as made:
        figures = bridge_figures(made.running, 3_000 if settings.quick else 20_000)
    note = (
        f"{figures.records:,} readings of about 75 bytes; Mosquitto used "
        f"{1e6 * figures.mosquitto_cpu_s / figures.records:.0f} µs each"
    )
    yield Row("bridge, MQTT to Kafka", figures.rate_per_s, "records/s", more_is_better=True, note=note)
    yield Row("CPU of the bridge", figures.cpu_us, "µs/record")
    yield Row("memory of the bridge", figures.bridge_rss_bytes / 2**20, "MiB")


def bridge_figures(running: Running, records: int) -> BridgeFigures:
    """Have Mosquitto collect the records while the bridge is away, then time the bridge.

    The clock runs from the first record in Kafka to the last, so starting the process does not count.
    """
    mqtt, topic = Mqtt.on(running), f"lab.{STREAM}"
    mqtt.up()
    kafka.ensure_topics(kafka.reachable(running), {topic: 4})
    bridge = mqtt.services.get(BRIDGE_SERVICE)
    assert bridge is not None
    mqtt.services.stop(BRIDGE_SERVICE)
    filled = mqtt.publish("pi1", _job(mqtt, records))
    if filled.done != records:
        raise RuntimeError(f"only {filled.done} of {records} records reached Mosquitto")
    with kafka.reachable(running) as connection:
        consumer = KafkaConsumer(**connection.for_kafka_python(), enable_auto_commit=False)
    try:
        parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        pids = (mqtt.services.ensure(bridge), mqtt.services.pid(MOSQUITTO_SERVICE) or 0)
        first, began_s, used = 0, 0.0, (0.0, 0.0)
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            arrived = sum(consumer.end_offsets(parts).values())
            if arrived and not first:
                first, began_s, used = arrived, time.monotonic(), (_cpu_s(pids[0]), _cpu_s(pids[1]))
            if arrived >= records:
                taken_s = time.monotonic() - began_s
                bridge_s, mosquitto_s = (_cpu_s(pid) - before for pid, before in zip(pids, used, strict=True))
                return BridgeFigures(records - first, taken_s, bridge_s, mosquitto_s, _rss_bytes(pids[0]))
            time.sleep(0.02)
    finally:
        consumer.close()
    raise RuntimeError(f"the bridge carried {arrived} of {records} records in {PATIENCE_S:.0f} s")


def _job(mqtt: Mqtt, records: int) -> Job:
    return Job(
        address=mqtt.address,
        credentials=str(mqtt.credentials.file),
        app="lab",
        stream=STREAM,
        devices=tuple(device_names(10)),
        count=records,
        rate_per_s=math.inf,
        confirm=False,
    )


def _cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
