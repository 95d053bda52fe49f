"""A topic as the place where a replay's records go: each acknowledged by the broker, none forgotten."""

from __future__ import annotations

from fogctl.errors import FAILED, FogError
from fogctl.inject.senders import Library, best, sender
from fogctl.runtime.kafka_config import KafkaConnection
from fogctl.runtime.sent_numbers import SentNumbers

CHUNK = 100
"""So many numbers are written down at a time."""
LINGER_MS = 2


class KafkaSink:
    """Sends numbered records to a topic; the key is the number. Satisfies `fogctl.trace.replay.Sink`.

    The records are first to stop - 1, in order. `numbers` is told of each chunk before it is sent and when it
    is acknowledged.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        numbers: SentNumbers,
        first: int,
        stop: int,
        library: Library | None = None,
    ) -> None:
        self._numbers = numbers
        self._first = self._next = self._taken = first
        self._stop = stop
        self._open: dict[int, int] = {}
        """Of each chunk, by its place, how many records are not acknowledged yet."""
        self._sender = sender(library or best(), connection, topic, LINGER_MS, self._acknowledged)

    def send(self, number: int, value: bytes) -> None:
        """Hand a record to the producer, which sends it within two milliseconds."""
        if number >= self._taken:
            self._taken = min(number + CHUNK, self._stop)
            self._open[(number - self._first) // CHUNK] = self._taken - number
            self._numbers.taken(number, self._taken)
        self._sender.send(number, value)
        self._next = number + 1  # only now: Ctrl-C may come between any two lines

    def flush(self) -> None:
        """Return when the broker has acknowledged every record; FogError if it refused one."""
        if (failure := self._sender.flush()) is not None:
            raise FogError(
                f"the broker did not take every record: {failure}",
                hint="the audit counts those it acknowledged; the others are in doubt",
                exit_code=FAILED,
            )

    def close(self) -> None:
        """Let the connection go; what was handed over is acknowledged first, what was not is given back."""
        try:
            self.flush()
            self._numbers.acknowledged(self._chunk(self._next), self._next)
            self._numbers.returned(self._next, self._taken)
        finally:
            self._sender.close()

    def _chunk(self, number: int) -> int:
        """The first number of the chunk before this number."""
        return self._first + max(0, number - self._first - 1) // CHUNK * CHUNK

    def _acknowledged(self, number: int) -> None:
        place = (number - self._first) // CHUNK
        self._open[place] -= 1
        if not self._open[place]:
            del self._open[place]
            start = self._first + place * CHUNK
            self._numbers.acknowledged(start, min(start + CHUNK, self._stop))
