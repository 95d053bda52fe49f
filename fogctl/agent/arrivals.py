"""When records arrived lately: read from the topics, where every record carries its time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

from fogctl.agent.target import MOST_ARRIVALS
from fogctl.runtime.kafka_config import KafkaConnection

_PATIENCE_S = 5.0
"""A decision waits for so long at most; what was not read by then is read at the next."""
_AT_ONCE = 10_000


class TopicArrivals:
    """Follows topics from look to look; the first look goes back as far as the buffer reaches.

    So an agent that was started late, or again, knows the arrivals of before, too.
    """

    def __init__(
        self, reach: Callable[[], AbstractContextManager[KafkaConnection]], most: int = MOST_ARRIVALS
    ) -> None:
        self._reach, self._most = reach, most
        self._consumer: Any = None
        self._stamps: dict[tuple[str, int], deque[float]] = {}

    def of(self, topics: Mapping[str, Sequence[str]]) -> dict[str, tuple[float, ...]]:
        """By stage the latest arrivals on its topics, in Unix seconds, ascending; none where none is known.

        A broker that does not answer leaves what was known before.
        """
        from kafka.errors import KafkaError

        wanted = list(dict.fromkeys(topic for each in topics.values() for topic in each))
        try:
            with self._reach() as connection:
                self._read(connection, wanted)
        except (KafkaError, OSError):
            self.close()
        found = {}
        for stage, each in topics.items():
            own = (stamps for (topic, _), stamps in self._stamps.items() if topic in each)
            # Partitions are read one after the other, and whoever writes may stamp out of order.
            if latest := sorted(chain.from_iterable(own))[-self._most :]:
                found[stage] = tuple(latest)
        return found

    def close(self) -> None:
        """Let the broker go; another look reads anew what the buffer holds."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _read(self, connection: KafkaConnection, topics: Sequence[str]) -> None:
        from kafka import KafkaConsumer, TopicPartition

        if self._consumer is None:
            self._consumer = KafkaConsumer(
                **connection.for_kafka_python(), enable_auto_commit=False, fetch_max_wait_ms=100
            )
            self._stamps.clear()
        consumer = self._consumer
        partitions = [
            TopicPartition(topic, number)
            for topic in topics
            for number in sorted(consumer.partitions_for_topic(topic) or ())
        ]
        if not partitions:
            return
        new = set(partitions) - set(consumer.assignment())
        if new:
            consumer.assign(partitions)
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        for where in partitions:
            oldest = max(begins[where], ends[where] - self._most)
            # What does not fit into the buffer need not be read.
            if where in new or consumer.position(where) < oldest:
                consumer.seek(where, oldest)
        deadline = time.monotonic() + _PATIENCE_S
        while any(consumer.position(p) < ends[p] for p in partitions) and time.monotonic() < deadline:
            for where, records in consumer.poll(timeout_ms=200, max_records=_AT_ONCE).items():
                kept = self._stamps.setdefault((where.topic, where.partition), deque(maxlen=self._most))
                kept.extend(record.timestamp / 1e3 for record in records if record.timestamp > 0)
