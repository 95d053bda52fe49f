"""A topic as the place where a replay's records go: each acknowledged by the broker, none forgotten."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from fogctl.errors import FAILED, FogError
from fogctl.runtime.kafka_config import KafkaConnection
from fogctl.runtime.sent_numbers import SentNumbers

CHUNK = 100
"""So many numbers are written down at a time: a killed replay leaves at most so many in doubt."""


class KafkaSink:
    """Sends numbered records to a topic; the key is the number. Satisfies `fogctl.trace.replay.Sink`.

    `numbers` is told of each chunk before it is sent and when it is acknowledged; `stop` ends the last one.
    """

    def __init__(self, connection: KafkaConnection, topic: str, numbers: SentNumbers, stop: int) -> None:
        self._topic = topic
        self._numbers = numbers
        self._stop = stop
        self._failure: BaseException | None = None
        self._chunk = self._chunk_end = self._next = 0
        self._open: dict[int, int] = {}
        """Of each chunk, by its first number, how many records are not acknowledged yet."""
        try:
            self._producer = KafkaProducer(
                **connection.for_kafka_python(),
                acks="all",
                linger_ms=2,
                retries=1_000_000,
                delivery_timeout_ms=120_000,
                max_block_ms=120_000,
                allow_auto_create_topics=False,
            )
        except KafkaError as error:
            raise FogError(f"no Kafka answers at {connection.servers}: {error}", exit_code=FAILED) from error

    def send(self, number: int, value: bytes) -> None:
        """Hand a record to the producer, which sends it within two milliseconds."""
        if number >= self._chunk_end:
            self._chunk, self._chunk_end = number, min(number + CHUNK, self._stop)
            self._open[self._chunk] = self._chunk_end - self._chunk
            self._numbers.taken(self._chunk, self._chunk_end)
        try:
            future = self._producer.send(self._topic, key=b"%d" % number, value=value)
        except KafkaError as error:
            raise FogError(f"Kafka takes no more records: {error}", exit_code=FAILED) from error
        self._next = number + 1  # only now: Ctrl-C may come between any two lines
        future.add_callback(partial(self._acknowledged, self._chunk, self._chunk_end))
        future.add_errback(self._failed)

    def flush(self) -> None:
        """Return when the broker has acknowledged every record; FogError if it refused one."""
        self._producer.flush()
        if self._failure is not None:
            raise FogError(
                f"the broker did not take every record: {self._failure}",
                hint="the audit counts those it acknowledged; the others may be sent again",
                exit_code=FAILED,
            )

    def close(self) -> None:
        """Let the connection go; what was handed over is acknowledged first, what was not is given back."""
        try:
            self.flush()
            if self._open.get(self._chunk):
                self._numbers.acknowledged(self._chunk, self._next)
                self._numbers.returned(self._next, self._chunk_end)
        finally:
            self._producer.close()

    def _acknowledged(self, chunk: int, end: int, _: Any) -> None:
        self._open[chunk] -= 1
        if not self._open[chunk]:
            del self._open[chunk]
            self._numbers.acknowledged(chunk, end)

    def _failed(self, error: Any) -> None:
        self._failure = error
