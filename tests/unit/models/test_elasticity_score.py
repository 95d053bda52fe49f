"""Elasticity scores: worked out by hand, and against summing second by second."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fogmodels.elasticity import ideal_supply, score
from fogmodels.throughput import Sample, fit
from hypothesis import given, settings
from hypothesis import strategies as st


def test_one_late_and_too_large_step_by_hand():
    # demand 2 until 40 s, then 4; supply 2 until 60 s, then 5; period 100 s.
    found = score([0, 60, 100], [2, 5, 5], [2, 4, 4], demand_times_s=[0, 40, 100])
    assert found.accuracy_u == pytest.approx(2 * 20 / 100)
    assert found.accuracy_o == pytest.approx(1 * 40 / 100)
    assert found.timeshare_u == pytest.approx(0.2)
    assert found.timeshare_o == pytest.approx(0.4)
    assert found.reconfigurations == 1
    assert found.cost == pytest.approx((2 * 60 + 5 * 40) / 60)
    assert found.excess_time is None


def test_a_perfect_scaler_scores_zero():
    found = score([0, 10, 35, 60], [1, 3, 2, 2], [1, 3, 2, 2], finished_s=60)
    assert (found.accuracy_u, found.accuracy_o, found.timeshare_u, found.timeshare_o) == (0, 0, 0, 0)
    assert (found.excess_time, found.reconfigurations) == (0.0, 2)
    assert found.cost == pytest.approx((10 + 75 + 50) / 60)


def test_excess_time_and_the_cost_of_draining_by_hand():
    # 10 minutes with 3 replicas, done 30 s late: 31.5 replica-minutes, excess 30/600.
    found = score([0, 600], [3, 3], [3, 3], finished_s=630, price_per_replica_minute=2.0)
    assert found.excess_time == pytest.approx(0.05)
    assert found.cost == pytest.approx(2.0 * 31.5)
    assert score([0, 600], [3, 3], [3, 3], finished_s=630, ideal_finished_s=610).excess_time == pytest.approx(
        20 / 600
    )


def test_the_period_starts_where_both_are_known_and_ends_where_asked():
    found = score([0, 50], [1, 2], [5, 1], demand_times_s=[10, 30], end_s=110)
    # from 10 s: short of 4 until 30 s; equal until 50 s; one too many until 110 s.
    assert found.accuracy_u == pytest.approx(80 / 100)
    assert found.accuracy_o == pytest.approx(60 / 100)
    assert (found.timeshare_u, found.timeshare_o) == (pytest.approx(0.2), pytest.approx(0.6))


def test_of_several_values_at_one_time_the_last_counts():
    found = score([0, 10, 10, 20], [1, 7, 1, 1], [1, 1, 1, 1])
    assert (found.accuracy_o, found.reconfigurations) == (0.0, 0)


def test_moves_that_keep_the_count_are_counted_if_told():
    assert score([0, 10], [2, 2], [2, 2], reconfigurations=4).reconfigurations == 4


@st.composite
def step_functions(draw):
    times = sorted(draw(st.sets(st.integers(0, 200), min_size=1, max_size=10)) | {0})
    values = draw(st.lists(st.integers(0, 9), min_size=len(times), max_size=len(times)))
    return [float(t) for t in times], [float(v) for v in values]


@settings(max_examples=150, deadline=None)
@given(step_functions(), step_functions(), st.integers(1, 250), st.floats(0.01, 100))
def test_scores_are_sums_over_every_second(have, want, length, unit):
    seconds = range(length)

    def value(steps, second):
        return [v for t, v in zip(*steps, strict=True) if t <= second][-1]

    gaps = [value(want, s) - value(have, s) for s in seconds]
    found = score(
        [t * unit for t in have[0]],
        have[1],
        want[1],
        demand_times_s=[t * unit for t in want[0]],
        end_s=length * unit,
    )
    assert found.accuracy_u == pytest.approx(sum(max(g, 0) for g in gaps) / length)
    assert found.accuracy_o == pytest.approx(sum(max(-g, 0) for g in gaps) / length)
    assert found.timeshare_u == pytest.approx(sum(g > 0 for g in gaps) / length)
    assert found.timeshare_o == pytest.approx(sum(g < 0 for g in gaps) / length)
    assert found.cost == pytest.approx(sum(value(have, s) for s in seconds) * unit / 60)
    changes = sum(value(have, s) != value(have, s - 1) for s in range(1, length + 1))
    assert found.reconfigurations == changes


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=8), st.lists(st.floats(0, 120), min_size=1, max_size=8)
)
def test_ideal_supply_is_the_least_number_that_sustains(mst, rates):
    expected = [
        min((n for n, m in enumerate(mst, 1) if m >= rate), default=mst.index(max(mst)) + 1) for rate in rates
    ]
    assert ideal_supply(rates, mst).tolist() == expected


def test_ideal_supply_passes_over_a_far_node_and_agrees_with_the_model():
    assert ideal_supply([0, 150, 250, 999], [100, 200, 120, 300]).tolist() == [1, 2, 4, 4]
    assert ideal_supply([0, 50], [100, 200, 300], at_least=2).tolist() == [2, 2]
    model = fit([Sample(1, 0.0, 100.0), Sample(2, 100.0, 150.0)], "gesscale")
    rtts = [0.0, 10.0, 40.0, 200.0]
    mst = [model.mst(n, rtts[n - 1]) for n in range(1, 5)]
    for rate in (50.0, 150.0, 260.0):
        assert ideal_supply([rate], mst)[0] == model.replicas_for(rate, rtts)


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (([], [], []), {}),
        (([0, 1], [1], [1, 1]), {}),
        (([0, 1], [1, 1], [1]), {}),
        (([0, 1], [1, -1], [1, 1]), {}),
        (([0, 1], [1, 1], [1, math.nan]), {}),
        (([0, math.inf], [1, 1], [1, 1]), {}),
        (([1, 0], [1, 1], [1, 1]), {}),
        (([0], [1], [1]), {}),
        (([[0, 1]], [[1, 1]], [[1, 1]]), {}),
        ((["a", 1], [1, 1], [1, 1]), {}),
        (([0, 1], [1, 1], [1, 1]), {"end_s": -5}),
        (([0, 1], [1, 1], [1, 1]), {"end_s": math.nan}),
        (([0, 1], [1, 1], [1, 1]), {"finished_s": math.inf}),
        (([0, 1], [1, 1], [1, 1]), {"ideal_finished_s": 1.0}),
        (([0, 1], [1, 1], [1, 1]), {"reconfigurations": -1}),
        (([0, 1], [1, 1], [1, 1]), {"price_per_replica_minute": -1.0}),
        (([0, 1], [1, 1], [1, 1]), {"demand_times_s": [0]}),
    ],
)
def test_bad_series_are_one_sentence(args, options):
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        score(*args, **options)


@pytest.mark.parametrize("call", [([], [1]), ([1], []), ([math.nan], [1]), ([-1], [1])])
def test_bad_ideal_curves_are_one_sentence(call):
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        ideal_supply(*call)
    with pytest.raises(ValueError, match="at_least"):
        ideal_supply([1], np.ones(3), at_least=4)
