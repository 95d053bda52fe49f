"""Lag trend on synthetic lag whose truth is known: how often it cries wolf, how often it sleeps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fogmodels.scalability import lag_trend, lag_trend_ratio
from scipy.stats import linregress


def micro_batches(rng, *, rate, capacity, trigger_s, length_s, every_s=1.0, jitter=0.1):
    """Lag of an engine that takes, each trigger, all that is there up to its capacity; after a warm-up."""
    horizon = length_s + 4 * trigger_s
    fine = np.arange(0.0, horizon + every_s, min(every_s, trigger_s / 20))
    arrived = np.cumsum(rng.poisson(rate * np.diff(fine, prepend=0.0)))
    t, done = rng.uniform(0, trigger_s), 0.0
    ends, totals = [0.0], [0.0]
    while t < horizon:
        done += min(np.interp(t, fine, arrived) - done, capacity * trigger_s)
        t += trigger_s * math.exp(jitter * rng.normal())
        ends.append(t)
        totals.append(done)
    times = 3 * trigger_s + np.arange(0.0, length_s, every_s)
    times = np.sort(times + rng.uniform(0, 0.8 * every_s, len(times)))
    processed = np.array(totals)[np.searchsorted(ends, times, side="right") - 1]
    return times, np.maximum(0.0, np.interp(times, fine, arrived) - processed)


def correlated(rng, *, length_s, memory_s, slope=0.0):
    times = np.arange(0.0, length_s)
    keep = math.exp(-1.0 / memory_s)
    noise = [rng.normal()]
    for _ in times[1:]:
        noise.append(keep * noise[-1] + math.sqrt(1 - keep**2) * rng.normal())
    return times, np.maximum(0.0, 1000.0 + 100.0 * np.array(noise) + slope * times)


def rates(make, runs=120):
    """(share of runs called rising, share called falling)."""
    verdicts = [lag_trend(*make(np.random.default_rng(i))).verdict for i in range(runs)]
    return verdicts.count("rising") / runs, verdicts.count("falling") / runs


@pytest.mark.parametrize(("trigger_s", "length_s"), [(5, 120), (5, 300), (15, 240), (30, 240), (60, 300)])
def test_a_saw_tooth_that_keeps_up_is_not_a_trend(trigger_s, length_s):
    rising, falling = rates(
        lambda rng: micro_batches(rng, rate=100, capacity=150, trigger_s=trigger_s, length_s=length_s)
    )
    assert rising <= 0.06
    assert falling <= 0.06


def test_regression_over_samples_would_be_fooled_by_that_saw_tooth():
    wrong = 0
    for i in range(100):
        found = linregress(
            *micro_batches(np.random.default_rng(i), rate=100, capacity=150, trigger_s=30, length_s=240)
        )
        wrong += found.pvalue < 0.05
    assert wrong > 25


@pytest.mark.parametrize("memory_s", [0.1, 5.0, 20.0])
def test_correlated_noise_gives_no_false_confidence(memory_s):
    rising, falling = rates(lambda rng: correlated(rng, length_s=300, memory_s=memory_s))
    assert rising + falling <= 0.14


@pytest.mark.parametrize(("over", "trigger_s", "length_s"), [(1.05, 5, 300), (1.1, 15, 240), (1.2, 30, 240)])
def test_overload_is_seen(over, trigger_s, length_s):
    rising, _ = rates(
        lambda rng: micro_batches(rng, rate=100 * over, capacity=100, trigger_s=trigger_s, length_s=length_s)
    )
    assert rising >= 0.9


def test_interval_holds_the_true_slope():
    inside = []
    for i in range(150):
        found = lag_trend(*correlated(np.random.default_rng(i), length_s=300, memory_s=5.0, slope=2.0))
        inside.append(found.low <= 2.0 <= found.high)
    assert np.mean(inside) >= 0.9


def test_a_line_is_its_own_slope():
    found = lag_trend([0, 1, 2, 5, 9, 14, 20], [10 + 3 * t for t in (0, 1, 2, 5, 9, 14, 20)])
    assert found.slope_per_s == pytest.approx(3.0)
    assert found.verdict == "rising"
    assert found.p_value < 1e-6
    falling = lag_trend(range(50), [500 - 2 * t for t in range(50)])
    assert (falling.verdict, falling.slope_per_s) == ("falling", pytest.approx(-2.0))


@pytest.mark.parametrize("level", [0.0, 7.0, 1e9])
def test_a_level_lag_is_steady(level):
    found = lag_trend(range(30), [level] * 30)
    assert (found.slope_per_s, found.p_value, found.verdict) == (0.0, 1.0, "steady")


def test_a_single_tooth_is_no_trend_if_the_cycle_is_known():
    times, lags = list(range(20)), [100.0 * t for t in range(20)]
    assert lag_trend(times, lags).verdict == "rising"
    assert lag_trend(times, lags, cycle_s=30.0).verdict == "steady"
    assert lag_trend(times, lags, cycle_s=2.0).verdict == "rising"


def test_tolerance_and_warm_up():
    times = np.arange(200.0)
    lags = np.where(times < 60, 5000 - 80 * times, 200.0) + 0.1 * times
    assert lag_trend(times, lags).slope_per_s < -5
    after = lag_trend(times, lags, warmup_s=60.0)
    assert (after.verdict, after.samples) == ("rising", 140)
    assert lag_trend(times, lags, warmup_s=60.0, tolerance_per_s=0.2).verdict == "steady"


def test_ratio_objective_is_the_thesis_rule_after_the_warm_up():
    times = np.arange(0.0, 300.0, 2.0)
    lags = np.where(times < 60, 100 * times, 6000 + 4 * (times - 60))
    loose, tight = (lag_trend_ratio(times, lags, 100.0, ratio=r) for r in (0.05, 0.03))
    assert loose.met
    assert loose.threshold_per_s == pytest.approx(5.0)
    assert not tight.met
    assert loose.certain
    assert tight.certain


def test_ratio_objective_admits_when_it_cannot_tell():
    rng = np.random.default_rng(1)
    times = np.arange(60.0)
    found = lag_trend_ratio(times, 1000 + 5 * times + rng.normal(0, 200, 60), 100.0, ratio=0.05, warmup_s=0)
    assert not found.certain


@pytest.mark.parametrize(
    ("times", "lags", "options"),
    [
        ([], [], {}),
        ([0, 1], [1, 2], {}),
        ([0, 1, 2], [1, 2], {}),
        ([0, 0, 0, 0], [1, 2, 3, 4], {}),
        ([0, 2, 1], [1, 2, 3], {}),
        ([0, 1, math.nan], [1, 2, 3], {}),
        ([0, 1, 2], [1, math.inf, 3], {}),
        ([0, 1, 2], [1, -2, 3], {}),
        ([[0, 1, 2]], [[1, 2, 3]], {}),
        (["a", 1, 2], [1, 2, 3], {}),
        ([0, 1, 2], [1, 2, 3], {"confidence": 1.0}),
        ([0, 1, 2], [1, 2, 3], {"confidence": math.nan}),
        ([0, 1, 2], [1, 2, 3], {"warmup_s": -1}),
        ([0, 1, 2], [1, 2, 3], {"warmup_s": 2}),
        ([0, 1, 2], [1, 2, 3], {"tolerance_per_s": math.nan}),
        ([0, 1, 2], [1, 2, 3], {"cycle_s": -1.0}),
    ],
)
def test_bad_series_are_one_sentence(times, lags, options):
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        lag_trend(times, lags, **options)


@pytest.mark.parametrize("load", [0.0, -1.0, math.nan])
def test_a_ratio_needs_a_load(load):
    with pytest.raises(ValueError, match="load_per_s"):
        lag_trend_ratio([0, 1, 2], [1, 2, 3], load, warmup_s=0)
