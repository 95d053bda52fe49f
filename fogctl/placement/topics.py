"""What the topics of a running testbed hold: how many records, and how large they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from fogctl.errors import FAILED, FogError
from fogctl.runtime.kafka import Reach

SAMPLE_RECORDS = 200
"""Of a topic, to know how large its records are."""
_PATIENCE_S = 10.0


class Topics:
    """How much topics hold, and how large their records are, asked of the broker."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    @classmethod
    @contextmanager
    def open(cls, reach: Reach) -> Iterator[Topics]:
        """For as long as the body lasts; FogError if the broker does not answer."""
        try:
            with reach as connection:
                consumer = KafkaConsumer(
                    **connection.for_kafka_python(), enable_auto_commit=False, auto_offset_reset="earliest"
                )
                try:
                    yield cls(consumer)
                finally:
                    consumer.close()
        except (KafkaError, OSError) as error:
            raise FogError(f"Kafka does not answer: {error}", exit_code=FAILED) from error

    def end(self, topic: str) -> int:
        """The records it ever held."""
        return sum(self._consumer.end_offsets(self._partitions(topic)).values())

    def mean_bytes(self, topic: str) -> float:
        """Key and value of its newest records, in the mean; 0 if it has none."""
        partitions = self._partitions(topic)
        begins, ends = self._consumer.beginning_offsets(partitions), self._consumer.end_offsets(partitions)
        each = max(1, SAMPLE_RECORDS // max(1, len(partitions)))
        wanted = {where: min(each, ends[where] - begins[where]) for where in partitions}
        wanted = {where: count for where, count in wanted.items() if count > 0}
        self._consumer.assign(list(wanted))
        for where, count in wanted.items():
            self._consumer.seek(where, ends[where] - count)
        sizes: list[int] = []
        deadline = time.monotonic() + _PATIENCE_S
        while len(sizes) < sum(wanted.values()) and time.monotonic() < deadline:
            for records in self._consumer.poll(timeout_ms=500).values():
                sizes += [len(record.key or b"") + len(record.value or b"") for record in records]
        return sum(sizes) / len(sizes) if sizes else 0.0

    def _partitions(self, topic: str) -> list[Any]:
        return [
            TopicPartition(topic, number)
            for number in sorted(self._consumer.partitions_for_topic(topic) or ())
        ]
