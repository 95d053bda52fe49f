"""MAP/PH/1: closed forms, an independent QBD solution, simulation and the reference file as judges."""

import json
import os
from decimal import Decimal, getcontext
from pathlib import Path

import numpy as np
import pytest
from fogmodels.arrivals import MAP
from fogmodels.queueing import PhaseType, Unstable, lindley, solve
from hypothesis import given, settings
from hypothesis import strategies as st

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[4] / "shared" / "data")) / "arrivals"


def random_map(seed: int, states: int) -> MAP:
    rng = np.random.default_rng(seed)
    D1 = rng.exponential(size=(states, states)) * rng.choice([0.01, 1, 10], size=(states, 1)) + 1e-3
    D0 = rng.exponential(size=(states, states))
    np.fill_diagonal(D0, 0)
    np.fill_diagonal(D0, -(D0.sum(axis=1) + D1.sum(axis=1)))
    return MAP(D0, D1)


def random_service(seed: int, phases: int) -> PhaseType:
    rng = np.random.default_rng(seed)
    S = rng.exponential(size=(phases, phases)) * (rng.random((phases, phases)) < 0.5)
    np.fill_diagonal(S, 0)
    np.fill_diagonal(S, -(S.sum(axis=1) + rng.uniform(0.1, 2, phases)))
    return PhaseType(rng.dirichlet(np.ones(phases)), S)


def mean_by_queue_length(arrivals: MAP, service: PhaseType) -> float:
    """Little's law on the QBD of the queue length, R by logarithmic reduction (Latouche, Ramaswami)."""
    n, m = arrivals.states, service.phases
    up = np.kron(arrivals.D1, np.eye(m))
    local = np.kron(arrivals.D0, np.eye(m)) + np.kron(np.eye(n), service.S)
    down = np.kron(np.eye(n), np.outer(service.exit_rates, service.beta))
    eye = np.eye(n * m)
    high, low = np.linalg.solve(-local, up), np.linalg.solve(-local, down)
    G, T = low, high
    for _ in range(40):
        U = high @ low + low @ high
        high, low = np.linalg.solve(eye - U, high @ high), np.linalg.solve(eye - U, low @ low)
        G, T = G + T @ low, T @ high
    R = up @ np.linalg.inv(-(local + up @ G))
    enter = np.kron(arrivals.D1, service.beta[None, :])
    leave = np.kron(np.eye(n), service.exit_rates[:, None])
    boundary = np.block([[arrivals.D0, enter], [leave, local + R @ down]])
    tail = np.linalg.inv(eye - R)
    weights = np.concatenate([np.ones(n), tail.sum(axis=1)])
    system = np.vstack([boundary.T, weights])
    pi = np.linalg.lstsq(system, np.r_[np.zeros(n + n * m), 1.0], rcond=None)[0]
    return float(pi[n:] @ tail @ tail @ np.ones(n * m) / arrivals.rate)


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9, 0.999, 0.9999])
def test_mm1(load: float) -> None:
    response = solve(MAP.poisson(load), PhaseType.exponential(1.0))
    assert response.mean == pytest.approx(1 / (1 - load), rel=1e-9)
    for q in (0.5, 0.95, 0.999):
        assert response.percentile(q) == pytest.approx(-np.log(1 - q) / (1 - load), rel=1e-9)
    assert response.survival(response.percentile(0.9)) == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize("load", [0.2, 0.8, 0.999, 0.9999])
@pytest.mark.parametrize(
    "service",
    [
        PhaseType.erlang(5, 1.0),
        PhaseType.hyperexponential([0.9, 0.1], [0.2, 8.2]),
        random_service(3, 4).scaled(1.0),
    ],
    ids=["erlang", "hyper", "random"],
)
def test_poisson_arrivals_follow_pollaczek_khinchine(load: float, service: PhaseType) -> None:
    expected = 1 + load * (1 + service.scv) / (2 * (1 - load))
    assert solve(MAP.poisson(load), service).mean == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("load", ["0.3", "0.9", "0.999", "0.9999"])
def test_erlang_arrivals_at_an_exponential_server(load: str) -> None:
    # GI/M/1: response time exponential with rate 1 - sigma, sigma = A*(1 - sigma); root in 40 digits.
    getcontext().prec = 40
    rho, one, three = Decimal(load), Decimal(1), Decimal(3)
    sigma = rho / 2
    for _ in range(200):
        base = three * rho / (three * rho + one - sigma)
        slope = one - three * base**3 / (three * rho + one - sigma)
        sigma -= (sigma - base**3) / slope
    arrivals = PhaseType.erlang(3, 1 / float(load))
    response = solve(MAP.renewal(arrivals.beta, arrivals.S), PhaseType.exponential(1.0))
    assert response.mean == pytest.approx(float(1 / (1 - sigma)), rel=1e-8)
    assert response.percentile(99) == pytest.approx(float(1 / (1 - sigma)) * np.log(100), rel=1e-8)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 4), st.floats(0.05, 0.97))
def test_mean_agrees_with_littles_law_on_the_queue_length(seed: int, n: int, m: int, load: float) -> None:
    arrivals, service = random_map(seed, n), random_service(seed + 1, m)
    service = service.scaled(load * arrivals.mean)
    assert solve(arrivals, service).mean == pytest.approx(mean_by_queue_length(arrivals, service), rel=1e-7)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 0.99))
def test_percentiles_invert_survival_and_grow(seed: int, load: float) -> None:
    arrivals = random_map(seed, 3)
    response = solve(arrivals, random_service(seed, 2).scaled(load * arrivals.mean))
    points = [response.percentile(q) for q in (1e-6, 0.2, 0.5, 0.9, 0.99, 1 - 1e-9)]
    assert points == sorted(points)
    assert response.survival(points[3]) == pytest.approx(0.1, rel=1e-8)
    assert response.survival(points[-1]) == pytest.approx(1e-9, rel=1e-4)
    assert response.percentile(0.95) == response.percentile(95)


def test_mean_is_the_integral_of_survival() -> None:
    response = solve(random_map(4, 3), random_service(2, 3).scaled(0.7 * random_map(4, 3).mean))
    grid = np.linspace(0, response.percentile(1 - 1e-10), 4001)
    values = np.array([response.survival(float(x)) for x in grid])
    h = grid[1] - grid[0]
    simpson = h / 3 * (values[0] + values[-1] + 4 * values[1:-1:2].sum() + 2 * values[2:-1:2].sum())
    assert simpson == pytest.approx(response.mean, rel=1e-6)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_simulation_confirms_bursty_arrivals(load: float) -> None:
    arrivals = MAP([[-11, 1.0], [0.02, -0.32]], [[10, 0], [0, 0.3]])
    service = PhaseType.erlang(2, load * arrivals.mean)
    rng = np.random.default_rng(9)
    seen = lindley(arrivals.sample(1_000_000, rng), service.sample(1_000_000, rng))
    response = solve(arrivals, service)
    assert seen.mean() == pytest.approx(response.mean, rel=0.05)
    assert np.quantile(seen, 0.95) == pytest.approx(response.percentile(0.95), rel=0.05)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_answer_scales_with_the_unit(factor: float) -> None:
    arrivals, service = random_map(8, 4), random_service(8, 3)
    service = service.scaled(0.8 * arrivals.mean)
    one = solve(arrivals, service)
    other = solve(arrivals.scaled(arrivals.mean * factor), service.scaled(service.mean * factor))
    assert other.mean == pytest.approx(one.mean * factor, rel=1e-9)
    assert other.percentile(0.99) == pytest.approx(one.percentile(0.99) * factor, rel=1e-9)


def test_reference_file_is_met() -> None:
    file = DATA / "map_ph_1_reference.json"
    if not file.exists():
        pytest.skip("test data map_ph_1_reference.json not found; set FOGCTL_TEST_DATA")
    for case in json.loads(file.read_text()):
        response = solve(
            MAP(case["D0"], case["D1"]), PhaseType(case["service"]["beta"], case["service"]["S"])
        )
        seen = [response.mean, response.percentile(95), response.percentile(99)]
        assert seen == pytest.approx([case["mean"], case["p95"], case["p99"]], rel=1e-9), case["map"]


@pytest.mark.parametrize("load", [1.0, 1.0001, 7.0])
def test_overload_is_unstable(load: float) -> None:
    with pytest.raises(Unstable, match="not below 1") as caught:
        solve(MAP.poisson(1.0), PhaseType.erlang(2, load))
    assert caught.value.utilisation == pytest.approx(load)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("q", [0, 1, 100, 101, -3, float("nan"), "95", True, None])
def test_percentiles_out_of_range_are_refused(q: object) -> None:
    with pytest.raises(ValueError, match="percentile"):
        solve(MAP.poisson(0.5), PhaseType.exponential(1)).percentile(q)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("beta", "S", "says"),
    [
        ([0.5], [[-1]], "probability"),
        ([1], [[1]], "negative diagonal"),
        ([1, 0], [[-1]], "matching"),
        ([1, 0], [[-1, 1], [1, -1]], "absorption"),
        ([1, 0], [[-1, 2], [0, -1]], "more than zero"),
        ([np.nan], [[-1]], "finite"),
        (["x"], [[-1]], "numbers"),
        ([], [], "matching"),
    ],
)
def test_what_is_no_distribution_is_refused(beta: object, S: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PhaseType(beta, S)  # type: ignore[arg-type]


@pytest.mark.parametrize(("mean", "scv"), [(2.0, 0.04), (1.0, 0.37), (3.0, 0.5), (1.0, 1.0), (0.1, 9.0)])
def test_phase_type_from_moments_has_them(mean: float, scv: float) -> None:
    made = PhaseType.from_moments(mean, scv)
    assert (made.mean, made.scv) == (pytest.approx(mean), pytest.approx(scv))
    draws = made.sample(200_000, np.random.default_rng(0))
    assert draws.mean() == pytest.approx(mean, rel=0.03)
    assert draws.var() / draws.mean() ** 2 == pytest.approx(scv, rel=0.08)


def test_phase_type_from_three_moments_and_refusals() -> None:
    made = PhaseType.from_moments(1.0, 4.0, 100.0)
    assert [made.moment(k) for k in (1, 2, 3)] == pytest.approx([1, 5, 100])
    for call in (
        lambda: PhaseType.from_moments(1.0, 4.0, 1.0),
        lambda: PhaseType.from_moments(1.0, 0.5, 3.0),
        lambda: PhaseType.from_moments(1.0, 1e-5),
        lambda: PhaseType.erlang(0, 1.0),
        lambda: PhaseType.erlang(2, -1.0),
        lambda: PhaseType.erlang(2, float("inf")),
        lambda: PhaseType.hyperexponential([1.0], [0.0]),
    ):
        with pytest.raises(ValueError, match=r"."):
            call()
