"""What arrives on a topic over time: a rate curve or single arrivals from outside, or what a stage writes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from fogmodels.arrivals import MAP
from numpy.typing import ArrayLike, NDArray

from fogctl.trace.replay import Pace
from fogctl.trace.rides import Rides

Vector = NDArray[np.float64]


class Stream(Protocol):
    """Records that arrive: how many by a time, and when."""

    def before(self, at_s: float) -> float:
        """How many records have arrived by then."""
        ...

    def reaches(self, count: float) -> float:
        """When that many have arrived; infinity if they never do (or not yet)."""
        ...

    def times(self, after_s: float, until_s: float) -> tuple[Vector, Vector]:
        """The arrivals in (after, until] and when each entered the app, in order of arrival."""
        ...


class Counted:
    """A rate curve: cumulative counts on an even grid, straight in between. For millions of records."""

    def __init__(self, counts: ArrayLike, step_s: float = 1.0, start_s: float = 0.0) -> None:
        each = np.asarray(counts, dtype=float)
        if each.ndim != 1 or each.size == 0 or not np.isfinite(each).all() or (each < 0).any():
            raise ValueError("counts must be a list of finite numbers that are not negative")
        if not (np.isfinite(step_s) and step_s > 0):
            raise ValueError(f"a step must be longer than 0 s, not {step_s}")
        self.start_s, self.step_s = float(start_s), float(step_s)
        self.total = float(each.sum())
        self._sum: list[float] = [0.0, *np.cumsum(each).tolist()]
        self.end_s = self.start_s + each.size * self.step_s

    @classmethod
    def poisson(cls, rates: ArrayLike, step_s: float = 1.0, start_s: float = 0.0, seed: int = 0) -> Counted:
        """Whole records drawn with these rates (records a second in each step)."""
        rng = np.random.default_rng(seed)
        return cls(rng.poisson(np.asarray(rates, dtype=float) * step_s), step_s, start_s)

    @classmethod
    def of_times(cls, times_s: ArrayLike, step_s: float = 1.0, start_s: float = 0.0) -> Counted:
        """Recorded arrivals, counted in steps: fast, and exact to a step."""
        times = np.asarray(times_s, dtype=float)
        steps = int(np.floor(times.max() / step_s)) + 1 if times.size else 1
        return cls(np.bincount((times // step_s).astype(np.int64), minlength=steps), step_s, start_s)

    @classmethod
    def of_rides(cls, rides: Rides, pace: Pace, step_s: float = 1.0, start_s: float = 0.0) -> Counted:
        """A trace as a replay sends it: rides in order of time, at this pace."""
        return cls.of_times(pace.due_s(rides.pickup_s()), step_s, start_s)

    def before(self, at_s: float) -> float:
        """How many records have arrived by then."""
        place = (at_s - self.start_s) / self.step_s
        if place <= 0:
            return 0.0
        index = int(place)
        if index >= len(self._sum) - 1:
            return self.total
        low = self._sum[index]
        return low + (place - index) * (self._sum[index + 1] - low)

    def reaches(self, count: float) -> float:
        """When that many have arrived."""
        if count > self.total:
            return float("inf")
        index = max(1, bisect_left(self._sum, count))
        low, high = self._sum[index - 1], self._sum[index]
        part = (count - low) / (high - low) if high > low else 0.0
        return self.start_s + (index - 1 + max(0.0, part)) * self.step_s

    def times(self, after_s: float, until_s: float) -> tuple[Vector, Vector]:
        """Arrivals spread evenly over each step."""
        first, last = int(self.before(after_s) + 1e-9), int(self.before(until_s) + 1e-9)
        number = np.arange(first + 1.0, last + 1.0)
        total = np.asarray(self._sum)
        step = np.searchsorted(total, number - 1e-9)
        part = (number - total[step - 1]) / (total[step] - total[step - 1])
        found = self.start_s + self.step_s * (step - 1 + np.minimum(part, 1.0))
        return found, found

    def rates(self) -> tuple[Vector, Vector]:
        """The curve itself: the start of each step and its records a second."""
        counts = np.diff(np.asarray(self._sum, dtype=np.float64))
        starts = self.start_s + self.step_s * np.arange(counts.size, dtype=np.float64)
        return starts, counts / self.step_s


class Timed:
    """Single arrivals: where response times matter."""

    def __init__(self, times_s: ArrayLike) -> None:
        self.at = np.asarray(times_s, dtype=float)
        if self.at.ndim != 1 or not np.isfinite(self.at).all() or (np.diff(self.at) < 0).any():
            raise ValueError("arrival times must be finite and must not go back")
        self.end_s = float(self.at[-1]) if self.at.size else 0.0
        self.total = float(self.at.size)

    @classmethod
    def of_maps(cls, processes: Iterable[tuple[MAP, float]], seed: int = 0, start_s: float = 0.0) -> Timed:
        """Markovian arrivals, each process for so many seconds, one after the other (MEAD's SYNT)."""
        rng = np.random.default_rng(seed)
        parts: list[Vector] = []
        begin = start_s
        for process, seconds in processes:
            found = np.empty(0)
            while not found.size or found[-1] < seconds:
                more = process.sample(int(1.2 * seconds / process.mean) + 100, rng)
                found = np.concatenate([found, (found[-1] if found.size else 0.0) + np.cumsum(more)])
            parts.append(begin + found[found < seconds])
            begin += seconds
        return cls(np.concatenate(parts) if parts else [])

    @classmethod
    def of_gaps(cls, gaps_s: ArrayLike, start_s: float = 0.0) -> Timed:
        """Recorded inter-arrival times."""
        return cls(start_s + np.cumsum(np.asarray(gaps_s, dtype=float)))

    def before(self, at_s: float) -> float:
        """How many records have arrived by then."""
        return float(np.searchsorted(self.at, at_s, side="right"))

    def reaches(self, count: float) -> float:
        """When that many have arrived."""
        index = int(np.ceil(count)) - 1
        return float(self.at[max(0, index)]) if index < self.at.size else float("inf")

    def times(self, after_s: float, until_s: float) -> tuple[Vector, Vector]:
        """The arrivals themselves; they enter the app as they arrive."""
        low, high = np.searchsorted(self.at, [after_s, until_s], side="right")
        return self.at[low:high], self.at[low:high]


class BatchOutput:
    """What a micro-batch stage writes: each batch's records appear when it ends."""

    def __init__(self) -> None:
        self._ends: list[float] = []
        self._sum: list[float] = []

    def write(self, at_s: float, records: float) -> None:
        """A batch that ends at a time no earlier than the one before."""
        self._ends.append(at_s)
        self._sum.append((self._sum[-1] if self._sum else 0.0) + records)

    def before(self, at_s: float) -> float:
        """How many records have been written by then."""
        index = bisect_right(self._ends, at_s)
        return self._sum[index - 1] if index else 0.0

    def reaches(self, count: float) -> float:
        """When that many have been written."""
        index = bisect_left(self._sum, count)
        return self._ends[index] if index < len(self._sum) else float("inf")

    def times(self, after_s: float, until_s: float) -> tuple[Vector, Vector]:
        """A batch's records share its end; for what follows they enter the app then."""
        first, last = int(self.before(after_s)), int(self.before(until_s))
        index = np.searchsorted(self._sum, np.arange(first + 1, last + 1))
        found = np.asarray(self._ends)[index] if last > first else np.empty(0)
        return found, found


class QueueOutput:
    """What a real-time stage writes: record by record, each remembering when it entered the app."""

    def __init__(self) -> None:
        self._parts: list[tuple[Vector, Vector]] = []
        self._flat: tuple[Vector, Vector] = (np.empty(0), np.empty(0))

    def write(self, at_s: Vector, born_s: Vector) -> None:
        """Records that left in this order, none before those written already."""
        if at_s.size:
            self._parts.append((at_s, born_s))

    @property
    def records(self) -> tuple[Vector, Vector]:
        """When each record was written, and when it entered the app."""
        if self._parts:
            parts = [self._flat, *self._parts]
            self._flat = (np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))
            self._parts = []
        return self._flat

    def before(self, at_s: float) -> float:
        """How many records have been written by then."""
        return float(np.searchsorted(self.records[0], at_s, side="right"))

    def reaches(self, count: float) -> float:
        """When that many have been written."""
        index = int(np.ceil(count)) - 1
        times = self.records[0]
        return float(times[max(0, index)]) if index < times.size else float("inf")

    def times(self, after_s: float, until_s: float) -> tuple[Vector, Vector]:
        """The records written in that time."""
        times, born = self.records
        low, high = np.searchsorted(times, [after_s, until_s], side="right")
        return times[low:high], born[low:high]


class Merged:
    """Several streams that one stage reads."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = tuple(streams)

    def before(self, at_s: float) -> float:
        """How many records have arrived by then, on all of them."""
        return sum(stream.before(at_s) for stream in self._streams)

    def reaches(self, count: float) -> float:
        """When that many have arrived together: bisection, for the streams have no common inverse."""
        missing = float("inf")
        edges = [stream.reaches(count) for stream in self._streams]
        high = min(edges)
        if high == missing:
            # None reaches it alone: look ahead in doubling steps from the last instant that is known.
            high = 1.0
            while self.before(high) < count:
                high *= 2
                if high > 1e12:
                    return missing
        low = 0.0
        while high - low > 1e-6 * max(1.0, high):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.before(middle) >= count else (middle, high)
        return high

    def times(self, after_s: float, until_s: float) -> tuple[Vector, Vector]:
        """The arrivals of all of them, in order."""
        parts = [stream.times(after_s, until_s) for stream in self._streams]
        times = np.concatenate([part[0] for part in parts])
        order = np.argsort(times, kind="stable")
        return times[order], np.concatenate([part[1] for part in parts])[order]
