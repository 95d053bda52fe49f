"""The Capacity Estimator on an engine whose true capacity is known."""

from __future__ import annotations

import statistics

import pytest

from fogctl.errors import FogError
from fogctl.planner.estimator import Phases, RateSeen, estimate
from fogctl.planner.measure import StageSeen, Window, verdict
from fogctl.planner.simulated import SimulatedStage

STAGE = StageSeen("work", 900.0, 0.9)


@pytest.mark.parametrize("freshness_s", [2.0, 5.0])
@pytest.mark.parametrize("capacity", [50.0, 1000.0, 40_000.0])
def test_the_maximum_is_found_to_the_sensitivity(capacity: float, freshness_s: float) -> None:
    for seed in range(3):
        engine = SimulatedStage(capacity, freshness_s=freshness_s, seed=seed)
        found = estimate(engine, 3 * engine.mst)
        assert found.mst == pytest.approx(engine.mst, rel=0.09)
        assert found.error is not None
        assert found.error < 0.15


def test_a_rerun_is_within_a_few_percent() -> None:
    found = [estimate(SimulatedStage(1000.0, seed=seed), 2500.0).mst for seed in range(5)]
    assert (max(found) - min(found)) / statistics.median(found) < 0.12


def test_a_first_rate_that_is_far_too_low_is_grown_out_of() -> None:
    engine = SimulatedStage(1000.0)
    found = estimate(engine, 200.0)
    assert found.mst == pytest.approx(engine.mst, rel=0.12)
    rates = [trial.rate_per_s for trial in found.trials]
    assert rates[:3] == sorted(rates[:3])


def test_what_was_measured_before_an_interruption_is_not_measured_again() -> None:
    seen: list[RateSeen] = []
    whole = estimate(SimulatedStage(1000.0), 2500.0, on_trial=seen.append)
    assert list(whole.trials) == seen
    resumed: list[RateSeen] = []
    again = estimate(SimulatedStage(1000.0), 2500.0, known=seen[:3], on_trial=resumed.append)
    assert again.trials[:3] == whole.trials[:3]
    assert len(resumed) == len(again.trials) - 3
    assert again.mst == pytest.approx(whole.mst, rel=0.1)
    done = estimate(SimulatedStage(1000.0), 2500.0, known=seen, on_trial=resumed.append)
    assert (done.mst, done.trials) == (whole.mst, whole.trials)


def test_rates_and_busyness_are_those_of_the_highest_rate_sustained() -> None:
    engine = SimulatedStage(1000.0, stages=(STAGE,))
    (stage,) = estimate(engine, 2500.0).stages
    assert stage.true_rate_per_s == pytest.approx(1000.0)
    assert 0.7 < stage.busyness <= 0.9


def test_an_injector_that_is_too_slow_is_told_and_nothing_is_concluded() -> None:
    known = [RateSeen(rate, rate, True, "", 0.0) for rate in (500.0, 750.0)]
    with pytest.raises(FogError, match="the injector managed only 600 of 1,") as caught:
        estimate(SimulatedStage(5000.0, injector_most_per_s=600.0), 2500.0, known=known)
    assert caught.value.exit_code == 3


def test_a_deployment_that_does_nothing_is_told() -> None:
    with pytest.raises(FogError, match="nothing was processed in 180 s") as caught:
        estimate(SimulatedStage(100.0, freshness_s=0.5), 100.0)
    assert caught.value.exit_code == 3


def test_a_backlog_that_does_not_go_is_told() -> None:
    with pytest.raises(FogError, match=r"a backlog of .* is not gone after 50 s"):
        estimate(SimulatedStage(100.0), 10_000.0, Phases(patience=5))


@pytest.mark.parametrize("name", ["warm_up_s", "observe_s", "sensitivity", "most_trials", "patience"])
def test_phases_that_make_no_sense_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Phases(**{name: 0})


def window(lags: list[float], processed: float, cycle_s: float = 5.0) -> Window:
    return Window(tuple(map(float, range(len(lags)))), tuple(lags), 1000.0, processed, cycle_s)


SAW = [1000.0 * (1 + second % 5) for second in range(120)]


@pytest.mark.parametrize(
    ("lags", "processed", "sustained", "words"),
    [
        (SAW, 1000.0, True, "no trend"),
        (SAW, 995.0, True, "no trend"),
        (SAW, 900.0, False, "only 90.0% of the rate"),
        ([lag + 100 * t for t, lag in enumerate(SAW)], 900.0, False, "grew by 10"),
        # Buffers that fill are told by the trend, whatever the source achieves.
        ([lag + 100 * t for t, lag in enumerate(SAW)], 1000.0, False, "grew by 10"),
        ([lag + 5 * t for t, lag in enumerate(SAW)], 995.0, True, "no trend"),
        ([lag + 20_000 - 100 * t for t, lag in enumerate(SAW)], 1100.0, True, "fell by"),
        (SAW[:5], 1000.0, False, "only 5 looks"),
    ],
)  # fmt: skip
def test_a_rate_is_sustained_without_upward_trend_and_if_it_is_processed(
    lags: list[float], processed: float, sustained: bool, words: str
) -> None:
    found = verdict(window(lags, processed), 1000.0)
    assert (found.sustained, words in found.reason) == (sustained, True), found.reason
