"""Whether every record sent came out: the sinks are read and each record's number is counted."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fogctl.errors import FAILED, FogError
from fogctl.runtime.kafka_config import KafkaConnection
from fogctl.runtime.sent_numbers import Sent


@dataclass(frozen=True, slots=True)
class Audit:
    """What became of the records sent."""

    sent: int
    """Records that the broker acknowledged to their sender."""
    seen: int
    """Different record numbers that came out."""
    lost: int
    duplicates: int
    """How many came out more often than once, each extra one counted."""
    foreign: int
    """Records whose key is no number that was sent."""
    unsure: int = 0
    """Numbers that did not come out and may never have been sent: their sender was killed meanwhile."""

    @property
    def ok(self) -> bool:
        """Nothing lost, nothing foreign. Duplicates are reported, not refused: delivery is at least once."""
        return self.lost == 0 and self.foreign == 0


def count(keys: Iterable[bytes | None], sent: int | Sent) -> Audit:
    """Count the numbers among the keys of a sink. `sent` as a number: all below it were sent."""
    known = Sent.first(sent) if isinstance(sent, int) else sent
    times = np.zeros(known.next, dtype=np.int64)
    foreign = 0
    for key in keys:
        if key is not None and key.isdigit() and int(key) < known.next:
            times[int(key)] += 1
        else:
            foreign += 1
    missing = times == 0
    return Audit(
        sent=int(known.sure.sum()),
        seen=int((~missing).sum()),
        lost=int((missing & known.sure).sum()),
        duplicates=int(np.maximum(times - 1, 0).sum()),
        foreign=foreign,
        unsure=int((missing & known.unsure).sum()),
    )


def keys_of(connection: KafkaConnection, topic: str, patience_s: float = 30.0) -> list[bytes | None]:
    """The keys of everything in a topic, from its beginning to its end at the time of asking."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(**connection.for_kafka_python(), enable_auto_commit=False, fetch_max_wait_ms=100)
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        if not partitions:
            raise FogError(f"there is no topic {topic}", hint="was its app removed?", exit_code=FAILED)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        keys: list[bytes | None] = []
        deadline = time.monotonic() + patience_s
        while any(consumer.position(p) < ends[p] for p in partitions):
            got = consumer.poll(timeout_ms=500, max_records=10_000)
            for records in got.values():
                keys += [record.key for record in records]
            if got:
                deadline = time.monotonic() + patience_s
            elif time.monotonic() > deadline:
                raise TimeoutError(f"the broker stopped answering after {len(keys)} records of {topic}")
        return keys
    finally:
        consumer.close()
