"""Fits of windows: moments, dispersion, scale freedom, hard inputs and the recorded trace."""

import os
from pathlib import Path

import numpy as np
import pytest
from fogmodels.arrivals import MAP, autocorrelation, fit_map, fit_maps, from_timestamps
from fogmodels.arrivals.components import correlated_map2, renewal_base, two_branches
from fogmodels.arrivals.composition import Composition
from fogmodels.arrivals.reference_load import map_load
from fogmodels.arrivals.trace import describe
from fogmodels.queueing import PhaseType, solve

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[4] / "shared" / "data")) / "arrivals"

BURSTY = MAP([[-11, 1.0], [0.01, -0.31]], [[10, 0], [0, 0.3]])


def recorded(name: str) -> np.ndarray:
    file = DATA / name
    if not file.exists():
        pytest.skip(f"test data {file.name} not found; set FOGCTL_TEST_DATA")
    return np.asarray(np.load(file)["iat"])


@pytest.mark.parametrize(("m2", "kappa"), [(1.01, 1.02), (3.0, 1.1), (40.0, 5.0)])
def test_two_branches_have_the_asked_moments(m2: float, kappa: float) -> None:
    p, means = two_branches(m2, kappa)
    assert (p > 0).all()
    assert (means > 0).all()
    assert p.sum() == pytest.approx(1)
    for k, wanted in ((1, 1.0), (2, m2), (3, kappa * m2 * m2)):
        assert p @ means**k == pytest.approx(wanted)


@pytest.mark.parametrize("m2", [0.51, 0.55, 0.62, 0.75, 0.9, 1.0, 1.3])
def test_base_has_the_asked_variability(m2: float) -> None:
    base = MAP(*renewal_base(m2, 1.5, 64))
    assert base.mean == pytest.approx(1)
    assert base.scv == pytest.approx(2 * m2 - 1, rel=1e-6)


def test_composition_has_its_closed_form_dispersion_and_moments() -> None:
    made = Composition(1.2, 1.4, np.array([0.4, 0.1]), np.array([0.9, 0.995]), np.array([1.5, 1.1]))
    process = MAP(*made.matrices())
    blocks = np.array([2.0, 5.0, 40.0])
    assert process.moment(3) == pytest.approx(made.third)
    acf = process.acf(40)
    for k, value in zip(blocks, made.dispersion(process.scv, blocks), strict=True):
        lags = np.arange(1, int(k))
        assert value == pytest.approx(process.scv * (1 + 2 * np.sum((1 - lags / k) * acf[: int(k) - 1])))


def test_correlated_factor_decays_as_stated() -> None:
    factor = MAP(*correlated_map2(0.7, 0.95, 1.2))
    assert factor.scv * factor.acf([1, 10]) == pytest.approx([0.7 * 0.95, 0.7 * 0.95**10])


def test_reference_load_agrees_with_the_exact_queue() -> None:
    process = BURSTY.scaled(1.0)
    loads = np.array([0.3, 0.7, 0.95])
    fast = map_load(process.D0[None], process.D1[None], loads)[0]
    exact = [solve(process, PhaseType.exponential(load)).mean / load for load in loads]
    assert fast == pytest.approx(exact, rel=1e-6)


def test_fit_of_a_known_process_predicts_its_queue() -> None:
    window = BURSTY.sample(50_000, np.random.default_rng(3))
    fitted = fit_map(window)
    assert fitted.mean == pytest.approx(window.mean())
    assert fitted.scv == pytest.approx(window.var() / window.mean() ** 2, rel=0.02)
    for load in (0.3, 0.6, 0.8):
        service = PhaseType.erlang(2, load * BURSTY.mean)
        assert solve(fitted, service).mean == pytest.approx(solve(BURSTY, service).mean, rel=0.25)


def test_fit_is_the_same_in_any_unit_and_every_time() -> None:
    window = BURSTY.sample(2_000, np.random.default_rng(4))
    seconds, again, millis = fit_map(window), fit_map(window), fit_map(window * 1000)
    assert np.array_equal(seconds.D0, again.D0)
    assert np.allclose(seconds.D0, millis.D0 * 1000, rtol=1e-6)
    assert np.allclose(seconds.D1, millis.D1 * 1000, rtol=1e-6, atol=1e-9 * np.abs(seconds.D0).max())


@pytest.mark.parametrize("order", [3, 10, 30])
def test_fit_reaches_variability_below_one_half(order: int) -> None:
    window = np.random.default_rng(1).standard_gamma(order, size=20_000)
    fitted = fit_map(window)
    assert fitted.scv == pytest.approx(window.var() / window.mean() ** 2, rel=0.02)


@pytest.mark.parametrize(
    "window",
    [
        np.ones(200),
        np.floor(np.random.default_rng(0).exponential(size=500) * 2),
        np.where(np.random.default_rng(0).random(1000) < 0.95, 0.0, 1.0),
        np.r_[np.zeros(99), 1.0],
        np.tile(np.r_[np.full(49, 0.1), 20.0], 40),
        np.random.default_rng(0).pareto(1.2, 3000),
        np.exp(np.cumsum(np.random.default_rng(0).normal(0, 0.1, 3000))),
        np.arange(10.0),
    ],
    ids=["constant", "ties", "batches", "one gap", "periodic bursts", "heavy tail", "random walk", "ten"],
)
def test_hard_windows_give_a_valid_process_that_solves(window: np.ndarray) -> None:
    fitted = fit_map(window)
    assert fitted.mean == pytest.approx(window.mean())
    assert np.isfinite(solve(fitted, PhaseType.erlang(2, 0.7 * fitted.mean)).percentile(0.99))


def test_correlation_never_outlasts_the_window() -> None:
    drift = np.exp(np.sin(np.linspace(0, np.pi, 5000))) * np.random.default_rng(0).exponential(size=5000)
    decays = np.abs(np.linalg.eigvals(fit_map(drift).embedded))
    slowest = np.sort(decays)[-2]
    assert -1 / np.log(slowest) <= 0.05 * 5000 + 1


def test_independent_arrivals_need_no_correlated_factor() -> None:
    fitted = fit_map(np.random.default_rng(5).exponential(size=20_000))
    assert fitted.states <= 2
    assert np.allclose(fitted.acf(3), 0, atol=1e-9)


def test_best_fits_are_as_many_as_asked_and_share_mean_and_variability() -> None:
    window = BURSTY.sample(2_000, np.random.default_rng(6))
    fits = fit_maps(window, best=5)
    assert len(fits) == 5
    assert np.array_equal(fits[0].D0, fit_map(window).D0)
    for fitted in fits:
        assert fitted.mean == pytest.approx(window.mean())
    assert len({round(solve(f, PhaseType.erlang(2, 0.8 * f.mean)).mean, 9) for f in fits}) == 5


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ([], "at least"),
        ([1.0] * 5, "at least"),
        ([1.0, np.nan] * 10, "finite"),
        ([1.0, np.inf] * 10, "finite"),
        ([1.0, -1.0] * 10, "negative"),
        ([0.0] * 20, "all be zero"),
        (np.ones((5, 5)), "vector"),
        (["a"] * 20, "numbers"),
    ],
)
def test_bad_windows_are_refused(window: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        fit_map(window)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"whole number"):
        fit_maps(np.arange(20.0), best=0)


def test_timestamps_become_gaps_with_ties_as_zeros() -> None:
    assert from_timestamps([1.0, 1.0, 4.0]) == pytest.approx([0.0, 3.0])
    with pytest.raises(ValueError, match="number 3 does"):
        from_timestamps([1.0, 2.0, 1.5])


def test_sample_autocorrelation_of_an_alternating_series() -> None:
    assert autocorrelation([1.0, 3.0] * 500, [0, 1, 2]) == pytest.approx([1, -1, 1], abs=0.01)


def test_dispersion_of_independent_times_is_flat() -> None:
    seen = describe(np.random.default_rng(2).exponential(size=100_000))
    assert seen.dispersion == pytest.approx(np.ones(seen.blocks.size), abs=0.25)


def test_recorded_trace_is_fitted_in_moments_and_correlation() -> None:
    window = recorded("bc_paug89.npz")[:50_000]
    fitted = fit_map(window)
    assert fitted.states <= 16
    assert fitted.scv == pytest.approx(window.var() / window.mean() ** 2, rel=1e-6)
    lags = [1, 2, 5, 10, 50]
    assert fitted.acf(lags) == pytest.approx(autocorrelation(window, lags), abs=0.06)


def test_recorded_service_times_are_fitted_below_one_half() -> None:
    values = recorded("livemaps_service_times.npz")
    assert fit_map(values).scv == pytest.approx(values.var() / values.mean() ** 2, rel=0.02)
