"""Prediction from a window, and the baselines, judged by simulation and closed forms."""

import os
from pathlib import Path

import numpy as np
import pytest
from fogmodels.arrivals import MAP, fit_map
from fogmodels.queueing import (
    VARIANTS,
    PhaseType,
    Unstable,
    conservative,
    kingman,
    lindley,
    mg1,
    predict,
    solve,
)

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[4] / "shared" / "data")) / "arrivals"
LOADS = (0.3, 0.5, 0.7, 0.8, 0.9)
MMPP = MAP([[-11, 1.0], [0.02, -0.32]], [[10, 0], [0, 0.3]])


def on_off(n: int, rng: np.random.Generator) -> np.ndarray:
    gaps = rng.exponential(0.1, n)
    gaps[rng.random(n) < 0.02] += rng.exponential(20.0)
    return gaps


KINDS = {
    "poisson": lambda n, rng: rng.exponential(size=n),
    "erlang": lambda n, rng: rng.standard_gamma(4, size=n),
    "constant": lambda n, _: np.ones(n),
    "mmpp": lambda n, rng: MMPP.sample(n, rng),
    "on/off": on_off,
}


def factor(predicted: np.ndarray, true: np.ndarray) -> float:
    ratio = np.asarray(predicted) / np.asarray(true)
    return float(np.median(np.maximum(ratio, 1 / ratio)))


def truth(window: np.ndarray, load: float, seed: int) -> float:
    # A hundred services are themselves a matter of luck: short windows are averaged over more draws.
    draws = max(1, 3_000 // window.size)
    work = np.random.default_rng(seed).standard_gamma(2, size=(draws, window.size)) / 2
    return float(lindley(window, work * load * window.mean()).mean())


def test_lindley_follows_the_plain_recursion() -> None:
    rng = np.random.default_rng(0)
    gaps, work = rng.exponential(size=50), rng.exponential(0.9, size=50)
    waiting, expected = 0.0, []
    for i in range(50):
        expected.append(waiting + work[i])
        waiting = max(0.0, waiting + work[i] - gaps[i])
    assert lindley(gaps, work) == pytest.approx(expected)
    assert lindley(gaps[:-1], work) == pytest.approx(expected)
    with pytest.raises(ValueError, match="inter-arrival"):
        lindley(gaps[:10], work)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("events", [100, 5_000])
def test_window_of_any_kind_is_predicted_within_half(kind: str, events: int) -> None:
    windows = [KINDS[kind](events, np.random.default_rng(seed)) for seed in range(5)]
    for load in LOADS:
        predicted = [predict(w, PhaseType.erlang(2, load * w.mean())).mean for w in windows]
        assert factor(predicted, [truth(w, load, 77 + i) for i, w in enumerate(windows)]) < 1.5, load


def test_long_poisson_window_gives_the_closed_form() -> None:
    window = np.random.default_rng(1).exponential(size=300_000)
    service = PhaseType.erlang(2, 0.7 * window.mean())
    exact = solve(MAP.poisson(1 / window.mean()), service)
    seen = predict(window, service)
    assert seen.mean == pytest.approx(exact.mean, rel=0.05)
    assert seen.percentile(95) == pytest.approx(exact.percentile(95), rel=0.05)
    assert seen.survival(seen.percentile(0.9)) == pytest.approx(0.1, abs=1e-4)


def test_recorded_trace_same_window_and_next() -> None:
    file = DATA / "bc_paug89.npz"
    if not file.exists():
        pytest.skip("test data bc_paug89.npz not found; set FOGCTL_TEST_DATA")
    trace = np.load(file)["iat"]
    windows = [trace[i * 50_000 : (i + 1) * 50_000] for i in range(10)]
    for load in LOADS:
        # In units of the mean service time, so that windows of different rates compare.
        unit = [load * w.mean() for w in windows]
        seen = [predict(w, PhaseType.erlang(2, u)).mean / u for w, u in zip(windows, unit, strict=True)]
        own = [truth(w, load, i) / u for i, (w, u) in enumerate(zip(windows, unit, strict=True))]
        replayed = [truth(w, load, 50 + i) / u for i, (w, u) in enumerate(zip(windows, unit, strict=True))]
        assert factor(seen, own) < 1.5
        assert factor(seen[:-1], own[1:]) <= 1.05 * factor(replayed[:-1], own[1:])


def test_fitted_process_alone_predicts_the_recorded_window_within_half() -> None:
    file = DATA / "bc_paug89.npz"
    if not file.exists():
        pytest.skip("test data bc_paug89.npz not found; set FOGCTL_TEST_DATA")
    trace = np.load(file)["iat"]
    windows = [trace[i * 50_000 : (i + 1) * 50_000] for i in (1, 7)]
    fits = [fit_map(window) for window in windows]
    for load in LOADS:
        seen = [solve(fitted, PhaseType.erlang(2, load * fitted.mean)).mean for fitted in fits]
        assert factor(seen, [truth(w, load, i) for i, w in enumerate(windows)]) < 1.5


def test_every_variant_agrees_on_a_poisson_window() -> None:
    window = np.random.default_rng(2).exponential(size=100_000)
    service = PhaseType.erlang(2, 0.6 * window.mean())
    exact = mg1(1 / window.mean(), service).mean
    for name, variant in VARIANTS.items():
        assert variant(window, service).mean == pytest.approx(exact, rel=0.06), name


def test_combination_lies_between_its_parts() -> None:
    window = MMPP.sample(2_000, np.random.default_rng(3))
    service = PhaseType.erlang(2, 0.8 * window.mean())
    parts = [VARIANTS[name](window, service) for name in ("replay", "MAP")]
    both = VARIANTS["combination"](window, service)
    for value, of in (
        (both.mean, [p.mean for p in parts]),
        (both.percentile(95), [p.percentile(95) for p in parts]),
    ):
        assert min(of) <= value <= max(of)
    assert both.survival(both.percentile(0.8)) == pytest.approx(0.2, abs=1e-6)


def test_conservative_prediction_is_the_worst_of_both_windows() -> None:
    calm, busy = (
        np.random.default_rng(4).exponential(size=400),
        MMPP.sample(400, np.random.default_rng(5)),
    )
    window = np.r_[calm, busy / busy.mean()]
    service = PhaseType.erlang(2, 0.5)
    worst = conservative(window, service, best=2)
    for share in (1.0, 0.5):
        alone = conservative(window, service, best=2, windows=(share,))
        assert worst.mean >= alone.mean
        assert worst.percentile(99) >= alone.percentile(99)
    assert "worst of 4" in worst.method


def test_baselines_have_their_closed_forms() -> None:
    service = PhaseType.erlang(2, 1.0)
    assert mg1(0.8, service).mean == pytest.approx(1 + 0.8 * 1.5 / 0.4)
    assert mg1(0.8, service).percentile(95) == pytest.approx(solve(MAP.poisson(0.8), service).percentile(95))
    assert kingman(0.8, 3.0, service).mean == pytest.approx(1 + 4 * 1.75)
    with pytest.raises(ValueError, match="mean only"):
        kingman(0.8, 3.0, service).percentile(95)


@pytest.mark.parametrize("name", VARIANTS)
def test_overload_and_bad_windows_are_refused_by_every_variant(name: str) -> None:
    service = PhaseType.erlang(2, 1.0)
    with pytest.raises(Unstable):
        VARIANTS[name](np.full(100, 0.9), service)
    for bad in ([], [1.0, np.nan] * 50, [-1.0] * 50, [0.0] * 50):
        with pytest.raises(ValueError, match=r"inter-arrival"):
            VARIANTS[name](bad, service)
