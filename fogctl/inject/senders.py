"""Two ways to send to Kafka fast: librdkafka where it is installed, kafka-python everywhere."""

from __future__ import annotations

import importlib.util
import time
from enum import StrEnum
from typing import Any, Protocol

from fogctl.errors import FAILED, FogError
from fogctl.runtime.kafka_config import KafkaConnection

FLUSH_PATIENCE_S = 120.0
MOST_ON_THEIR_WAY = 50_000
"""So many records may be sent and not yet acknowledged."""


class Library(StrEnum):
    """Which client sends."""

    librdkafka = "librdkafka"
    kafka_python = "kafka-python"


class Sender(Protocol):
    """One producer. Its records are acknowledged by all replicas, and each arrives once."""

    blocked_s: float
    """How long it waited for a broker that did not take more."""

    def send(self, number: int, value: bytes) -> None:
        """Take one record; waits while the buffer is full."""
        ...

    def finish(self) -> str | None:
        """Return when everything sent is acknowledged; why not, if not."""
        ...


def best() -> Library:
    """librdkafka if it is installed: it costs several times less CPU for a record."""
    installed = importlib.util.find_spec("confluent_kafka") is not None
    return Library.librdkafka if installed else Library.kafka_python


def sender(library: Library, connection: KafkaConnection, topic: str) -> Sender:
    """A producer of that kind."""
    if library is Library.kafka_python:
        return KafkaPythonSender(connection, topic)
    if importlib.util.find_spec("confluent_kafka") is None:
        raise FogError(
            "librdkafka's client is not installed", hint="pip install 'fogctl[fast]'", exit_code=FAILED
        )
    return LibrdkafkaSender(connection, topic)


class LibrdkafkaSender:
    """confluent-kafka: C code that packs and sends in threads of its own."""

    def __init__(self, connection: KafkaConnection, topic: str) -> None:
        from confluent_kafka import Producer

        self.blocked_s = 0.0
        self._topic = topic
        self._failure: str | None = None
        self._producer = Producer(
            {
                **connection.for_librdkafka(),
                "acks": "all",
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # as Java and kafka-python choose
                "linger.ms": 10,
                "batch.size": 1 << 19,
                "batch.num.messages": 50_000,
                "queue.buffering.max.messages": MOST_ON_THEIR_WAY,
                "delivery.report.only.error": True,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                "on_delivery": self._delivered,
            }
        )

    def send(self, number: int, value: bytes) -> None:
        """Take one record."""
        try:
            self._producer.produce(self._topic, value, b"%d" % number)
        except BufferError:
            began = time.perf_counter()
            while True:
                self._producer.poll(0.005)
                try:
                    self._producer.produce(self._topic, value, b"%d" % number)
                    break
                except BufferError:
                    continue
            self.blocked_s += time.perf_counter() - began

    def finish(self) -> str | None:
        """Return when everything sent is acknowledged."""
        left = self._producer.flush(FLUSH_PATIENCE_S)
        return self._failure or (f"{left} records were not acknowledged" if left else None)

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failure = str(error)


class KafkaPythonSender:
    """kafka-python: pure Python, which every installation has."""

    def __init__(self, connection: KafkaConnection, topic: str) -> None:
        from kafka import KafkaProducer

        self.blocked_s = 0.0
        self._topic = topic
        self._failure: str | None = None
        self._producer = KafkaProducer(
            **connection.for_kafka_python(),
            acks="all",
            linger_ms=20,
            batch_size=1 << 18,
            retries=1_000_000,
            delivery_timeout_ms=120_000,
            max_block_ms=120_000,
            allow_auto_create_topics=False,
        )
        self._sent = self._done = 0
        # Numbers are all different, so any even spread will do; choosing by hash costs more than sending.
        self._partitions = len(self._producer.partitions_for(topic))

    def send(self, number: int, value: bytes) -> None:
        """Take one record."""
        if self._sent - self._done > MOST_ON_THEIR_WAY:  # the client itself would take them without end
            began = time.perf_counter()
            while self._sent - self._done > MOST_ON_THEIR_WAY // 2:
                time.sleep(0.001)
            self.blocked_s += time.perf_counter() - began
        future = self._producer.send(
            self._topic, key=b"%d" % number, value=value, partition=number % self._partitions
        )
        self._sent += 1
        future.add_callback(self._arrived)
        future.add_errback(self._failed)

    def finish(self) -> str | None:
        """Return when everything sent is acknowledged."""
        self._producer.flush(timeout=FLUSH_PATIENCE_S)
        self._producer.close()
        return self._failure

    def _arrived(self, _: Any) -> None:
        self._done += 1

    def _failed(self, error: Any) -> None:
        self._done += 1
        self._failure = str(error)
