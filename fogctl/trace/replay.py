"""Sends a trace's records on schedule: each numbered, at its own instant, however late the last one was."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from fognetem.linux import realtime
from numpy.typing import NDArray

SWITCH_INTERVAL_S = 0.0005
SHOW_EVERY_S = 0.5
SLACK_S = 0.003
"""Progress is shown when the next record is at least so far away."""
REALTIME_PRIORITY = 10
"""Below the delay lines, which have 50."""
REALTIME_UP_TO_PER_S = 5000
"""A record costs this thread some 20 µs: beyond this rate it would take the broker's CPU."""


class Sink(Protocol):
    """Where records go."""

    def send(self, number: int, value: bytes) -> None:
        """Take one record; may buffer."""
        ...

    def flush(self) -> None:
        """Return when everything taken has arrived."""
        ...


class Clock(Protocol):
    """Time that passes; tests bring their own."""

    def now(self) -> float:
        """Seconds from some fixed instant."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        ...


@dataclass(frozen=True, slots=True)
class MonotonicClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        """Seconds since boot."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a trace is played: `speed` seconds of it in each second, every record `copies` times."""

    speed: float = 10.0
    copies: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.speed < float("inf")):
            raise ValueError(f"the speed factor must be above 0, not {self.speed}")
        if self.copies < 1:
            raise ValueError(f"copies must be at least 1, not {self.copies}")

    def due_s(self, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """When each record is due, in seconds after the start; copies share their original's instant."""
        return np.repeat((times_s - times_s[0]) / self.speed, self.copies)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay did. Errors are how late a record was handed over, against the fixed schedule."""

    records: int
    first_number: int
    duration_s: float
    scheduled_s: float
    error_ms_p50: float
    error_ms_p99: float
    error_ms_max: float
    late_s: float
    """How far behind the schedule the last record was: a replay that keeps up ends with about 0."""

    @property
    def kept_up(self) -> bool:
        """Whether the schedule was held: not more than a tenth of a second behind at the end."""
        return self.late_s <= 0.1


def replay(
    values: Iterable[bytes],
    due_s: NDArray[np.float64],
    sink: Sink,
    *,
    first_number: int = 0,
    clock: Clock | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Replayed:
    """Send value k at due_s[k] seconds after the start, numbered first_number + k.

    The schedule is absolute: time lost is made up, never added, so a long replay does not drift.
    """
    if due_s.size == 0:
        raise ValueError("there is nothing to replay: the trace is empty")
    if (np.diff(due_s) < 0).any():
        raise ValueError("records must be in order of time: clean the trace first")
    clock = clock or MonotonicClock()
    late = np.empty(due_s.size, dtype=np.float64)
    start = clock.now()
    sent = 0
    records = _exactly(values, due_s.size)
    schedule = due_s.tolist()
    shown_at = start
    for due, value in zip(schedule, records, strict=True):
        now = clock.now()
        ahead = start + due - now
        silence = now - shown_at
        if on_progress is not None and silence > (SHOW_EVERY_S if ahead > SLACK_S else 4 * SHOW_EVERY_S):
            # In a pause, and in this thread: another one would hold this one up when it is needed.
            on_progress(sent)
            shown_at, now = now, clock.now()
            ahead = start + due - now
        if ahead > 0:
            clock.sleep(ahead)
        late[sent] = clock.now() - start - due
        sink.send(first_number + sent, value)
        sent += 1
    sink.flush()
    if on_progress is not None:
        on_progress(sent)
    error_ms = np.abs(late) * 1000
    return Replayed(
        records=sent,
        first_number=first_number,
        duration_s=clock.now() - start,
        scheduled_s=float(due_s[-1]),
        error_ms_p50=float(np.percentile(error_ms, 50)),
        error_ms_p99=float(np.percentile(error_ms, 99)),
        error_ms_max=float(error_ms.max()),
        late_s=max(0.0, float(late[-1])),
    )


@contextlib.contextmanager
def promptly(due_s: NDArray[np.float64]) -> Iterator[None]:
    """In the body this thread is held up less by others, so that instants are kept also on a busy host.

    It has real-time priority where that is allowed and the schedule leaves a core mostly free; no other
    thread keeps the interpreter for the usual 5 ms; a full collection does not walk all of the trace.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    try:
        with realtime(REALTIME_PRIORITY) if peak_per_s(due_s) <= REALTIME_UP_TO_PER_S else nullcontext():
            yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)


def peak_per_s(due_s: NDArray[np.float64]) -> int:
    """The most records that are due within one second."""
    ends = np.searchsorted(due_s, due_s + 1.0, side="left")
    return int((ends - np.arange(due_s.size)).max(initial=0))


def copied(values: Iterable[bytes], copies: int) -> Iterator[bytes]:
    """Each value `copies` times in a row."""
    for value in values:
        for _ in range(copies):
            yield value


def _exactly(values: Iterable[bytes], count: int) -> Iterator[bytes]:
    seen = 0
    for value in values:
        if seen == count:
            raise ValueError(f"there are more records than the {count} of the schedule")
        yield value
        seen += 1
    if seen < count:
        raise ValueError(f"there are {seen} records but {count} in the schedule")
