"""What an experiment sends and when: rides, bursts or recorded arrivals as due times and record values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fogmodels.arrivals import MAP
from numpy.typing import NDArray

from fogctl.errors import FogError
from fogctl.experiment.experiment_file import Burst, Recorded, TraceChoice
from fogctl.trace.clean import Cleaned

Vector = NDArray[np.float64]
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
RATE_BIN_S = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Records in the order of their due times, in seconds after the replay's start."""

    due_s: Vector
    values: Callable[[], Iterator[bytes]]
    """The records themselves, one for each due time; made when asked for."""
    notes: tuple[str, ...] = ()
    """What was wrong with the file that they are from, in sentences."""

    @property
    def records(self) -> int:
        """How many."""
        return int(self.due_s.size)

    @property
    def duration_s(self) -> float:
        """When the last one is due."""
        return float(self.due_s[-1])

    def offered(self, until_s: float | None = None) -> Vector:
        """Records due in each second."""
        seconds = int(np.ceil(self.duration_s if until_s is None else until_s)) + 1
        return np.bincount((self.due_s // RATE_BIN_S).astype(np.int64), minlength=seconds).astype(float)


def build(choice: TraceChoice, seed: int, here: Path) -> Load:
    """The load that a trace section describes; `here` is the folder that its file names are relative to."""
    if choice.bursts is not None:
        return _of_lines(_paced(_burst_times(choice.bursts, seed), choice), seed)
    if choice.recorded is not None:
        return _of_lines(_paced(_recorded_times(choice.recorded, here), choice), seed)
    return _rides(choice, seed, here)


def map_of(rate: float, scv: float, decay: float) -> MAP:
    """A MAP of two states: gaps hyperexponential with balanced means, states kept with probability `decay`.

    The gaps' autocorrelation at lag k is decay^k · (1 − 1/scv) / 2, the most that this marginal allows.
    """
    if scv <= 1.0:
        return MAP.poisson(rate)
    p = 0.5 * (1.0 + np.sqrt((scv - 1.0) / (scv + 1.0)))
    weights = np.array([p, 1.0 - p])
    speeds = 2.0 * weights * rate
    stay = decay * np.eye(2) + (1.0 - decay) * np.outer(np.ones(2), weights)
    return MAP(-np.diag(speeds), speeds[:, None] * stay)


def _burst_times(bursts: list[Burst], seed: int) -> Vector:
    rng = np.random.default_rng(seed)
    pieces: list[Vector] = []
    start = 0.0
    for burst in bursts:
        process = map_of(burst.rate, burst.scv, burst.decay)
        times = np.empty(0)
        while times.size == 0 or times[-1] < burst.lasts:
            more = process.sample(int(burst.rate * burst.lasts * 1.2) + 10, rng)
            times = np.concatenate([times, (times[-1] if times.size else 0.0) + np.cumsum(more)])
        pieces.append(start + times[times < burst.lasts])
        start += burst.lasts
    return np.concatenate(pieces)


def _recorded_times(recorded: Recorded, here: Path) -> Vector:
    from fogctl.cli.trace import Kind
    from fogctl.cli.trace_file import read_times

    gaps = read_times(here / recorded.file, recorded.column, Kind.auto).times * _SECONDS[recorded.unit]
    if recorded.records is not None:
        gaps = gaps[: recorded.records]
    if recorded.rate is not None:
        gaps = gaps / (float(gaps.mean()) * recorded.rate)
    return np.cumsum(gaps)


def _paced(times: Vector, choice: TraceChoice) -> Vector:
    from fogctl.trace.replay import Pace

    if times.size < 2:
        raise FogError("the trace has fewer than two records", key="trace")
    return Pace(choice.speed, choice.copies).due_s(times)


def _of_lines(due_s: Vector, seed: int) -> Load:
    def values() -> Iterator[bytes]:
        from fogapps.logs.lines import lines

        return (line.text.encode() for line in lines(due_s.size, seed))

    return Load(due_s, values)


def _rides(choice: TraceChoice, seed: int, here: Path) -> Load:
    from fogctl.trace import MakeOptions, clean, make, read
    from fogctl.trace.replay import copied

    if choice.make is not None:
        made = choice.make
        try:
            options = MakeOptions(seed, made.days, made.rides_per_day, made.start, made.dirt)
            found = make(options)
        except ValueError as error:
            raise FogError(str(error), key="trace.make") from error
    else:
        found = read(here / str(choice.file))
    cleaned = clean(found)
    rides = cleaned.rides
    if len(rides) < 2:
        raise FogError("the trace has fewer than two rides", key="trace")
    notes = () if choice.file is None else tuple(_wrong(choice.file, len(found) + found.unreadable, cleaned))
    return Load(_paced(rides.pickup_s(), choice), lambda: copied(rides.values(), choice.copies), notes)


def _wrong(file: str, rows: int, cleaned: Cleaned) -> Iterator[str]:
    """What was done to a file's rides, so that half a trace is not taken for a whole one."""
    if removed := {reason: count for reason, count in cleaned.removed.items() if count}:
        told = ", ".join(f"{reason}: {count:,}" for reason, count in removed.items())
        yield f"trace {file}: {sum(removed.values()):,} of {rows:,} rows were left out ({told})"
    if cleaned.moved:
        yield f"trace {file}: {cleaned.moved:,} rides stood out of order and were sorted in"
