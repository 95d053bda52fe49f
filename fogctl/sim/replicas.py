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

    @property
    def rtt_max_ms(self) -> float:
        """The farthest one's round trip: a batch waits for it."""
        return max(self.rtts_ms, default=0.0)

    def speed(self, partitions: int) -> float:
        """The speed of equal replicas that would finish a batch at the same time as these."""
        return common_speed(self.speeds, partitions)


def common_speed(speeds: Sequence[float], tasks: int) -> float:
    """What unequal replicas are worth: a free one takes the next task, and the batch waits for the last.

    Spark does not know which executor is fast, so a slow one that gets a batch's last task holds it up.
    """
    if not speeds or min(speeds) <= 0:
        raise ValueError("speeds must be above 0, and there must be one at least")
    if min(speeds) == max(speeds):
        return speeds[0]
    free = [(0.0, place) for place in range(len(speeds))]
    finished = 0.0
    for _ in range(tasks):
        at, place = heapq.heappop(free)
        at += 1.0 / speeds[place]
        finished = max(finished, at)
        heapq.heappush(free, (at, place))
    return -(-tasks // len(speeds)) / finished
