"""Testbeds with a streaming app on them, for the benchmarks: brought up, loaded, looked at, taken down."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fognetem.matrix import LatencyMatrix
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from fogctl.runtime import app as apps
from fogctl.runtime import audit, kafka
from fogctl.runtime.app import App
from fogctl.runtime.control import ask
from fogctl.runtime.operate import Apps
from fogctl.testbed import network, processes
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.model import Kind, Node, Role, Testbed
from fogctl.testbed.running import Running
from fogctl.testbed.state import StateFolder, state_dir
from fogctl.testbed.virtual import Virtual, take_down

RIDE = b"2013-05-01T08:00:00,2013-05-01T08:10:00,600,-73.98,40.75,-73.97,40.76,1,2.5,card,12.5"
CONTROL, BROKER = "cloud", "broker"
_KINDS = {
    "org.apache.spark.executor.CoarseGrainedExecutorBackend": "executor",
    "org.apache.spark.deploy.master.Master": "Master",
    "org.apache.spark.deploy.SparkSubmit": "driver",
    "kafka.Kafka": "broker",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How thoroughly to measure."""

    quick: bool


@dataclass(frozen=True, slots=True)
class Bed:
    """A running testbed and the app that is measured on it."""

    virtual: Virtual
    app: App

    @property
    def running(self) -> Running:
        """The testbed as it is now."""
        return self.virtual.running

    @property
    def apps(self) -> Apps:
        """What deploys and changes apps."""
        return Apps.on(self.running)

    @property
    def stage(self) -> str:
        """The app's first stage."""
        return self.app.stages[0].name

    @property
    def folder(self) -> Path:
        """Where the first stage keeps its files."""
        return self.running.state.folder / "apps" / self.app.name / self.stage

    def deploy(self, nodes: Sequence[str]) -> float:
        """Deploy on these nodes; answers the seconds until the app was ready."""
        began = time.monotonic()
        self.apps.deploy(self.app, {stage.name: list(nodes) for stage in self.app.stages})
        return time.monotonic() - began

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask the first stage's runner."""
        return ask(self.folder / "runner.sock", request)

    def progress(self) -> list[dict[str, Any]]:
        """Every batch of the first stage so far."""
        try:
            return [json.loads(line) for line in (self.folder / "progress.jsonl").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def fill(self, records: int, value: bytes = RIDE) -> None:
        """Put so many numbered records into the app's input."""
        first = self.apps.sent(self.app.name)
        self.apps.will_have_sent(self.app.name, first + records)
        topic = self.app.topic(self.app.sources[0])
        with kafka.reachable(self.running) as where:
            producer = KafkaProducer(**where.for_kafka_python(), linger_ms=20, batch_size=1 << 16)
            for number in range(first, first + records):
                producer.send(topic, key=str(number).encode(), value=value)
            producer.flush()
            producer.close()

    @contextlib.contextmanager
    def load(self, rate_per_s: float, value: bytes = RIDE) -> Iterator[None]:
        """Send records at this rate for as long as the body lasts."""
        stop = threading.Event()
        topic = self.app.topic(self.app.sources[0])
        with kafka.reachable(self.running) as where:
            producer = KafkaProducer(**where.for_kafka_python(), linger_ms=2)
        first = self.apps.sent(self.app.name)

        def send() -> None:
            began, number = time.monotonic(), 0
            while not stop.is_set():
                while number < int((time.monotonic() - began) * rate_per_s):
                    producer.send(topic, key=str(first + number).encode(), value=value)
                    number += 1
                time.sleep(0.01)
            producer.flush()
            self.apps.will_have_sent(self.app.name, first + number)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            producer.close()

    def output_times(self) -> list[float]:
        """When each record of the app's first sink was written, in seconds of the clock, in order."""
        topic = self.app.topic(self.app.sinks[0])
        times: list[float] = []
        with kafka.reachable(self.running) as where:
            consumer = KafkaConsumer(
                **where.for_kafka_python(), enable_auto_commit=False, fetch_max_wait_ms=100
            )
            try:
                parts = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic) or ()]
                consumer.assign(parts)
                ends = consumer.end_offsets(parts)
                consumer.seek_to_beginning(*parts)
                while any(consumer.position(part) < ends[part] for part in parts):
                    for records in consumer.poll(timeout_ms=500, max_records=10_000).values():
                        times += [record.timestamp / 1000 for record in records]
            finally:
                consumer.close()
        return sorted(times)

    def batches(self, seconds: float) -> list[dict[str, Any]]:
        """The batches with rows that ended within the next so many seconds."""
        since = time.time()
        time.sleep(seconds)
        return [each for each in self.progress() if each["at"] > since and each["numInputRows"] > 0]

    def memory_mb(self, node: str) -> dict[str, tuple[float, float]]:
        """Resident memory of each JVM on a node, and what it has of it when shared pages are divided."""
        found: dict[str, tuple[float, float]] = {}
        for pid in processes.in_group(self.running.groups(node)[0]):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                main = next((word for word in words if word in _KINDS), None)
                rollup = dict(
                    line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
                )
                if main is not None:
                    rss, pss = (float(rollup[key].split()[0]) / 1024 for key in ("Rss", "Pss"))
                    found[_KINDS[main]] = (rss, pss)
        return found

    def audit(self, patience_s: float = 60) -> audit.Audit:
        """What became of the records, asked again until none is on its way."""
        deadline = time.monotonic() + patience_s
        while True:
            found = next(iter(self.apps.audit(self.app.name).values()))
            if found.lost == 0 or time.monotonic() > deadline:
                return found
            time.sleep(1)

    def set_rtts(self, rtts_ms: Mapping[str, float]) -> None:
        """Put nodes so far from control and broker, live."""
        matrix = self.running.latencies
        for node, rtt_ms in rtts_ms.items():
            for other in (CONTROL, BROKER):
                matrix = matrix.with_path(node, other, replace(matrix.path(node, other), rtt_ms=rtt_ms))
        network.change(self.running, matrix)


def name() -> str:
    """The testbed's name: one for each process, so that runs do not meet."""
    return f"rt{os.getpid()}"


@contextlib.contextmanager
def bed(
    app: App | str,
    edges: int,
    *,
    rtt_ms: float = 5.0,
    cpu_cores: float | None = 0.2,
    memory_bytes: int | None = None,
) -> Iterator[Bed]:
    """A control node, a broker and so many edge nodes pi1, pi2, … at this distance."""
    pis = [f"pi{number}" for number in range(1, edges + 1)]
    names = (CONTROL, BROKER, *pis)
    matrix = LatencyMatrix(names)
    for pi in pis:
        for other in (CONTROL, BROKER):
            matrix = matrix.with_path(pi, other, replace(matrix.path(pi, other), rtt_ms=rtt_ms))
    nodes = (
        Node(CONTROL, Role.control, "dc", "host", None, None),
        Node(BROKER, Role.broker, "dc", "host", None, None),
        *(Node(pi, Role.edge, "field", "rpi4-4g", cpu_cores, memory_bytes) for pi in pis),
    )
    virtual = Virtual(Testbed(name(), Kind.virtual, nodes, matrix))
    try:
        virtual.up()
        yield Bed(virtual, app if isinstance(app, App) else apps.load(app))
    finally:
        virtual.down()


def remove_left() -> None:
    """Take down what an interrupted run left standing; does nothing if there is nothing."""
    take_down(StateFolder.of(name(), state_dir()), LinuxHost())
