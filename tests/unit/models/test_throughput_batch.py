"""The batch-time form: found again in synthetic samples, through noise and outliers, from few samples."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from fogmodels.throughput import Sample, fit
from hypothesis import given, settings
from hypothesis import strategies as st


class Stage:
    """A synthetic stage that follows the formula, written out again here as the judge."""

    def __init__(self, tau=0.3, mu=400.0, beta=0.9, k0=6.0, k1=1.0, theta=1.0, sigma=1.0):
        self.p = (tau, mu, beta, k0, k1, theta, sigma)

    def mst(self, n, rtt_ms, rows, partitions=8, share=1.0):
        tau, mu, beta, k0, k1, theta, sigma = self.p
        m = math.ceil(partitions / n)
        trips = (k0 + k1 * m) * 0.1 * (rtt_ms / 100.0) ** theta
        return rows / (tau * m + rows / (mu * share**sigma * n**beta) + trips)

    def sample(self, n, rtt_ms, rows, partitions=8, share=1.0, factor=1.0):
        return Sample(
            n, rtt_ms, self.mst(n, rtt_ms, rows, partitions, share) * factor, rows, partitions, share=share
        )


GRID = [(n, rtt, rows) for n in (1, 2, 4) for rtt in (0.0, 50.0, 150.0, 300.0) for rows in (300.0, 1500.0)]
UNSEEN = [(n, rtt, rows) for n in (3, 6, 8) for rtt in (20.0, 100.0, 250.0) for rows in (600.0, 3000.0)]


def mean_error(model, stage, points):
    return float(
        np.mean([abs(model.mst(n, d, rows, 8) / stage.mst(n, d, rows) - 1) for n, d, rows in points])
    )


@pytest.mark.parametrize(
    "stage",
    [
        Stage(),
        Stage(tau=0.05, mu=2e5, beta=0.75, k0=1.0, k1=4.0),
        Stage(theta=1.35, mu=3.0, tau=2.0),
        Stage(k0=0.01, k1=0.01, beta=1.0),
    ],
)
def test_exact_samples_predict_unseen_replicas_distances_and_batches(stage):
    model = fit([stage.sample(*g) for g in GRID], "batch")
    assert mean_error(model, stage, UNSEEN) < 0.02


def test_parameters_come_out_in_their_units():
    model = fit([Stage(theta=1.2).sample(*g) for g in GRID * 3], "batch")
    expected = {"tau": 0.3, "mu": 400.0, "beta": 0.9, "k0": 6.0, "k1": 1.0, "theta": 1.2}
    for name, value in expected.items():
        assert model.parameters[name] == pytest.approx(value, rel=0.05), name
    assert all(model.informed[name] for name in expected)
    assert not model.informed["sigma"]


def test_a_fifth_of_gross_outliers_does_not_move_the_model():
    rng = np.random.default_rng(3)
    stage = Stage()
    errors = []
    for _ in range(10):
        factors = np.exp(rng.normal(0.0, 0.03, len(GRID)))
        wild = rng.choice(len(GRID), len(GRID) // 5, replace=False)
        factors[wild] *= rng.choice([0.2, 0.4, 3.0], len(wild))
        model = fit([stage.sample(*g, factor=f) for g, f in zip(GRID, factors, strict=True)], "batch")
        errors.append(mean_error(model, stage, UNSEEN))
    assert np.mean(errors) < 0.08


def test_a_cold_sample_of_low_weight_counts_less():
    stage = Stage()
    good = [stage.sample(1, 0.0, 300.0), stage.sample(4, 0.0, 300.0)]
    cold = stage.sample(2, 0.0, 300.0, factor=0.6)
    light = Sample(cold.replicas, cold.rtt_max_ms, cold.mst, cold.batch_rows, cold.partitions, weight=0.01)
    full, lighter = fit([*good, cold], "batch"), fit([*good, light], "batch")
    truth = stage.mst(2, 0.0, 300.0)
    assert abs(lighter.mst(2, 0.0, 300.0, 8) - truth) < abs(full.mst(2, 0.0, 300.0, 8) - truth)


def test_one_sample_is_met_and_farther_or_fewer_is_less():
    stage = Stage()
    model = fit([stage.sample(2, 50.0, 600.0)], "batch")
    assert model.mst(2, 50.0) == pytest.approx(stage.mst(2, 50.0, 600.0), rel=0.03)
    assert model.mst(1, 50.0) < model.mst(2, 50.0) < model.mst(3, 50.0)
    assert model.mst(2, 300.0) < model.mst(2, 50.0)
    assert not model.informed["k0"]


def test_share_exponent_is_learnt_from_samples_at_several_shares():
    stage = Stage(sigma=0.8)
    points = [(n, rtt, rows, 8, x) for n, rtt, rows in GRID[::2] for x in (0.2, 0.5, 1.0)]
    model = fit([stage.sample(*p) for p in points], "batch")
    assert model.parameters["sigma"] == pytest.approx(0.8, abs=0.02)
    assert model.mst(3, 100.0, 900.0, 8, share=0.35) == pytest.approx(
        stage.mst(3, 100.0, 900.0, 8, 0.35), rel=0.02
    )


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e6])
def test_records_may_be_counted_in_any_unit(unit):
    samples = [Stage().sample(*g) for g in GRID]
    scaled = [
        Sample(s.replicas, s.rtt_max_ms, s.mst * unit, s.batch_rows * unit, s.partitions) for s in samples
    ]
    plain, other = fit(samples, "batch"), fit(scaled, "batch")
    assert other.mst(3, 80.0, 700.0 * unit, 8) == pytest.approx(plain.mst(3, 80.0, 700.0, 8) * unit, rel=1e-3)


def test_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(7)
    stage = Stage(theta=1.1)
    inside = []
    for _ in range(40):
        model = fit([stage.sample(*g, factor=float(np.exp(rng.normal(0, 0.05)))) for g in GRID], "batch")
        for n, rtt, rows in UNSEEN[::3]:
            low, high = model.interval(n, rtt, rows, 8, level=0.9)
            inside.append(low <= stage.mst(n, rtt, rows) <= high)
    assert 0.82 <= np.mean(inside) <= 0.98


def test_interval_of_a_reading_is_wider_and_few_samples_are_doubted():
    stage = Stage()
    few, many = fit([stage.sample(1, 0.0, 300.0)], "batch"), fit([stage.sample(*g) for g in GRID], "batch")
    low, high = many.interval(4, 200.0, 600.0)
    reading_low, reading_high = many.interval(4, 200.0, 600.0, measurement=True)
    assert reading_low < low < high < reading_high
    few_low, few_high = few.interval(4, 200.0, 600.0)
    assert few_high / few_low > 2.0 * high / low
    assert few_low <= stage.mst(4, 200.0, 600.0) <= few_high


def test_samples_added_one_by_one_give_the_model_of_all_at_once():
    rng = np.random.default_rng(5)
    stage = Stage()
    samples = [stage.sample(*g, factor=float(np.exp(rng.normal(0, 0.04)))) for g in GRID]
    grown = fit(samples[:1], "batch")
    for s in samples[1:]:
        grown = grown.add(s)
    whole = fit(samples, "batch")
    assert grown.samples == whole.samples
    for n, rtt, rows in UNSEEN:
        assert grown.mst(n, rtt, rows, 8) == pytest.approx(whole.mst(n, rtt, rows, 8), rel=0.03)


def test_batch_rows_within_a_bound_last_exactly_that_long():
    model = fit([Stage().sample(*g) for g in GRID], "batch")
    rows = model.batch_rows_within(5.0, 3, 100.0, 8)
    assert model.batch_seconds(3, 100.0, rows, 8) == pytest.approx(5.0)
    assert model.batch_rows_within(0.1, 1, 300.0, 8) == 0.0


garbage = st.lists(
    st.builds(
        Sample,
        st.integers(1, 64),
        st.floats(0, 2000),
        st.floats(1e-3, 1e9),
        st.floats(1, 1e7),
        st.one_of(st.none(), st.integers(1, 64)),
        st.floats(0.01, 10),
        st.floats(0.05, 4),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=30, deadline=None)
@given(garbage, st.integers(1, 64), st.lists(st.floats(0, 5000), min_size=2, max_size=4), st.floats(1, 1e6))
@pytest.mark.parametrize("form", ["batch", "gesscale", "auto"])
def test_never_negative_never_more_for_a_farther_set_whatever_was_fitted(form, samples, n, rtts, rows):
    model = fit(samples, form)
    for grown in (model, model.add(samples[0])):
        values = [grown.mst(n, rtt, rows) for rtt in sorted(rtts)]
        assert all(math.isfinite(v) and v >= 0.0 for v in values)
        assert all(b <= a for a, b in pairwise(values))
        low, high = grown.interval(n, rtts[0], rows)
        assert 0.0 <= low <= grown.mst(n, rtts[0], rows) <= high


@settings(max_examples=25, deadline=None)
@given(garbage)
def test_more_replicas_rows_or_share_at_one_distance_never_predict_less(samples):
    model = fit(samples, "batch")
    assert model.mst(3, 40.0, 500.0, 8) >= model.mst(2, 40.0, 500.0, 8) * (1 - 1e-12)
    assert model.mst(2, 40.0, 900.0, 8) >= model.mst(2, 40.0, 500.0, 8) * (1 - 1e-12)
    assert model.mst(2, 40.0, 500.0, 8, 0.9) >= model.mst(2, 40.0, 500.0, 8, 0.4) * (1 - 1e-12)


def whole(n, rtt_ms, rows, partitions, slots, cold=0.0, kappa=0.8):
    """A stage whose tasks are whole, written out again: tau 0.2, mu 90, beta 0.95, k0 3, k1 2."""
    m = math.ceil(partitions / n)
    work = 0.2 * m + rows / (90.0 * (partitions / m) ** 0.95)
    return rows / ((1.0 + kappa * cold) * work + (3.0 + 2.0 * math.ceil(m / slots)) * rtt_ms / 1e3)


def whole_sample(n, rtt_ms, rows, partitions, slots, cold=0.0, kappa=0.8, factor=1.0):
    mst = whole(n, rtt_ms, rows, partitions, slots, cold, kappa) * factor
    return Sample(n, rtt_ms, mst, rows, partitions, slots=slots, cold=cold)


def test_whole_tasks_make_steps_between_which_a_replica_brings_nothing():
    seen = [whole_sample(n, d, rows, 8, 4) for n in (2, 4, 8) for d in (0.0, 80.0) for rows in (100, 900)]
    model = fit(seen, "batch")
    four = model.mst(4, 30.0, 700.0, 8)
    for n in (5, 6, 7):
        assert model.mst(n, 30.0, 700.0, 8) == pytest.approx(four)
        assert model.mst(n, 60.0, 700.0, 8) < four  # and farther away it costs
    assert model.mst(3, 30.0, 700.0, 8) < 0.85 * four
    assert model.mst(8, 30.0, 700.0, 8) > 1.3 * four
    for n in (1, 2, 3, 4, 8):
        assert model.mst(n, 30.0, 700.0, 8) == pytest.approx(whole(n, 30.0, 700.0, 8, 4), rel=0.03)


@settings(max_examples=15, deadline=None)
@given(
    partitions=st.integers(1, 24),
    slots=st.integers(1, 4),
    a=st.integers(1, 30),
    b=st.integers(1, 30),
)
def test_with_whole_tasks_only_those_of_the_busiest_replica_count(partitions, slots, a, b):
    model = fit([whole_sample(2, 20.0, 300.0, partitions, slots)], "batch")
    of_a, of_b = (math.ceil(partitions / n) for n in (a, b))
    rates = [model.mst(n, 20.0, 300.0, partitions) for n in (a, b)]
    if of_a == of_b:
        assert rates[0] == pytest.approx(rates[1])
    else:
        assert (rates[0] < rates[1]) == (of_a > of_b)


@settings(max_examples=15, deadline=None)
@given(
    kappa=st.floats(0.3, 1.5),
    slots=st.integers(1, 4),
    partitions=st.sampled_from([6, 8, 10, 12]),
    seed=st.integers(0, 10**6),
)
def test_what_warm_replicas_do_is_foretold_from_those_that_warm_up(kappa, slots, partitions, seed):
    rng = np.random.default_rng(seed)
    seen = [
        whole_sample(n, 10.0 * n, rows, partitions, slots, cold, kappa, float(np.exp(rng.normal(0, 0.05))))
        for n in (2, 3)
        for rows in (60.0, 250.0, 600.0)
        for cold in (0.9, 0.7, 0.5, 0.4)
    ]
    model = fit(seen, "batch")
    for n, rows in ((2, 500.0), (3, 500.0), (5, 800.0)):
        truth = whole(n, 10.0 * n, rows, partitions, slots)
        assert model.mst(n, 10.0 * n, rows, partitions) == pytest.approx(truth, rel=0.25)


def test_warm_samples_outweigh_what_is_believed_of_cold_ones():
    warm = [whole_sample(n, 10.0, rows, 8, 4) for n in (2, 4) for rows in (100.0, 800.0)]
    cold = [whole_sample(2, 10.0, rows, 8, 4, cold=1.0, kappa=0.0) for rows in (100.0, 400.0, 800.0)]
    model = fit([*warm, *cold], "batch")
    assert model.parameters["kappa"] < 0.1
    assert model.mst(4, 10.0, 600.0, 8) == pytest.approx(whole(4, 10.0, 600.0, 8, 4), rel=0.03)


@pytest.mark.parametrize(
    "bad", [{"slots": 0}, {"slots": 1.5}, {"cold": -0.1}, {"cold": 1.1}, {"cold": math.nan}]
)
def test_impossible_slots_and_coldness_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Sample(2, 0.0, 100.0, 300.0, 8, **bad)
