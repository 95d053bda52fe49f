"""Which record numbers were sent to an app: an append-only journal that a kill at any instant leaves true.

A sender reserves its numbers, writes down each chunk before it sends it and again when the broker has
acknowledged it. What a killed sender had written down but not acknowledged may have arrived or not: the audit
counts such numbers apart instead of calling them lost.
"""

from __future__ import annotations

import fcntl
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """What is known of the numbers 0 to next - 1."""

    next: int
    """The first number nobody has reserved."""
    sure: Mask
    """Acknowledged by the broker."""
    unsure: Mask
    """Handed over by a sender that was killed before it knew more."""

    @classmethod
    def first(cls, records: int) -> Sent:
        """All of the numbers below `records`."""
        return cls(records, np.ones(records, dtype=bool), np.zeros(records, dtype=bool))


class SentNumbers:
    """The journal of one app, a file with one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def reserve(self, count: int) -> int:
        """Set `count` numbers aside for one sender; answers the first. Safe while others reserve too."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            first = self.read().next
            if file.tell() and not self._path.read_bytes().endswith(b"\n"):
                file.write(b"\n")  # a kill cut the last line off: what follows must not hang on to it
            file.write(_line("reserved", first, first + count))
        return first

    def taken(self, start: int, stop: int) -> None:
        """The records start to stop - 1 are about to be sent."""
        self._append("taken", start, stop)

    def acknowledged(self, start: int, stop: int) -> None:
        """The broker has the records start to stop - 1."""
        self._append("acknowledged", start, stop)

    def returned(self, start: int, stop: int) -> None:
        """The records start to stop - 1, once taken, were never sent."""
        self._append("returned", start, stop)

    def declare(self, records: int) -> None:
        """Exactly the records 0 to records - 1 count as sent, whatever was written before."""
        self._append("declared", 0, records)

    def read(self) -> Sent:
        """What the journal says; a last line that was cut off by a kill says nothing."""
        entries = []
        try:
            for line in self._path.read_bytes().splitlines():
                try:
                    ((what, (start, stop)),) = json.loads(line).items()
                except ValueError:
                    continue
                entries.append((what, start, stop))
        except FileNotFoundError:
            pass
        size = max((stop for _, _, stop in entries), default=0)
        sure, unsure = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        next_number = 0
        for what, start, stop in entries:
            here = slice(start, stop)
            next_number = max(next_number, stop)
            if what == "declared":
                sure[:], unsure[:], next_number = False, False, stop
            if what in ("acknowledged", "declared"):
                sure[here], unsure[here] = True, False
            elif what == "taken":
                unsure[here] = True
            elif what == "returned":
                unsure[here] = False
        return Sent(next_number, sure[:next_number], unsure[:next_number])

    def _append(self, what: str, start: int, stop: int) -> None:
        if stop <= start and what != "declared":
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(_line(what, start, stop))


def _line(what: str, start: int, stop: int) -> bytes:
    return json.dumps({what: [start, stop]}).encode() + b"\n"
