from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogctl.trace.replay import Pace, copied, peak_per_s, replay


@dataclass
class Recorder:
    """A sink that keeps what it gets and takes `cost_s` of the clock's time for each record."""

    clock: SteppedClock
    cost_s: float = 0.0
    got: list[tuple[float, int, bytes]] = field(default_factory=list)
    flushed: bool = False

    def send(self, number: int, value: bytes) -> None:
        self.got.append((self.clock.now(), number, value))
        self.clock.time_s += self.cost_s

    def flush(self) -> None:
        self.flushed = True


@dataclass
class SteppedClock:
    """Time that passes only when somebody sleeps, with an oversleep as real ones have."""

    time_s: float = 100.0
    oversleep_s: float = 0.0

    def now(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds + self.oversleep_s


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50), st.floats(0.1, 100), st.integers(1, 3))
def test_every_record_is_sent_once_in_order_at_its_instant(
    gaps: list[float], speed: float, copies: int
) -> None:
    times = np.cumsum(gaps)
    pace = Pace(speed, copies)
    clock = SteppedClock()
    sink = Recorder(clock)
    values = [str(index).encode() for index in range(len(times))]
    done = replay(copied(values, copies), pace.due_s(times), sink, first_number=7, clock=clock)
    assert [number for _, number, _ in sink.got] == list(range(7, 7 + copies * len(times)))
    assert [value for _, _, value in sink.got] == [value for value in values for _ in range(copies)]
    for index, (at, _, _) in enumerate(sink.got):
        assert at - 100.0 == pytest.approx((times[index // copies] - times[0]) / speed, abs=1e-9)
    assert sink.flushed
    assert done.records == copies * len(times)
    assert done.error_ms_max == pytest.approx(0, abs=1e-6)


def test_oversleeping_does_not_add_up() -> None:
    clock = SteppedClock(oversleep_s=0.004)
    sink = Recorder(clock)
    done = replay([b"x"] * 10_000, np.arange(10_000) / 100.0, sink, clock=clock)
    assert done.error_ms_max == pytest.approx(4, abs=0.01)
    assert done.late_s < 0.005
    assert done.kept_up


def test_a_sink_that_is_too_slow_is_reported() -> None:
    clock = SteppedClock()
    done = replay([b"x"] * 1000, np.arange(1000) / 1000.0, Recorder(clock, cost_s=0.002), clock=clock)
    assert not done.kept_up
    assert done.late_s == pytest.approx(999 * 0.001, rel=0.01)


def test_a_schedule_out_of_order_is_refused() -> None:
    clock = SteppedClock()
    with pytest.raises(ValueError, match="in order of time"):
        replay([b"a", b"b"], np.array([1.0, 0.0]), Recorder(clock), clock=clock)


@pytest.mark.parametrize(("speed", "copies"), [(0, 1), (-1, 1), (float("nan"), 1), (float("inf"), 1), (1, 0)])
def test_impossible_paces_are_refused(speed: float, copies: int) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        Pace(speed, copies)


def test_more_records_than_schedule_is_an_error_not_a_loss() -> None:
    clock = SteppedClock()
    with pytest.raises(ValueError, match="more records"):
        replay([b"a", b"b", b"c"], np.array([0.0, 1.0]), Recorder(clock), clock=clock)


@given(st.lists(st.floats(0, 5), max_size=60))
def test_the_peak_is_the_busiest_second(times: list[float]) -> None:
    due = np.sort(np.array(times))
    busiest = max((sum(start <= other < start + 1 for other in due) for start in due), default=0)
    assert peak_per_s(due) == busiest
