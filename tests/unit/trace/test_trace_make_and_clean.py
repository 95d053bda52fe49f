from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fogctl.trace import MakeOptions, Rides, clean, make
from fogctl.trace.describe import describe, per_minute
from fogctl.trace.make import HOURLY_SHAPE

SMALL = MakeOptions(days=0.25, rides_per_day=20_000)


def test_the_same_seed_makes_the_same_rides_and_another_seed_does_not() -> None:
    assert make(SMALL).table.equals(make(SMALL).table)
    other = MakeOptions(seed=2, days=0.25, rides_per_day=20_000)
    assert not make(other).table.equals(make(SMALL).table)


def test_rides_follow_the_daily_shape() -> None:
    rides = make(MakeOptions(days=2, rides_per_day=100_000))
    hourly = np.bincount((rides.pickup_s() // 3600).astype(int), minlength=48).reshape(2, 24).mean(axis=0)
    shape = hourly / hourly.mean()
    # Interpolation between hours rounds the corners off; the shape must still be the city's.
    assert np.corrcoef(shape, HOURLY_SHAPE)[0, 1] > 0.99
    assert np.abs(shape - np.array(HOURLY_SHAPE)).max() < 0.12
    assert len(rides) == pytest.approx(200_000, rel=0.01)


def test_a_trace_that_starts_in_the_morning_has_the_morning_rates() -> None:
    morning = make(MakeOptions(days=1 / 24, rides_per_day=240_000, start="2013-05-01T08:00:00"))
    night = make(MakeOptions(days=1 / 24, rides_per_day=240_000, start="2013-05-01T03:00:00"))
    assert len(morning) > 4 * len(night)


def test_clean_rides_need_no_cleaning() -> None:
    cleaned = clean(make(SMALL))
    assert set(cleaned.removed.values()) == {0}
    assert cleaned.moved == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.0, 0.6))
def test_cleaning_finds_exactly_the_dirt_that_was_put_in(seed: int, dirt: float) -> None:
    options = MakeOptions(seed=seed, days=0.05, rides_per_day=20_000)
    pure = make(options)
    spoiled = make(MakeOptions(seed=seed, days=0.05, rides_per_day=20_000, dirt=dirt))
    cleaned = clean(spoiled)
    spoilt = round(dirt * len(pure))
    faulty = sum(count for reason, count in cleaned.removed.items() if reason != "duplicate")
    duplicates = cleaned.removed["duplicate"]
    assert len(spoiled) == len(pure) + duplicates
    assert len(cleaned.rides) == len(pure) - faulty
    # Six kinds of dirt, split evenly; rides out of order are kept, so four kinds remove an original ride.
    assert abs(faulty - spoilt * 4 / 6) <= 4
    assert abs(duplicates - spoilt / 6) <= 1
    assert cleaned.moved <= spoilt / 6 + 100
    ids = cleaned.rides.table["ride_id"].to_pylist()
    assert ids == sorted(ids)


def test_description_matches_counts_by_hand() -> None:
    rides = make(SMALL)
    seen = describe(rides)
    times = rides.pickup_s()
    assert seen.rides == len(times)
    assert seen.peak_rate_per_s == max(per_minute(times)) / 60
    assert seen.longest_gap_s == pytest.approx(max(b - a for a, b in itertools.pairwise(times)))
    assert seen.mean_rate_per_s == pytest.approx(len(times) / times[-1])


def test_description_refuses_rides_out_of_order() -> None:
    rides = make(SMALL)
    backwards = Rides(rides.table.take(list(range(len(rides)))[::-1]))
    with pytest.raises(ValueError, match="in order of time"):
        describe(backwards)


@pytest.mark.parametrize(
    "wrong",
    [{"days": 0}, {"days": float("nan")}, {"rides_per_day": -1}, {"dirt": 1.5}, {"dirt": float("nan")}],
)
def test_impossible_options_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be|share"):
        MakeOptions(**wrong)  # type: ignore[arg-type]
