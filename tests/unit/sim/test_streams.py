"""What arrives on a topic: counts and instants agree, whatever the stream is made of."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from fogmodels.arrivals import MAP
from hypothesis import given, settings
from hypothesis import strategies as st

from fogctl.sim.streams import BatchOutput, Counted, Merged, QueueOutput, Stream, Timed
from fogctl.trace import MakeOptions, make
from fogctl.trace.replay import Pace

COUNTS = st.lists(st.integers(0, 5), min_size=1, max_size=20).filter(lambda counts: sum(counts) > 0)


def streams(counts: list[int]) -> list[Stream]:
    """The same records as four kinds of stream: all of a second's records at its end."""
    ends = np.repeat(np.arange(1.0, len(counts) + 1), counts)
    batches, queue = BatchOutput(), QueueOutput()
    for end, count in zip(range(1, len(counts) + 1), counts, strict=True):
        if count:
            batches.write(float(end), count)
            queue.write(np.full(count, float(end)), np.full(count, 0.0))
    return [Timed(ends), batches, queue, Merged([Timed(ends[::2]), Timed(ends[1::2])])]


@given(COUNTS, st.floats(0, 21))
def test_all_kinds_of_stream_count_the_same_records(counts: list[int], at_s: float) -> None:
    expected = sum(counts[: int(at_s)])
    for stream in streams(counts):
        assert stream.before(at_s) == expected


@given(COUNTS)
def test_a_count_is_reached_when_its_last_record_arrives(counts: list[int]) -> None:
    instants = np.repeat(np.arange(1.0, len(counts) + 1), counts)
    for stream in streams(counts):
        for number, instant in enumerate(instants, start=1):
            assert stream.reaches(number) == pytest.approx(instant, rel=1e-5)
        assert stream.reaches(len(instants) + 1) == float("inf")


@given(COUNTS, st.floats(0, 20), st.floats(0, 20))
def test_times_are_those_between_two_instants(counts: list[int], one: float, other: float) -> None:
    low, high = sorted((one, other))
    instants = np.repeat(np.arange(1.0, len(counts) + 1), counts)
    expected = instants[(instants > low) & (instants <= high)]
    for stream in streams(counts):
        assert stream.times(low, high)[0] == pytest.approx(expected)


@given(COUNTS, st.floats(0.1, 30.0))
def test_a_rate_curve_and_its_instants_agree(counts: list[int], step_s: float) -> None:
    stream = Counted(counts, step_s, start_s=7.0)
    times, _ = stream.times(0.0, stream.end_s)
    assert len(times) == sum(counts)
    assert (np.diff(times) >= 0).all()
    for number, instant in enumerate(times, start=1):
        assert stream.before(instant + 1e-6) >= number - 1e-3
        assert stream.reaches(number) == pytest.approx(instant, abs=1e-6)
    assert stream.before(stream.end_s) == pytest.approx(sum(counts))
    assert stream.before(stream.end_s + 100) == sum(counts)
    assert stream.reaches(sum(counts) + 1) == float("inf")


@settings(max_examples=20)
@given(COUNTS, st.lists(st.floats(0, 20), min_size=1, max_size=6))
def test_times_taken_piece_by_piece_lose_and_double_nothing(counts: list[int], cuts: list[float]) -> None:
    stream = Counted(counts)
    edges = sorted({0.0, *cuts, 25.0})
    pieces = [stream.times(a, b)[0] for a, b in pairwise(edges)]
    assert np.concatenate(pieces) == pytest.approx(stream.times(0.0, 25.0)[0])


def test_a_trace_arrives_as_a_replay_sends_it() -> None:
    rides = make(MakeOptions(days=0.1, rides_per_day=5000))
    pace = Pace(speed=10.0, copies=3)
    stream = Counted.of_rides(rides, pace)
    due = pace.due_s(rides.pickup_s())
    assert stream.total == 3 * len(rides)
    for at_s in (10.0, 100.0, 500.0):
        assert stream.before(at_s) == np.count_nonzero(due < at_s)


def test_processes_follow_one_another_with_their_own_rates() -> None:
    stream = Timed.of_maps([(MAP.poisson(100.0), 200.0), (MAP.poisson(10.0), 200.0)], seed=3, start_s=50.0)
    assert stream.before(250.0) == pytest.approx(20_000, rel=0.05)
    assert stream.total - stream.before(250.0) == pytest.approx(2_000, rel=0.1)
    assert stream.at[0] > 50.0
    assert stream.end_s <= 450.0


def test_counts_drawn_with_a_seed_are_repeated_by_it() -> None:
    rates = np.full(500, 30.0)
    assert Counted.poisson(rates, seed=4).total == Counted.poisson(rates, seed=4).total
    assert Counted.poisson(rates, seed=4).total != Counted.poisson(rates, seed=5).total
    assert Counted.poisson(rates, seed=4).total == pytest.approx(15_000, rel=0.03)


@pytest.mark.parametrize("bad", [[-1.0], [float("nan")], [], [[1.0]]])
def test_counts_that_are_none_are_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="counts"):
        Counted(bad)


def test_arrivals_that_go_back_are_refused() -> None:
    with pytest.raises(ValueError, match="go back"):
        Timed([1.0, 0.5])
