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
    boards: int | None
    watts: float | None


def tasks_per_board(board: Board, memory_mb: float) -> int:
    """A task a core, as far as the memory reaches."""
    return min(board.cores, int(board.memory_bytes / (1 << 20) // (memory_mb + BESIDE_HEAP_MB)))


def purchase(
    model: CapacityModel,
    profile: Profile,
    stages: Sequence[str],
    rate: float,
    board: Board,
    *,
    measured_speed: float = 1.0,
    headroom: float = 0.10,
    confidence: float = 0.90,
    max_slots: int = 5000,
) -> Purchase:
    """What a rate needs with the memory of a profile.

    `measured_speed` is that of a core the model was measured on, in cores of a Raspberry Pi 4: a faster board
    needs fewer tasks, a slower one more.
    """
    memory_mb = profile.memory_mb
    room = tasks_per_board(board, memory_mb)
    if room < 1:
        raise FogError(
            f"{board.name} has no room for a task with {memory_mb:g} MB",
            hint="choose a board with more memory",
        )
    slots = model.slots_for(rate, memory_mb, headroom=headroom, max_slots=max_slots)
    interval = model.slots_interval(
        rate, memory_mb, headroom=headroom, confidence=confidence, max_slots=max_slots
    )
    if slots is None:
        return Purchase(rate, memory_mb, None, interval.low, interval.high, {}, None, None)
    slots = max(slots, len(stages))
    tasks = profile.tasks(stages, slots)
    here = math.ceil(slots * measured_speed / board.relative_speed)
    boards = math.ceil(here / room)
    # What is left of the last board idles.
    busy = here / (boards * board.cores)
    watts = boards * (board.idle_watts + busy * (board.load_watts - board.idle_watts))
    return Purchase(rate, memory_mb, slots, interval.low, interval.high, tasks, boards, watts)
