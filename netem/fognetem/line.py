"""When each packet may go: delay, jitter, loss and rate per direction of a path. No I/O, no clock."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

from fognetem.path import Path

RATE_BUFFER_NS = 200_000_000
"""How much traffic a rate-limited path holds before it drops, like a router's buffer of 200 ms."""
_ETHERNET_HEADER = 14
LOST, GO, BEHIND = -1, 0, 1
"""What `Pipe.enter` answers besides a time."""


@dataclass(slots=True)
class Counters:
    """What became of a direction's packets."""

    delayed: int = 0
    lost: int = 0
    overflowed: int = 0


Waiting = tuple[int, int, bytes]
"""Release time in ns, arrival time in ns, and the verdict message that lets the packet go."""


class Pipe:
    """One direction of one path. Packets leave in the order they came unless the path says otherwise."""

    __slots__ = (
        "_delay_ns", "_free_ns", "_jitter_ns", "_last_ns", "_loss", "_ns_per_byte", "_overtaking", "_random",
        "_reorder", "counters", "waiting",
    )  # fmt: skip

    def __init__(self, path: Path, lead_ns: int, rng: random.Random) -> None:
        self.counters = Counters()
        self.waiting: deque[Waiting] = deque()
        self._overtaking: list[Waiting] = []
        self._random = rng.random
        self._last_ns = 0
        self._free_ns = 0
        self._assign(path, lead_ns)

    def _assign(self, path: Path, lead_ns: int) -> None:
        self._delay_ns = round(path.rtt_ms * 500_000) - lead_ns
        self._jitter_ns = round(path.jitter_ms * 500_000)
        self._loss = path.loss
        self._ns_per_byte = 8e9 / path.rate_bit_s if path.rate_bit_s else 0.0
        self._reorder = path.reorder

    def change(self, path: Path, lead_ns: int, now_ns: int) -> int | None:
        """Another path from now on; what is under way keeps its order. The first release time, if any waits.

        When the delay shrinks, the packets under way arrive as if they had been sent on the new path (not
        before now): a new packet neither overtakes them nor waits behind the old delay.
        """
        shorter_ns = self._delay_ns - (round(path.rtt_ms * 500_000) - lead_ns)
        self._assign(path, lead_ns)
        if shorter_ns > 0 and self.waiting:
            moved = [
                (max(release - shorter_ns, now_ns), came, message) for release, came, message in self.waiting
            ]
            self.waiting = deque(moved)
            self._last_ns = moved[-1][0]
        if self._overtaking and not self._reorder:
            # Order is kept from here on: what waits keeps its time and its place.
            ordered = sorted([*self._overtaking, *self.waiting], key=lambda packet: packet[0])
            self._overtaking = []
            self.waiting = deque(ordered)
            self._last_ns = max(self._last_ns, ordered[-1][0])
        return self.next_ns()

    def enter(self, message: bytes, length: int, now_ns: int) -> int:
        """Take a packet in: LOST, GO (let it go at once), BEHIND (others are first), or when it is due."""
        if self._loss and self._random() < self._loss:
            self.counters.lost += 1
            return LOST
        release = now_ns
        if self._ns_per_byte:
            start = self._free_ns if self._free_ns > now_ns else now_ns
            if start - now_ns > RATE_BUFFER_NS:
                self.counters.overflowed += 1
                return LOST
            release = self._free_ns = start + int((length + _ETHERNET_HEADER) * self._ns_per_byte)
        release += self._delay_ns
        if self._jitter_ns:
            release += int((2 * self._random() - 1) * self._jitter_ns)
        self.counters.delayed += 1
        if self._reorder:
            if release <= now_ns:
                return GO
            heappush(self._overtaking, (release, now_ns, message))
            return release
        if release < self._last_ns:
            release = self._last_ns
        self._last_ns = release
        if self.waiting:
            self.waiting.append((release, now_ns, message))
            return BEHIND
        if release <= now_ns:
            return GO
        self.waiting.append((release, now_ns, message))
        return release

    def leave(self, now_ns: int, give: Callable[[bytes], None]) -> int | None:
        """Hand over every packet whose time has come; the next release time, if one still waits."""
        waiting = self.waiting
        while waiting and waiting[0][0] <= now_ns:
            give(waiting.popleft()[2])
        overtaking = self._overtaking
        while overtaking and overtaking[0][0] <= now_ns:
            give(heappop(overtaking)[2])
        return self.next_ns()

    def next_ns(self) -> int | None:
        """When the next packet is due; None if none waits."""
        if self._overtaking and (not self.waiting or self._overtaking[0][0] < self.waiting[0][0]):
            return self._overtaking[0][0]
        return self.waiting[0][0] if self.waiting else None
