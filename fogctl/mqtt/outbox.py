"""What a device still has to care for: records sent, accepted by Mosquitto, confirmed by Kafka. Pure.

A PUBACK says that Mosquitto has a record, in its memory. A device that wants to be sure keeps the record
until the bridge confirms that Kafka has it, and after a broken connection, which may mean that Mosquitto was
killed, sends everything again that is not confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable


class Outbox:
    """The records of one device, by number."""

    def __init__(self, *, confirm: bool) -> None:
        """`confirm`: a record is done when Kafka has it; otherwise when Mosquitto has."""
        self._confirm = confirm
        self._payloads: dict[int, bytes] = {}
        self._unaccepted: set[int] = set()
        self.accepted = 0
        self.confirmed = 0
        self.resent = 0

    def __len__(self) -> int:
        return len(self._payloads)

    @property
    def numbers(self) -> list[int]:
        """The records that are not done."""
        return sorted(self._payloads)

    def add(self, number: int, payload: bytes) -> None:
        """A record is being sent for the first time."""
        self._payloads[number] = payload
        self._unaccepted.add(number)

    def payload(self, number: int) -> bytes | None:
        """A record's content; None once it is done."""
        return self._payloads.get(number)

    def accept(self, number: int) -> bytes | None:
        """Mosquitto has it. Answers the record if that makes it done."""
        if number in self._unaccepted:
            self._unaccepted.discard(number)
            self.accepted += 1
        return None if self._confirm else self._payloads.pop(number, None)

    def confirm(self, numbers: Iterable[int]) -> list[tuple[int, bytes]]:
        """Kafka has these. Answers those that are done now; a confirmation may come twice."""
        done = [(number, self._payloads.pop(number)) for number in numbers if number in self._payloads]
        self._unaccepted.difference_update(number for number, _ in done)
        self.confirmed += len(done)
        return done

    def send_again(self, under_way: Iterable[int]) -> list[int]:
        """After a new connection: what to send again. `under_way`: what the client sends again by itself."""
        again = sorted(set(self._payloads) - set(under_way))
        self.resent += len(again)
        return again
