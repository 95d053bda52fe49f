"""The replicas a simulated stage has at a moment, and how fast they are together."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pool:
    """Replicas that are there: their nodes, each one's speed (1: what mu was measured with) and distance."""

    nodes: tuple[str, ...] = ()
    speeds: tuple[float, ...] = ()
    rtts_ms: tuple[float, ...] = ()
    cores: tuple[float, ...] = ()
    """The CPU each may use: share × its node's quota."""

    @property
    def rtt_max_ms(self) -> float:
        """The farthest one's round trip: a batch waits for it."""
        return max(self.rtts_ms, default=0.0)

    def speed(self, tasks: int, slots: int = 1) -> float:
        """The speed of equal replicas that would finish a batch at the same time as these."""
        return common_speed(self.speeds, tasks, slots)


def common_speed(speeds: Sequence[float], tasks: int, slots: int = 1) -> float:
    """What unequal replicas are worth: tasks are dealt out in turn while there are slots, then a free one
    takes the next, and the batch waits for the last.

    Spark does not know which executor is fast, so a slow one holds up the batches that it gets a task of.
    """
    if not speeds or min(speeds) <= 0:
        raise ValueError("speeds must be above 0, and there must be one at least")
    if min(speeds) == max(speeds):
        return speeds[0]
    n = len(speeds)
    at_once, left_over = divmod(min(tasks, n * slots), n)
    counts = [at_once + (place < left_over) for place in range(n)]
    free = [(count / speed, place) for place, (count, speed) in enumerate(zip(counts, speeds, strict=True))]
    heapq.heapify(free)
    for _ in range(tasks - n * slots):
        at, place = heapq.heappop(free)
        heapq.heappush(free, (at + 1.0 / speeds[place], place))
    return -(-tasks // n) / max(at for at, _ in free)


def longest(parts: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of lines (value at 0, slope), those that are the highest somewhere to the right of 0."""
    kept: list[tuple[float, float]] = []
    for fixed, slope in sorted(set(parts), reverse=True):
        if not kept or slope > kept[-1][1]:
            kept.append((fixed, slope))
    return kept
