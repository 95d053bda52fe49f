"""Kafka as the bridge sees it: records written, each reported once every replica in sync has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError

from fogctl.runtime.kafka_config import KafkaConnection

Done = Callable[[int, BaseException | None], None]
"""Called, in another thread, with a token and None once the record is safe, or with what went wrong."""


class Writer(Protocol):
    """Where the bridge writes."""

    def write(self, token: int, topic: str, key: bytes | None, value: bytes) -> None:
        """Have the record stored; may raise KafkaError instead of reporting it."""
        ...

    def has_topic(self, topic: str) -> bool:
        """Whether there is such a topic; raises KafkaError if that cannot be known now."""
        ...

    def forget_topic(self, topic: str) -> None:
        """It may be gone: look again before the next record."""
        ...

    def close(self, patience_s: float) -> None:
        """Finish what was begun, if that takes no longer."""
        ...


class KafkaWriter:
    """A producer with acks=all, and a list of the topics there are."""

    LOOK_AGAIN_S = 1.0

    def __init__(self, connection: KafkaConnection, done: Done) -> None:
        """Raises KafkaError if no broker answers."""
        self._connection = connection
        self._done = done
        self._producer = KafkaProducer(
            **connection.for_kafka_python(),
            acks="all",
            linger_ms=5,
            batch_size=64 << 10,
            delivery_timeout_ms=120_000,
            max_block_ms=2_000,
            bootstrap_timeout_ms=5_000,
            metrics_enabled=False,
        )
        self._topics: set[str] = set()
        self._looked_s = float("-inf")

    def write(self, token: int, topic: str, key: bytes | None, value: bytes) -> None:
        """Hand the record to the producer."""
        future = self._producer.send(topic, key=key, value=value)
        future.add_callback(lambda _: self._done(token, None))
        future.add_errback(lambda error: self._done(token, error))

    def has_topic(self, topic: str) -> bool:
        """As the broker said last; asked again, at most once a second, for one that was not there."""
        if topic not in self._topics and time.monotonic() > self._looked_s + self.LOOK_AGAIN_S:
            patience = {"bootstrap_timeout_ms": 2_000, "request_timeout_ms": 2_000}
            admin = KafkaAdminClient(**{**self._connection.for_kafka_python(), **patience})
            try:
                self._topics = set(admin.list_topics())
            finally:
                admin.close()
            self._looked_s = time.monotonic()
        return topic in self._topics

    def forget_topic(self, topic: str) -> None:
        """Ask the broker before the next record for it."""
        self._topics.discard(topic)
        self._looked_s = float("-inf")

    def close(self, patience_s: float) -> None:
        """Let the producer finish."""
        try:
            self._producer.close(timeout=patience_s)
        except KafkaError:
            return
