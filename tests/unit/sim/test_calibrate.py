"""Calibration from a run, and how far a simulated run is from it: simulated runs stand in for live ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogctl.agent.plan import Plan, Scale, Share
from fogctl.sim import Counted, SimTarget, StageParameters, Stalls
from fogctl.sim.calibrate import StageRun, calibrate, settled
from fogctl.sim.compare import agreement, compare

TRUTH = StageParameters(
    tau_s=0.2,
    mu_per_s=90.0,
    beta=0.9,
    k0=3.0,
    k1=1.5,
    theta=1.1,
    noise=0.06,
    startup_cpu=0.6,
    start_sigma=0.0,
    reference_cores=0.2,
    stalls=Stalls(out_s=5.0, first_trips=0.0, in_s=0.5),
)
SETS = [("e1",), ("e1", "e2"), ("e1", "e2", "e3"), ("e1", "e2", "e3", "e4"), ("e3", "e4"), ("e2",)]


def live(world, rates=(30.0, 80.0, 200.0, 400.0), seed: int = 3) -> tuple[SimTarget, StageRun]:
    """A run with other parameters than the defaults, through several node sets and loads."""
    steps = [rate for _ in SETS for rate in rates for _ in range(120)]
    app = world.app(("work", "records", "done"), partitions=8)
    target = SimTarget(world.simulation(Counted(steps), SETS[0], TRUTH, app=app, seed=seed))
    looks, nodes = [], []
    for number, chosen in enumerate(SETS):
        target.apply("toy", Plan((Scale("work", chosen),), "test"))
        while target.now_s() < (number + 1) * 120.0 * len(rates):
            target.sleep(10.0)
            looks.append(target.stages("toy")[0])
            nodes.append(target.nodes())
    found: dict[str, list[float]] = {}
    for event in target.simulation.events:
        if event["what"] == "stall":
            found.setdefault(event["kind"], []).append(event["seconds"])
    return target, StageRun(looks, 8, stalls_s=found, nodes=nodes)


@pytest.fixture(scope="module")
def run(world) -> tuple[SimTarget, StageRun]:
    return live(world)


def distance(target: SimTarget):
    return target.simulation.distance_ms


def test_batch_times_of_sets_and_sizes_never_seen_are_reproduced(run) -> None:
    target, seen = run
    found = calibrate(seen, distance(target), 0.2)
    for n, rtt, rows in [(1, 0.0, 300), (2, 20.0, 600), (3, 50.0, 250), (4, 300.0, 800), (2, 150.0, 400)]:
        assert found.batch_s(rows, n, 8, rtt) == pytest.approx(TRUTH.batch_s(rows, n, 8, rtt), rel=0.10)


def test_noise_stalls_and_cpu_are_as_they_were(run) -> None:
    target, seen = run
    found = calibrate(seen, distance(target), 0.2)
    assert found.noise == pytest.approx(TRUTH.noise, rel=0.6)
    assert (found.stalls.out_s, found.stalls.in_s) == (5.0, 0.5)
    assert found.stalls.lost_s == Stalls().lost_s  # never seen: as before
    assert found.startup_cpu == pytest.approx(TRUTH.startup_cpu, abs=0.25)
    assert found.reference_cores == 0.2


def test_looks_that_mix_two_configurations_are_left_out(run) -> None:
    _, seen = run
    kept = settled(seen.looks)
    assert 0 < len(kept) < len(seen.looks)
    changes = [b.at_s for a, b in pairwise(seen.looks) if a.nodes != b.nodes]
    for look in kept:
        assert all(not 0 <= look.at_s - change < look.window_s for change in changes)


def test_shares_are_learned_too(world) -> None:
    app = world.app(("work", "records", "done"), partitions=8)
    target = SimTarget(world.simulation(Counted(np.full(2000, 150.0)), ("e1", "e2"), TRUTH, app=app))
    given_shares, looks = [], []
    for share in (1.0, 0.8, 0.5, 0.3):
        target.apply("toy", Plan((Share("work", None, share),), "test"))
        target.sleep(45.0)
        for _ in range(12):
            target.sleep(10.0)
            looks.append(target.stages("toy")[0])
            given_shares.append((target.now_s(), share))

    def share_at(at_s: float) -> float:
        return next(share for time, share in given_shares if time >= at_s)

    found = calibrate(StageRun(looks, 8, share_at), distance(target), 0.2)
    assert found.sigma == pytest.approx(1.0, abs=0.1)
    assert found.batch_s(300, 2, 8, 10.0, 0.4) == pytest.approx(TRUTH.batch_s(300, 2, 8, 10.0, 0.4), rel=0.1)


def test_what_goes_out_is_what_the_next_stage_receives(run) -> None:
    target, seen = run
    half = replace(seen, next_input=[0.5 * look.processed_rate for look in seen.looks])
    assert calibrate(half, distance(target), 0.2).out_per_in == pytest.approx(0.5)


def test_too_little_to_go_by_is_said(run) -> None:
    target, seen = run
    with pytest.raises(ValueError, match="too few"):
        calibrate(replace(seen, looks=seen.looks[:2]), distance(target), 0.2)


def follow(world, parameters: StageParameters, seed: int) -> tuple[dict[str, list[tuple[float, int]]], float]:
    """A toy scaler in a run of its own: replicas over time, and the mean lag."""
    rates = 150.0 + 130.0 * np.sin(np.arange(3000) / 3000 * 4 * np.pi)
    app = world.app(("work", "records", "done"), partitions=8)
    target = SimTarget(world.simulation(Counted(rates), ("e1",), parameters, app=app, seed=seed))
    lags = []
    while target.now_s() < 3000.0:
        target.sleep(30.0)
        (look,) = target.stages("toy")
        lags.append(look.lag)
        wanted = min(3, max(1, int(np.ceil(look.input_rate / 85.0))))
        target.apply("toy", Plan((Scale("work", tuple(f"e{i + 1}" for i in range(wanted))),), "test"))
    return target.simulation.supply, float(np.mean(lags))


def test_a_calibrated_simulation_follows_the_run_it_was_calibrated_from(world, run) -> None:
    target, seen = run
    found = calibrate(seen, distance(target), 0.2)
    replicas, lag = follow(world, TRUTH, seed=1)
    again, lag_again = follow(world, found, seed=2)
    told = compare({"mean_lag": lag}, {"mean_lag": lag_again}, replicas, again, 3000.0)
    assert told.agreement >= 0.9
    assert told.valid
    assert abs(told.scores["mean_lag"].relative or 0.0) < 0.25
    # Parameters that have nothing to do with the run are found out.
    far_off = replace(TRUTH, mu_per_s=30.0)
    _, lag_off = follow(world, far_off, seed=2)
    off = compare({"mean_lag": lag}, {"mean_lag": lag_off}, replicas, again, 3000.0)
    assert abs(off.scores["mean_lag"].relative or 0.0) > 1.0


STEPS = st.lists(st.tuples(st.floats(0, 90), st.integers(1, 4)), min_size=1, max_size=6).map(
    lambda steps: sorted(steps, key=lambda step: step[0])
)


@given(STEPS, STEPS)
def test_agreement_is_that_of_a_fine_grid(one, other) -> None:
    at = (np.arange(20_000) + 0.5) * 100.0 / 20_000

    def value(steps):
        index = np.maximum(np.searchsorted([s[0] for s in steps], at, side="right") - 1, 0)
        return np.array([s[1] for s in steps])[index]

    same, near, beyond = agreement(one, other, 0.0, 100.0)
    assert same <= near <= 1.0 + 1e-9
    assert same == pytest.approx(float(np.mean(value(one) == value(other))), abs=2e-3)
    assert beyond == pytest.approx(float(np.mean(value(other) - value(one))), abs=5e-3)


def test_runs_of_different_stages_are_not_compared() -> None:
    with pytest.raises(ValueError, match="same stages"):
        compare({}, {}, {"a": [(0.0, 1)]}, {"b": [(0.0, 1)]}, 10.0)
    with pytest.raises(ValueError, match="length"):
        agreement([(0.0, 1)], [(0.0, 1)], 5.0, 5.0)
