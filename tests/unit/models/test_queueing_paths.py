"""Paths and shares: discrete-event simulation and brute force as judges."""

from itertools import product
from math import inf

import numpy as np
import pytest
from fogmodels.arrivals import MAP
from fogmodels.queueing import (
    LEVELS,
    Application,
    Edge,
    PhaseType,
    Unstable,
    along,
    cheapest_shares,
    departures,
    greedy_shares,
    replay_path,
    responder,
    solve,
    solve_stages,
)
from hypothesis import given, settings
from hypothesis import strategies as st

BURSTY = MAP([[-11, 1.0], [0.05, -0.35]], [[10, 0], [0, 0.3]]).scaled(1.0)


def log_analysis(parser: float, counter: float, matcher: float) -> Application:
    services = {"parser": parser, "counter": counter, "matcher": matcher}
    return Application(
        {name: PhaseType.erlang(2, mean) for name, mean in services.items()},
        (Edge("parser", "counter"), Edge("parser", "matcher", keep=0.9)),
    )


def simulate_tandem(arrivals: np.ndarray, services: list[np.ndarray]) -> np.ndarray:
    """Customer by customer, stage by stage: the plain recursion, no vectorisation."""
    free = [0.0] * len(services)
    now, out = 0.0, np.empty(arrivals.size)
    for i, gap in enumerate(arrivals):
        clock = now
        for k, work in enumerate(services):
            free[k] = clock = max(clock, free[k]) + work[i]
        out[i] = clock - now
        now += gap
    return out


def test_replayed_path_is_the_simulated_tandem() -> None:
    gaps = BURSTY.sample(5_000, np.random.default_rng(0))
    stages = [PhaseType.erlang(2, 0.5 * gaps.mean()), PhaseType.exponential(0.7 * gaps.mean())]
    rng = np.random.default_rng(3)
    draws = [stage.sample(gaps.size, rng) for stage in stages]
    seen = replay_path(gaps, stages, runs=1, seed=3)
    expected = simulate_tandem(gaps, draws)
    assert seen.mean == pytest.approx(expected.mean())
    assert seen.percentile(0.9) == pytest.approx(np.quantile(expected, 0.9))


def test_tandem_of_exponential_stages_is_exact() -> None:
    # Burke: departures of M/M/1 are Poisson and the stages independent, so nothing is approximate.
    app = Application({"a": PhaseType.exponential(0.5), "b": PhaseType.exponential(0.8)}, (Edge("a", "b"),))
    stages = solve_stages(app, MAP.poisson(1.0))
    path = along([stages["a"], stages["b"]])
    assert path.mean == pytest.approx(1 / (2 - 1) + 1 / (1.25 - 1))
    # The sum of exponentials with rates 1 and 0.25.
    x = path.percentile(0.95)
    assert (1 * np.exp(-0.25 * x) - 0.25 * np.exp(-x)) / 0.75 == pytest.approx(0.05, rel=1e-9)


@pytest.mark.parametrize("method", ["source", "departures"])
def test_bursty_tandem_is_near_simulation(method: str) -> None:
    app = Application({"a": PhaseType.erlang(2, 0.3), "b": PhaseType.erlang(2, 0.6)}, (Edge("a", "b"),))
    rng = np.random.default_rng(1)
    gaps = BURSTY.sample(300_000, rng)
    truth = replay_path(gaps, [app.services["a"], app.services["b"]], runs=1)
    stages = solve_stages(app, BURSTY, method)  # type: ignore[arg-type]
    path = along([stages["a"], stages["b"]])
    assert path.mean == pytest.approx(truth.mean, rel=0.35)
    assert path.percentile(95) == pytest.approx(truth.percentile(95), rel=0.4)


def test_departures_of_a_busy_regular_server_are_smoother() -> None:
    out = departures(BURSTY, PhaseType.erlang(8, 0.8), events=30_000)
    assert out.mean == pytest.approx(BURSTY.mean)
    assert out.scv < BURSTY.scv
    with pytest.raises(Unstable):
        departures(BURSTY, PhaseType.erlang(8, 1.2))


def test_application_knows_its_paths_and_thins_its_streams() -> None:
    app = log_analysis(0.1, 0.2, 0.3)
    assert app.paths() == [("parser", "counter"), ("parser", "matcher")]
    stages = solve_stages(app, BURSTY)
    assert stages["counter"].utilisation == pytest.approx(0.2)
    assert stages["matcher"].utilisation == pytest.approx(0.27)
    assert stages["matcher"].mean == pytest.approx(solve(BURSTY.thinned(0.9), app.services["matcher"]).mean)


def test_joined_streams_add_up() -> None:
    service = {name: PhaseType.exponential(0.2) for name in "abcd"}
    app = Application(service, (Edge("a", "b"), Edge("a", "c"), Edge("b", "d"), Edge("c", "d")))
    assert app.paths() == [("a", "b", "d"), ("a", "c", "d")]
    assert solve_stages(app, MAP.poisson(1.0))["d"].utilisation == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("edges", "says"),
    [
        ((Edge("a", "x"),), "unknown stage"),
        ((Edge("a", "b"), Edge("b", "a")), "cycle"),
        ((Edge("a", "b", keep=0.0),), "keep"),
        ((Edge("a", "b"), Edge("a", "b")), "twice"),
    ],
)
def test_what_is_no_application_is_refused(edges: tuple[Edge, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Application({"a": PhaseType.exponential(1), "b": PhaseType.exponential(1)}, edges)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(0.3, 6.0))
def test_exact_shares_equal_brute_force_and_greedy_is_never_cheaper(
    seed: int, stages: int, slack: float
) -> None:
    rng = np.random.default_rng(seed)
    names = [f"s{i}" for i in range(stages)]
    work = dict(zip(names, rng.uniform(0.1, 0.95, stages), strict=True))
    paths = [tuple(names)] if rng.random() < 0.5 else [tuple(names[:k]) for k in range(1, stages + 1)]
    limits = {path: slack * sum(work[name] for name in path) for path in paths}

    def respond(path: tuple[str, ...], shares: dict[str, float]) -> tuple[float, dict[str, float]]:
        each = {n: inf if work[n] >= shares[n] else work[n] / (shares[n] - work[n]) for n in path}
        return sum(each.values()), each

    feasible = []
    for choice in product(LEVELS, repeat=stages):
        shares = dict(zip(names, choice, strict=True))
        if all(respond(path, shares)[0] <= limit for path, limit in limits.items()):
            feasible.append(sum(choice))
    exact, greedy = cheapest_shares(limits, respond), greedy_shares(limits, respond)  # type: ignore[arg-type]
    if not feasible:
        assert exact is None
        assert not greedy.feasible
        return
    assert exact is not None
    assert exact.feasible
    assert exact.cost == pytest.approx(min(feasible))
    if greedy.feasible:
        assert greedy.cost >= exact.cost - 1e-9


def test_greedy_raises_the_bottleneck_first() -> None:
    app = log_analysis(0.05, 0.05, 0.3)
    respond = responder(app, BURSTY)
    limits = dict.fromkeys(app.paths(), 4.0)
    assert respond(("parser", "matcher"), dict.fromkeys(app.services, 0.4))[0] > 4.0
    chosen = greedy_shares(limits, respond)
    assert chosen.feasible
    assert chosen.shares["parser"] == chosen.shares["counter"] == 0.40
    assert chosen.shares["matcher"] > 0.40
    exact = cheapest_shares(limits, respond)
    assert exact is not None
    assert exact.cost <= chosen.cost + 1e-9


def test_greedy_takes_back_a_raise_that_gains_too_little() -> None:
    def respond(path: tuple[str, ...], shares: dict[str, float]) -> tuple[float, dict[str, float]]:
        return 10 - 0.01 * shares["s"], {"s": 10 - 0.01 * shares["s"]}

    chosen = greedy_shares({("s",): 1.0}, respond, delta=0.05)  # type: ignore[arg-type]
    assert chosen.shares == {"s": 0.40}
    assert not chosen.feasible


def test_greedy_climbs_out_of_overload() -> None:
    app = log_analysis(0.1, 0.1, 0.72)
    chosen = greedy_shares(dict.fromkeys(app.paths(), 50.0), responder(app, BURSTY, percentile=95))
    assert chosen.shares["matcher"] >= 0.70
    assert chosen.feasible


@pytest.mark.parametrize(
    ("limits", "levels"),
    [
        ({}, LEVELS),
        ({("a",): -1.0}, LEVELS),
        ({("a",): 1.0}, ()),
        ({("a",): 1.0}, (1.0, 0.5)),
        ({(): 1.0}, LEVELS),
    ],
)
def test_bad_share_problems_are_refused(
    limits: dict[tuple[str, ...], float], levels: tuple[float, ...]
) -> None:
    for choose in (greedy_shares, cheapest_shares):
        with pytest.raises(ValueError, match=r"."):
            choose(limits, lambda *_: (1.0, {}), levels)  # type: ignore[operator]
