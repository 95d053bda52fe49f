"""CPU time of a call: what a busy machine does to the clock on the wall does not count."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def cpu_s(call: Callable[[], Answer], *, repeats: int = 1, rounds: int = 3) -> tuple[float, Answer]:
    """The least CPU seconds of one call over some rounds, children included, and the call's answer."""
    answer = call()
    best = float("inf")
    for _ in range(rounds):
        before = _used()
        for _ in range(repeats):
            answer = call()
        best = min(best, (_used() - before) / repeats)
    return best, answer


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
