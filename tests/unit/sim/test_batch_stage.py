"""Micro-batch stages: hand-computed steady states, conservation, and what a window says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fogctl.sim import Counted, StageParameters, Stalls
from fogctl.sim.replicas import common_speed

QUIET = StageParameters(
    tau_s=0.1,
    mu_per_s=100.0,
    beta=1.0,
    k0=4.0,
    k1=2.0,
    theta=1.0,
    noise=0.0,
    startup_cpu=0.0,
    driver_s=0.0,
    start_sigma=0.0,
    cold=0.0,
    stalls=Stalls(first_s=0.0),
)
SETTLED = 0.06
"""The rule for the size of batches makes no corrections of less than 5 %."""


def constant(rate: float, seconds: int = 600) -> Counted:
    return Counted(np.full(seconds, rate))


def test_a_stage_that_keeps_up_settles_where_a_batch_takes_in_what_arrives_during_one(world) -> None:
    # One replica, four partitions: D = 4·0.1 s + N/100; N = 50·D, so D = 0.4/(1 − 0.5) = 0.8 s, N = 40.
    sim = world.simulation(constant(50.0), ["e1"], QUIET)
    sim.advance(300.0)
    (seen,) = sim.stage_metrics()
    assert seen.batch_ms == pytest.approx(800.0, rel=0.03)
    assert seen.batch_rows == pytest.approx(40.0, rel=0.03)
    assert seen.processed_rate == pytest.approx(50.0, rel=0.02)
    assert seen.input_rate == pytest.approx(50.0, rel=0.02)
    assert 40 <= seen.lag <= 81  # a batch and what arrived since it began
    assert seen.lag_trend_low < 0 < seen.lag_trend_high


def test_an_overloaded_stage_does_the_mst_of_its_freshness_bound_and_falls_behind_by_the_rest(world) -> None:
    # Batches aim at 0.9 · 5 s: N = (4.5 − 0.4)·100 = 410 rows, 91.1 a second.
    sim = world.simulation(constant(120.0), ["e1"], QUIET)
    sim.advance(300.0)
    (seen,) = sim.stage_metrics()
    assert seen.max_rows == pytest.approx(410, rel=SETTLED)
    assert seen.batch_ms == pytest.approx(4500.0, rel=SETTLED)
    assert seen.processed_rate == pytest.approx(410 / 4.5, rel=0.01)
    assert seen.lag_trend == pytest.approx(120 - 410 / 4.5, rel=0.2)
    assert seen.lag_trend_low > 0
    assert seen.lag == pytest.approx((120 - 410 / 4.5) * 300.0, rel=0.1)
    assert QUIET.mst(1, 0.0, 5.0, 4) == pytest.approx(410 / 4.5)


def test_the_farthest_replica_slows_every_batch(world) -> None:
    # Two replicas, one at 300 ms: D = 2·0.1 + (4 + 2·2)·0.3 + N/200 = 4.5 s: N = 380; both near: 844.
    far = world.simulation(constant(500.0), ["e1", "e4"], QUIET)
    near = world.simulation(constant(500.0), ["e1", "e2"], QUIET)
    for sim in (far, near):
        sim.advance(300.0)
    assert far.stage_metrics()[0].processed_rate == pytest.approx(380 / 4.5, rel=SETTLED)
    assert near.stage_metrics()[0].processed_rate == pytest.approx(844 / 4.5, rel=SETTLED)


def test_a_smaller_share_slows_the_work_and_nothing_else(world) -> None:
    half = QUIET.batch_s(200, 1, 4, 0.0, speed=0.5)
    assert half == pytest.approx(0.4 + 4.0)


def test_busyness_leaves_out_waiting_for_others_and_cpu_leaves_out_all_waiting(world) -> None:
    both = world.simulation(constant(500.0), ["e1", "e4"], QUIET)
    both.advance(300.0)
    (seen,) = both.stage_metrics()
    # D = 0.2 + (4 + 2·2)·0.3 + N/200: 2.6 s are fixed, 1.9 s are work. The near one waits 2.4 s.
    assert seen.busyness == pytest.approx(1 - 2.4 / 2 / 4.5, rel=0.03)
    sim = world.simulation(constant(500.0), ["e4"], QUIET)
    sim.advance(300.0)
    (seen,) = sim.stage_metrics()
    # D = 0.4 + (4 + 2·4)·0.3 + N/100: 4 s are fixed. Its tasks run throughout, and compute N/100 s of it.
    assert seen.busyness == pytest.approx(1.0, rel=0.02)
    node = next(n for n in sim.node_metrics() if n.node == "e4")
    part = seen.batch_rows / 100 / (seen.batch_ms / 1e3)
    assert node.cpu_used_cores == pytest.approx(0.2 * part, rel=0.1)
    assert node.cpu_quota_cores == 0.2


def test_an_idle_stage_is_fresh_and_at_rest(world) -> None:
    sim = world.simulation(Counted([10.0, *[0.0] * 400]), ["e1"], QUIET)
    sim.advance(300.0)
    (seen,) = sim.stage_metrics()
    assert (seen.at_s, seen.lag, seen.processed_rate, seen.input_rate) == (300.0, 0, 0.0, 0.0)
    assert (seen.lag_trend, seen.busyness) == (0.0, 0.0)
    # What only batches tell is kept from the newest one: 0.4 s and 0.01 s a row.
    assert seen.batch_ms == pytest.approx(400 + 10 * seen.batch_rows)
    assert seen.newest_batch_at_s == pytest.approx(0.0, abs=5.0)


def test_a_stage_without_replicas_is_stale_and_its_lag_grows(world) -> None:
    from fogctl.sim.faults import Fault

    sim = world.simulation(constant(50.0), ["e1"], QUIET, faults=[Fault(100.0, "kill", "e1")])
    sim.advance(200.0)
    (seen,) = sim.stage_metrics()
    assert seen.at_s == 200.0
    assert seen.newest_batch_at_s == pytest.approx(0.0, abs=110.0)
    assert seen.nodes == ()
    assert seen.lag == pytest.approx(50.0 * 100.0, rel=0.02)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.floats(0, 200), min_size=5, max_size=40),
    st.floats(0, 0.3),
    st.integers(0, 3),
    st.floats(0.3, 20.0),
)
def test_every_record_is_processed_once_however_time_is_cut(world, rates, noise, seed, step_s) -> None:
    parameters = StageParameters(noise=noise, cold=1.0)
    whole = world.simulation(Counted(np.round(rates)), ["e1"], parameters, seed=seed)
    cut = world.simulation(Counted(np.round(rates)), ["e1"], parameters, seed=seed)
    whole.advance(400.0)
    while cut.now_s < 400.0:
        cut.advance(min(400.0, cut.now_s + step_s))
    work = whole.stages["work"]
    assert work.batches() == cut.stages["work"].batches()
    finished = whole.drain(10_000.0)
    assert finished is not None
    assert work.processed == whole.stages["work"].output.before(1e9) == np.round(rates).sum()


def test_noise_leaves_the_mean_batch_time_alone(world) -> None:
    noisy = StageParameters(noise=0.2, cold=0.0)
    sim = world.simulation(constant(500.0, 20_000), ["e1"], noisy, seed=1)
    sim.advance(20_000.0)
    done = sim.stages["work"].batches()
    expected = [noisy.batch_s(rows, 1, 4, 0.0) for rows in done["rows"]]
    ratios = np.array(done["duration_s"][1:]) / np.array(expected[1:])
    assert ratios.mean() == pytest.approx(1.0, abs=0.01)
    assert ratios.std() == pytest.approx(0.2, rel=0.05)
    assert np.mean(done["duration_s"][50:]) == pytest.approx(0.9 * 5.0 / (1 + 0.67 * 0.2), rel=SETTLED)


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=6), st.integers(1, 24))
def test_unequal_replicas_are_worth_no_more_than_their_best_and_no_less_than_their_worst(
    speeds, tasks
) -> None:
    assert min(speeds) * (1 - 1e-9) <= common_speed(speeds, tasks) <= max(speeds) * (1 + 1e-9)


def test_a_slow_replica_that_gets_a_task_holds_the_batch_up() -> None:
    # Two tasks on two replicas, one at a tenth: the batch takes ten times as long.
    assert common_speed([1.0, 0.1], 2) == pytest.approx(0.1)
    # With many small tasks the fast one takes most of them: 110 task times of work at speed 1.1.
    assert common_speed([1.0, 0.1], 110) == pytest.approx(55 / 100, rel=0.02)


def test_the_busiest_replica_decides_so_tasks_that_do_not_divide_are_no_gain(world) -> None:
    # Four tasks on three replicas: one has two of them, as each of two replicas has.
    assert QUIET.batch_s(400, 3, 4, 0.0) == pytest.approx(QUIET.batch_s(400, 2, 4, 0.0))
    assert QUIET.batch_s(400, 4, 4, 0.0) == pytest.approx(0.1 + 1.0)
    for nodes, rate in ((["e1", "e2"], 844 / 4.5), (["e1", "e2", "e3"], 860 / 4.5)):
        sim = world.simulation(constant(900.0), nodes, QUIET, testbed=world.testbed((0.0, 0.0, 0.0)))
        sim.advance(300.0)
        assert sim.stage_metrics()[0].processed_rate == pytest.approx(rate, rel=SETTLED)


def test_a_far_replica_with_few_tasks_waits_while_a_near_one_with_more_works() -> None:
    # Three replicas of four tasks, one at 300 ms: the near ones with two tasks take 0.2 + N/200, the far one
    # 0.1 + N/400 + 6 trips of 0.3 s. With many rows the near ones are the last.
    assert QUIET.batch_s(100, 3, 4, 300.0) == pytest.approx(0.1 + 0.25 + 1.8)
    assert QUIET.batch_s(2000, 3, 4, 300.0) == pytest.approx(0.2 + 10.0)


def test_replicas_begin_cold_and_work_makes_them_warm(world) -> None:
    from dataclasses import replace

    cold = replace(QUIET, cold=1.0, warm_cpu_s=3.0, startup_cpu=1.0)
    busy = world.simulation(constant(500.0), ["e1"], cold)
    idle = world.simulation(constant(1.0), ["e1"], cold)
    for sim in (busy, idle):
        sim.advance(100.0)

    def slower(sim, place: int) -> float:
        done = sim.stages["work"].batches()
        return done["duration_s"][place] / QUIET.batch_s(done["rows"][place], 1, 4, 0.0)

    assert slower(busy, 0) == pytest.approx(2.0, rel=0.01)
    # 100 s of work with a fifth of a core are 20 CPU seconds; without work they stay cold for longer.
    assert slower(busy, -1) == pytest.approx(1.0, abs=0.03)
    assert slower(idle, -1) > 1.05


def test_the_size_of_batches_grows_by_the_live_rule(world) -> None:
    sim = world.simulation(constant(500.0), ["e1"], QUIET)
    sim.advance(120.0)
    rows = sim.stages["work"].batches()["rows"]
    # It begins with 50 rows a slot and doubles at most, two batches after the one that taught it.
    assert rows[1] == 50
    assert all(after <= 2 * before for before, after in pairwise(rows[1:]))
    assert rows[-1] == pytest.approx(410, rel=SETTLED)


def test_the_cheap_trend_agrees_with_the_models_own(world) -> None:
    from fogmodels.scalability import lag_trend

    for rate in (40.0, 85.0, 100.0, 150.0):
        warm = StageParameters(cold=0.0)
        sim = world.simulation(Counted.poisson(np.full(400, rate), seed=2), ["e1"], warm, seed=2)
        sim.advance(120.0)
        (seen,) = sim.stage_metrics()
        times = np.arange(91.0, 121.0)
        lags = [sim.stages["work"].lag(t) for t in times]
        full = lag_trend(times, lags, cycle_s=seen.batch_ms / 1e3)
        assert seen.lag_trend == pytest.approx(full.slope_per_s, abs=0.15 * rate)
        verdict = "rising" if seen.lag_trend_low > 0 else "falling" if seen.lag_trend_high < 0 else "steady"
        assert verdict == full.verdict
