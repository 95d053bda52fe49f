"""Latency changes over time: what holds at an instant (pure), and a loop that makes it so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from fognetem.matrix import LatencyMatrix
from fognetem.path import Path


class Change(Protocol):
    """From `at_s` seconds after the start, the path between a and b is `path`."""

    @property
    def at_s(self) -> float:
        """Seconds after the start."""
        ...

    @property
    def a(self) -> str:
        """One node."""
        ...

    @property
    def b(self) -> str:
        """The other node."""
        ...

    @property
    def path(self) -> Path:
        """The new path."""
        ...


@dataclass(frozen=True, slots=True)
class PathChange:
    """A plain Change."""

    at_s: float
    a: str
    b: str
    path: Path


def matrix_at(start: LatencyMatrix, changes: Iterable[Change], elapsed_s: float) -> LatencyMatrix:
    """The matrix that holds so long after the start: changes due by then, by time, then as written."""
    current = start
    for change in sorted(changes, key=lambda change: change.at_s):
        if change.at_s > elapsed_s:
            break
        current = current.with_path(change.a, change.b, change.path)
    return current


def next_due_s(changes: Iterable[Change], elapsed_s: float) -> float | None:
    """When the next change after that instant is due; None if there is none."""
    return min((change.at_s for change in changes if change.at_s > elapsed_s), default=None)


def run(
    start: LatencyMatrix,
    changes: Iterable[Change],
    apply: Callable[[LatencyMatrix, LatencyMatrix], None],
    told: Callable[[float, LatencyMatrix, LatencyMatrix], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> LatencyMatrix:
    """Apply every change when it is due, from the matrix before to the one after; the last matrix.

    A change that comes late (a slow host, a suspended laptop) is applied at once, and skipped ones in one go.
    """
    planned = tuple(changes)
    for change in planned:
        start.path(change.a, change.b)  # unknown nodes are refused before anything is touched
    began = clock()
    current = start
    while True:
        elapsed_s = clock() - began
        wanted = matrix_at(start, planned, elapsed_s)
        if wanted != current:
            apply(current, wanted)
            if told is not None:
                told(elapsed_s, current, wanted)
            current = wanted
        due = next_due_s(planned, elapsed_s)
        if due is None:
            return current
        sleep(max(0.0, due - (clock() - began)))
