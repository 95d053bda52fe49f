"""How much of the host each node gets, and whether the host has that much."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass

from fogctl.config.boards import Board

HEAD_ROOM = 0.8
"""What fogctl gives to nodes when it chooses the scale: the rest is for broker, driver and delay line."""
LEAST_CORES = 0.01
"""The kernel enforces no CPU quota below 1 ms in 100 ms."""
LEAST_MEMORY_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a host has to give."""

    cores: float
    memory_bytes: float

    @classmethod
    def of_this_host(cls) -> Capacity:
        """The cores this process may use, and the machine's memory."""
        try:
            cores = len(os.sched_getaffinity(0))
        except AttributeError:  # not on macOS
            cores = os.cpu_count() or 1
        try:
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (ValueError, OSError):
            memory = 0
        return cls(float(cores), float(memory) if memory > 0 else math.inf)


@dataclass(frozen=True, slots=True)
class Share:
    """What one node asks for: a part that grows with the scale, or a fixed part."""

    of_scale: float
    fixed: float

    def at(self, scale: float) -> float:
        """The amount at that scale."""
        return self.of_scale * scale + self.fixed


def cpu_share(board: Board | None, override_cores: float | None) -> Share | None:
    """A node's CPU: its board's cores × speed × scale, or what the file says; None if it is not limited."""
    if override_cores is not None:
        return Share(0.0, override_cores)
    return None if board is None else Share(board.capacity, 0.0)


def memory_share(board: Board | None, override_bytes: int | None) -> Share | None:
    """A node's memory: its board's × scale, or what the file says; None if it is not limited."""
    if override_bytes is not None:
        return Share(0.0, float(override_bytes))
    return None if board is None else Share(float(board.memory_bytes), 0.0)


def largest_scale(shares: Iterable[Share], available: float) -> float | None:
    """The largest scale, rounded down to two digits, at which the shares fit; None if no scale does."""
    fixed = grows = 0.0
    for share in shares:
        fixed += share.fixed
        grows += share.of_scale
    if grows <= 0 or available <= fixed:
        return None
    exact = (available - fixed) / grows
    digits = 10.0 ** (math.floor(math.log10(exact)) - 1)
    # The tiny push keeps 0.04 from becoming 0.039 when the division comes out one bit low.
    return min(1.0, math.floor(exact / digits + 1e-9) * digits)


def percent(fraction: float) -> str:
    """A fraction as people write it: 0.04 is `4%`."""
    return f"{fraction * 100:.3g}%"
