"""The search for the highest sustainable rate, judged by plants whose truth is known."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from fogmodels.capacity import RateSearch, trials_within
from hypothesis import given, settings
from hypothesis import strategies as st

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[4] / "shared" / "data")) / "streambed"


def run(search: RateSearch, capacity: float) -> RateSearch:
    while search.target is not None:
        search = search.record(min(search.target, capacity))
    return search


@settings(deadline=None)
@given(st.floats(1.0, 1e8), st.floats(0.02, 50.0), st.integers(1, 40))
def test_bounds_always_hold_the_truth_between_them(capacity: float, start: float, trials: int) -> None:
    done = run(RateSearch(start=capacity * start, max_trials=trials), capacity)
    assert done.lower * (1 - done.tolerance) <= capacity
    assert done.upper is None or done.upper > capacity
    assert len(done.trials) == trials


@settings(deadline=None)
@given(st.floats(1.0, 1e8), st.floats(0.02, 50.0))
def test_many_trials_find_the_capacity_within_the_tolerance(capacity: float, start: float) -> None:
    done = run(RateSearch(start=capacity * start, max_trials=40), capacity)
    assert done.mst == pytest.approx(capacity, rel=1e-4)


@settings(deadline=None)
@given(st.floats(1.0, 1e8), st.floats(0.02, 50.0))
def test_sensitivity_ends_the_search_when_the_next_rate_is_near_the_last(
    capacity: float, start: float
) -> None:
    done = run(RateSearch(start=capacity * start, max_trials=100, sensitivity=0.01), capacity)
    assert len(done.trials) < 40
    middle = (done.lower + (done.upper or math.inf)) / 2
    assert abs(middle - done.trials[-1].target) <= 0.01 * done.trials[-1].target


def test_rate_doubles_until_something_fails() -> None:
    search = RateSearch(start=100.0).record(100.0)
    assert search.target == 200.0
    assert search.record(200.0).target == 400.0


def test_the_lag_may_overrule_the_source() -> None:
    search = RateSearch(start=100.0).record(100.0, sustained=False)
    assert search.upper == 100.0
    assert search.target == 50.0
    assert search.mst == 0.0


def test_replay_answers_with_the_next_rate_from_a_history() -> None:
    assert RateSearch(start=1300.0).replay([1000.0, 650.0]).target == 975.0


def test_a_finished_search_takes_no_more() -> None:
    with pytest.raises(ValueError, match="search is over"):
        RateSearch(start=1.0, max_trials=1).record(1.0).record(1.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"start": 0.0},
        {"start": math.nan},
        {"start": 1.0, "max_trials": 0},
        {"start": 1.0, "tolerance": 1.0},
        {"start": 1.0, "growth": 1.0},
        {"start": 1.0, "sensitivity": -1.0},
    ],
)
def test_nonsense_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        RateSearch(**settings)  # type: ignore[arg-type]


def test_trials_are_those_that_start_before_the_run_ends() -> None:
    assert trials_within(600, 120, 75) == 7
    assert trials_within(900, 450, 75) == 6
    with pytest.raises(ValueError, match="longer than"):
        trials_within(100, 100, 75)


@pytest.mark.skipif(not DATA.is_dir(), reason="reference traces of the search are not here")
def test_reference_traces_are_followed_step_by_step() -> None:
    cases = json.loads((DATA / "ce_cases.json").read_text())["synthetic_reference"]
    for case in cases:
        config = case["config"]
        search = RateSearch(
            start=case["warmup_mean"],
            max_trials=trials_within(config["timeout"], config["warmup"], config["slide_window"]),
            tolerance=config["mean_threshold"],
            growth=config["higher_bound_ratio"],
        )
        for step in case["iterations"]:
            assert search.target == step["target"]
            search = search.record(step["achieved"])
            assert search.trials[-1].sustained == step["sustained"]
            assert (search.lower, search.upper) == (step["lower"], step["upper"])
        assert search.target is None
        assert (search.lower, search.mst) == (case["final_target"], case["final_mst"])
