"""Two ways to send numbered records to Kafka: librdkafka where it is installed, kafka-python everywhere."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

from fogctl.errors import FAILED, FogError
from fogctl.runtime.kafka_config import KafkaConnection

FLUSH_PATIENCE_S = 120.0
MOST_ON_THEIR_WAY = 50_000
"""So many records may be sent and not yet acknowledged."""
Acknowledged = Callable[[int], None]
"""Told the number of each record that the broker acknowledged."""


class Library(StrEnum):
    """Which client sends."""

    librdkafka = "librdkafka"
    kafka_python = "kafka-python"


class Sender(Protocol):
    """One producer. Records are acknowledged by all replicas and arrive once; the key is the number."""

    blocked_s: float
    """How long it waited for a broker that did not take more."""

    def send(self, number: int, value: bytes) -> None:
        """Take one record; waits while too many are on their way."""
        ...

    def flush(self) -> str | None:
        """Return when everything sent is acknowledged; why not, if not."""
        ...

    def close(self) -> None:
        """Let the connection go."""
        ...


def best() -> Library:
    """librdkafka if it is installed: a record costs it a twentieth of the CPU."""
    installed = importlib.util.find_spec("confluent_kafka") is not None
    return Library.librdkafka if installed else Library.kafka_python


def sender(
    library: Library,
    connection: KafkaConnection,
    topic: str,
    linger_ms: int = 10,
    on_acknowledged: Acknowledged | None = None,
) -> Sender:
    """A producer of that kind that gathers records for `linger_ms`; FogError if there is none."""
    if library is Library.kafka_python:
        return KafkaPythonSender(connection, topic, linger_ms, on_acknowledged)
    if importlib.util.find_spec("confluent_kafka") is None:
        raise FogError(
            "librdkafka's client is not installed", hint="pip install confluent-kafka", exit_code=FAILED
        )
    return LibrdkafkaSender(connection, topic, linger_ms, on_acknowledged)


class LibrdkafkaSender:
    """confluent-kafka: C code that packs and sends in threads of its own."""

    def __init__(
        self, connection: KafkaConnection, topic: str, linger_ms: int, on_acknowledged: Acknowledged | None
    ) -> None:
        from confluent_kafka import Producer

        self.blocked_s = 0.0
        self._topic = topic
        self._failure: str | None = None
        self._on_acknowledged = on_acknowledged
        self._producer = Producer(
            {
                **connection.for_librdkafka(),
                "acks": "all",
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # as Java and kafka-python choose
                "linger.ms": linger_ms,
                "batch.size": 1 << 19,
                "batch.num.messages": 50_000,
                "queue.buffering.max.messages": MOST_ON_THEIR_WAY,
                "delivery.timeout.ms": 120_000,
                "delivery.report.only.error": on_acknowledged is None,
                "reconnect.backoff.max.ms": 500,
                "allow.auto.create.topics": False,
                "log_level": 0,
                "on_delivery": self._delivered,
            }
        )

    def send(self, number: int, value: bytes) -> None:
        """Take one record, and hear of those that arrived: here, because a thread would hold this one up."""
        if self._on_acknowledged is not None:
            self._producer.poll(0)
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

    def flush(self) -> str | None:
        """Return when everything sent is acknowledged."""
        left = self._producer.flush(FLUSH_PATIENCE_S)
        return self._failure or (f"{left} records were not acknowledged" if left else None)

    def close(self) -> None:
        """Nothing to do: the connection goes with the object."""

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failure = str(error)
        elif self._on_acknowledged is not None:
            self._on_acknowledged(int(message.key()))


class KafkaPythonSender:
    """kafka-python: pure Python, which every installation has."""

    def __init__(
        self, connection: KafkaConnection, topic: str, linger_ms: int, on_acknowledged: Acknowledged | None
    ) -> None:
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        self.blocked_s = 0.0
        self._topic = topic
        self._failure: str | None = None
        self._on_acknowledged = on_acknowledged
        self._sent = self._done = 0
        try:
            self._producer = KafkaProducer(
                **connection.for_kafka_python(),
                acks="all",
                linger_ms=linger_ms,
                batch_size=1 << 18,
                retries=1_000_000,
                delivery_timeout_ms=120_000,
                max_block_ms=120_000,
                allow_auto_create_topics=False,
            )
            # Numbers are all different, so any even spread will do; choosing by hash costs more.
            self._partitions = len(self._producer.partitions_for(topic))
        except KafkaError as error:
            raise FogError(f"no Kafka answers at {connection.servers}: {error}", exit_code=FAILED) from error

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
        future.add_callback(partial(self._arrived, number))
        future.add_errback(self._failed)

    def flush(self) -> str | None:
        """Return when everything sent is acknowledged."""
        self._producer.flush(timeout=FLUSH_PATIENCE_S)
        return self._failure

    def close(self) -> None:
        """Let the connection go."""
        self._producer.close()

    def _arrived(self, number: int, _: Any) -> None:
        self._done += 1
        if self._on_acknowledged is not None:
            self._on_acknowledged(number)

    def _failed(self, error: Any) -> None:
        self._done += 1
        self._failure = str(error)
