"""Gesscale's form: the paper's equations 1 to 3 by hand, and the choice between the forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fogmodels.throughput import Sample, fit
from hypothesis import given, settings
from hypothesis import strategies as st


def test_one_sample_fits_alpha_alone():
    model = fit([Sample(4, 100.0, 1000.0)], "gesscale")
    assert model.parameters["alpha"] == pytest.approx(250.0)
    assert model.parameters["beta"] == 1.0
    assert model.parameters["gamma"] == 0.0
    assert model.mst(6, 300.0) == pytest.approx(1500.0)


def test_two_samples_fit_alpha_and_gamma_exactly():
    # 300 * 1 - 0.5 * 20 = 290; 300 * 3 - 0.5 * 200 = 800
    model = fit([Sample(1, 20.0, 290.0), Sample(3, 200.0, 800.0)], "gesscale")
    assert model.parameters["alpha"] == pytest.approx(300.0)
    assert model.parameters["gamma"] == pytest.approx(0.5)
    assert model.parameters["beta"] == 1.0


def test_two_samples_that_would_make_delay_a_help_fall_back_to_alpha():
    model = fit([Sample(1, 100.0, 150.0), Sample(2, 0.0, 200.0)], "gesscale")
    assert model.parameters["gamma"] == 0.0
    assert 100.0 < model.parameters["alpha"] < 150.0


def test_repeats_of_one_configuration_count_as_one_configuration():
    model = fit([Sample(2, 50.0, v) for v in (190.0, 200.0, 210.0)], "gesscale")
    assert model.parameters["gamma"] == 0.0
    assert model.parameters["alpha"] == pytest.approx(100.0, rel=0.01)


@settings(max_examples=60, deadline=None)
@given(st.floats(1.0, 1e6), st.floats(0.4, 1.2), st.floats(0.0, 0.2))
def test_three_samples_give_back_the_three_parameters(alpha, beta, slowing):
    gamma = slowing * alpha / 100.0
    points = [(1, 0.0), (4, 0.0), (2, 100.0)]
    model = fit([Sample(n, d, alpha * n**beta - gamma * d) for n, d in points], "gesscale")
    assert model.parameters["alpha"] == pytest.approx(alpha, rel=1e-4)
    assert model.parameters["beta"] == pytest.approx(beta, abs=1e-4)
    assert model.parameters["gamma"] == pytest.approx(gamma, rel=1e-3, abs=1e-6 * alpha)


def test_within_the_papers_two_percent_from_noisy_samples():
    rng = np.random.default_rng(2)
    errors = []
    for _ in range(20):
        points = [(n, float(d)) for n in range(1, 9) for d in (0, 50, 150)]
        mst = {p: 5000.0 * p[0] ** 0.85 - 8.0 * p[1] for p in points}
        seen = [p for i, p in enumerate(points) if i % 2]
        model = fit(
            [Sample(n, d, mst[n, d] * float(np.exp(rng.normal(0, 0.02)))) for n, d in seen], "gesscale"
        )
        errors.append(np.mean([abs(model.mst(n, d) / mst[n, d] - 1) for n, d in points]))
    assert np.mean(errors) < 0.02


def test_outliers_do_not_move_it():
    points = [(n, float(d)) for n in (1, 2, 4, 6) for d in (0, 50, 150)]
    truth = [900.0 * n**0.9 - 1.5 * d for n, d in points]
    bad = [t * (4.0 if i in (2, 9) else 1.0) for i, t in enumerate(truth)]
    model = fit([Sample(n, d, t) for (n, d), t in zip(points, bad, strict=True)], "gesscale")
    assert np.mean([abs(model.mst(n, d) / t - 1) for (n, d), t in zip(points, truth, strict=True)]) < 0.02


def test_adding_samples_walks_through_the_papers_variants():
    model = fit([Sample(1, 0.0, 100.0)], "gesscale").add(Sample(2, 100.0, 150.0))
    assert model.parameters["gamma"] == pytest.approx(0.5)
    model = model.add(Sample(4, 0.0, 4**0.8 * 100.0)).add(Sample(2, 0.0, 2**0.8 * 100.0))
    model = model.add(Sample(3, 0.0, 3**0.8 * 100.0)).add(Sample(1, 0.0, 100.0))
    assert model.parameters["beta"] == pytest.approx(0.8, abs=0.01)


def test_interval_is_wide_where_defaults_stand_in_for_samples():
    one = fit([Sample(1, 0.0, 100.0)], "gesscale")
    low, high = one.interval(4, 300.0)
    assert low < 0.6 * one.mst(4, 300.0)
    assert high > 1.2 * one.mst(4, 300.0)


def test_auto_takes_the_form_that_the_samples_follow():
    points = [(n, d, rows) for n in (1, 2, 4) for d in (0.0, 100.0, 300.0) for rows in (200.0, 1000.0)]
    flink = [Sample(n, d, 1000.0 * n**0.9 - 1.5 * d, rows, 8) for n, d, rows in points]
    assert fit(flink).form == "gesscale"

    def spark(n, d, rows):
        m = math.ceil(8 / n)
        return rows / (0.1 * m + rows / (120.0 * n) + (4 + 2 * m) * d / 1e3)

    assert fit([Sample(n, d, spark(n, d, rows), rows, 8) for n, d, rows in points]).form == "batch"


def test_auto_without_batch_sizes_is_gesscale():
    assert fit([Sample(1, 0.0, 10.0), Sample(2, 0.0, 20.0, 100)]).form == "gesscale"


def test_leave_one_out_is_the_error_of_a_fit_without_the_sample():
    samples = [
        Sample(n, d, 900.0 * n**0.9 - 1.5 * d + 7 * n * d / 100)
        for n in (1, 2, 4)
        for d in (0.0, 60.0, 150.0)
    ]
    errors = fit(samples, "gesscale").leave_one_out()
    for i, s in enumerate(samples):
        rest = fit(samples[:i] + samples[i + 1 :], "gesscale")
        assert errors[i] == pytest.approx(
            abs(rest.mst(s.replicas, s.rtt_max_ms) / s.mst - 1), rel=1e-3, abs=1e-5
        )
    assert fit(samples[:1]).leave_one_out() == ()


def test_batch_questions_to_the_papers_form_are_refused():
    model = fit([Sample(1, 0.0, 100.0)], "gesscale")
    with pytest.raises(ValueError, match="batch form"):
        model.batch_seconds(1, 0.0)
