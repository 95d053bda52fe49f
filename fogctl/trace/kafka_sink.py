"""A topic as the place where a replay's records go: each acknowledged by the broker, none forgotten."""

from __future__ import annotations

from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from fogctl.errors import FAILED, FogError
from fogctl.runtime.kafka_config import KafkaConnection


class KafkaSink:
    """Sends numbered records to a topic; the key is the number. Satisfies `fogctl.trace.replay.Sink`."""

    def __init__(self, connection: KafkaConnection, topic: str) -> None:
        self._topic = topic
        self._failure: BaseException | None = None
        try:
            self._producer = KafkaProducer(
                **connection.for_kafka_python(),
                acks="all",
                linger_ms=2,
                retries=1_000_000,
                delivery_timeout_ms=120_000,
            )
        except KafkaError as error:
            raise FogError(f"no broker answers at {connection.servers}: {error}", exit_code=FAILED) from error

    def send(self, number: int, value: bytes) -> None:
        """Hand a record to the producer, which sends it within two milliseconds."""
        self._producer.send(self._topic, key=b"%d" % number, value=value).add_errback(self._failed)

    def flush(self) -> None:
        """Return when the broker has acknowledged every record; FogError if it refused one."""
        self._producer.flush()
        if self._failure is not None:
            raise FogError(
                f"the broker did not take every record: {self._failure}",
                hint="the records it did not take are lost to this replay: start it again",
                exit_code=FAILED,
            )

    def close(self) -> None:
        """Let the connection go."""
        self._producer.close()

    def _failed(self, error: Any) -> None:
        self._failure = error
