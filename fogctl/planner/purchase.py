"""What to buy for a rate: slots with their interval, tasks of each stage, boards and watts. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fogmodels.capacity import CapacityModel

from fogctl.config.boards import Board
from fogctl.errors import FogError
from fogctl.planner.explorer import Profile

BESIDE_HEAP_MB = 200
"""Memory a replica needs beside its heap."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """What a rate needs with one size of memory; None where it is not reached within the most slots."""

    rate: float
    memory_mb: float
    slots: int | None
    low: int | None
    high: int | None
    tasks: dict[str, int]
    """Of each stage; empty if nothing is known of stages."""
    board: str
    boards: int | None
    boards_low: int | None
    boards_high: int | None
    """Boards for as few and as many slots as the interval has."""
    watts: float | None


def tasks_per_board(board: Board, memory_mb: float) -> int:
    """A task a core, as far as the memory reaches."""
    return min(board.cores, int(board.memory_bytes / (1 << 20) // (memory_mb + BESIDE_HEAP_MB)))


def speed_in_use(board: Board, memory_mb: float) -> float:
    """What the tasks of a board have together, in cores of a Raspberry Pi 4; its fastest cores first."""
    speeds = [cluster.relative_speed for cluster in board.cpu for _ in range(cluster.count)]
    return sum(sorted(speeds, reverse=True)[: tasks_per_board(board, memory_mb)])


def purchase(
    model: CapacityModel,
    memory_mb: float,
    profile: Profile | None,
    stages: Sequence[str],
    rate: float,
    board: Board,
    *,
    slot_speed: float = 1.0,
    headroom: float = 0.10,
    confidence: float = 0.90,
    max_slots: int = 5000,
) -> Purchase:
    """What a rate needs with so much memory for each task.

    `slot_speed` is that of a slot as measured, in cores of a Raspberry Pi 4: a faster board needs fewer
    tasks, a slower one more. Without a profile nothing is said of stages.
    """
    offered = speed_in_use(board, memory_mb)
    if offered <= 0:
        raise FogError(
            f"{board.name} has no room for a task with {memory_mb:g} MB",
            hint="choose a board with more memory, or plan for smaller heaps with --memory-mb",
        )
    found = model.slots_for(rate, memory_mb, headroom=headroom, max_slots=max_slots)
    interval = model.slots_interval(
        rate, memory_mb, headroom=headroom, confidence=confidence, max_slots=max_slots
    )

    def at_least_a_task_a_stage(slots: int | None) -> int | None:
        return None if slots is None else max(slots, len(stages))

    def boards_for(slots: int | None) -> int | None:
        # A share of a board too small to be true is rounding.
        return None if slots is None else math.ceil(slots * slot_speed / offered - 1e-9)

    slots, low, high = map(at_least_a_task_a_stage, (found, interval.low, interval.high))
    tasks = profile.tasks(stages, slots) if profile is not None and slots is not None else {}
    count = boards_for(slots)
    watts = None
    if slots is not None and count is not None:
        # Power grows from idle to load with what is used of all cores; what is left of the last board idles.
        busy = min(1.0, slots * slot_speed / (count * board.capacity))
        watts = count * (board.idle_watts + busy * (board.load_watts - board.idle_watts))
    return Purchase(
        rate, memory_mb, slots, low, high, tasks, board.name, count, boards_for(low), boards_for(high), watts
    )
