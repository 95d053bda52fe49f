"""From numbers to knowledge: overload, needed rate, samples; and nonsense that teaches nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fogctl.agent.evaluate import (
    DAMPED,
    MOST_SAMPLES,
    SAME_CONFIGURATION,
    backlog,
    catching_up,
    evaluate,
    stall_s,
    takes_s,
    with_stall,
)
from fogctl.agent.knowledge import WARM_CPU_S
from fogctl.agent.settings import Guard

GUARD = Guard(window="30s", headroom="10%", catch_up="60s")


def learned(make, guard=GUARD, **given):
    world = make.scene(**given)
    return evaluate(world.seen, world.known, guard).stage("work")


OVERLOAD = {"input_rate": 120.0, "processed_rate": 90.0, "lag": 2000, "lag_trend": 30.0, "batch_ms": 4500.0}


def test_full_batches_that_fall_behind_are_overload(make) -> None:
    assert learned(make, **OVERLOAD).overloaded


@pytest.mark.parametrize(
    "calm",
    [
        {"lag_trend": 0.0},  # does not grow
        {"lag_trend": -30.0, "lag": 5000},  # shrinks
        {"batch_ms": 1500.0, "lag": 700},  # batches merely grow with the load
        {"lag": 500},  # the batch that runs and the one that fills
    ],
)
def test_what_ordinary_operation_leaves_is_no_overload(make, calm) -> None:
    assert not learned(make, **{**OVERLOAD, "lag": 1190, **calm}).overloaded


def test_an_old_backlog_that_does_not_shrink_is_overload_however_flat(make) -> None:
    flat = {"input_rate": 100.0, "processed_rate": 100.0, "lag": 5000, "lag_trend": 0.0, "batch_ms": 1000.0}
    assert learned(make, **flat).overloaded


def test_a_stage_is_not_called_overloaded_before_a_change_has_settled(make) -> None:
    soon = {"scaled_at_s": make.now - 20.0}
    assert not learned(make, known=soon, **OVERLOAD).overloaded
    assert learned(make, known={"scaled_at_s": make.now - 40.0}, **OVERLOAD).overloaded


def test_a_saw_tooth_is_not_a_trend(make) -> None:
    teeth = tuple((make.now - 30.0 + i, 400.0 + 300.0 * (i % 5)) for i in range(30))
    stage = learned(make, known={"lags": teeth}, **{**OVERLOAD, "lag": 1100, "lag_trend": 80.0})
    assert stage.trend.verdict != "rising"
    assert not stage.overloaded


def test_needed_rate_is_arrivals_with_headroom_and_sizes_work_a_backlog_off_in_time(make) -> None:
    calm = learned(make, input_rate=100.0, lag=300)
    assert calm.needed_rate == pytest.approx(110.0)
    behind = learned(make, input_rate=100.0, lag=7000)
    assert behind.needed_rate == pytest.approx(110.0)
    assert behind.sized_rate - calm.sized_rate == pytest.approx((7000 - 2 * 5.0 * 100.0) / 60.0)


def test_sizing_adds_what_piles_up_during_the_measured_stall(make) -> None:
    usual = learned(make, input_rate=100.0)
    assert usual.sized_rate - usual.needed_rate == pytest.approx(100.0 * 5.0 / 60.0)
    measured = learned(make, input_rate=100.0, known={"stalls_s": {"out": (1.0, 12.0, 11.0)}})
    assert measured.sized_rate - measured.needed_rate == pytest.approx(100.0 * 11.0 / 60.0)


def test_a_rising_rate_is_met_as_it_will_be_when_a_change_has_taken_effect_within_reason(make) -> None:
    def after(slope: float):
        rates = tuple((make.now - 25.0 + 5.0 * i, 100.0 - slope * (25.0 - 5.0 * i)) for i in range(5))
        return learned(make, input_rate=100.0, window_s=30.0, known={"rates": rates})

    flat, window_s, change_s = after(0.0), 30.0, 10.0 + 5.0  # a change takes 10 s and stalls for 5
    rising = after(1.0)
    # The mean over a window is half a window old; headroom and what is foreseen do not add up.
    now = 1.1 * (100.0 + window_s / 2)
    assert rising.needed_rate == pytest.approx(max(now, 100.0 + window_s / 2 + DAMPED * change_s))
    # One whole change later it could be mended.
    ahead_s = 2 * change_s + 30.0
    more = max(now, 100.0 + window_s / 2 + DAMPED * ahead_s) - 110.0
    assert rising.sized_rate - flat.sized_rate == pytest.approx(more)
    quick = learned(
        make,
        input_rate=100.0,
        window_s=30.0,
        known={"rates": rising.rates[:-1], "takes_s": {"out": (4.0, 2.0, 40.0)}},
    )
    assert quick.needed_rate == pytest.approx(max(now, 100.0 + window_s / 2 + DAMPED * (4.0 + 5.0)))
    # A falling one is half a window older than it seems, and may stop falling at any moment.
    assert after(-1.0).needed_rate == pytest.approx(1.1 * (100.0 - window_s / 2))
    assert after(3.9).sized_rate - flat.sized_rate == pytest.approx(200.0 - 110.0)  # twice at most
    assert after(0.05).needed_rate == flat.needed_rate  # may be chance


def test_stalls_are_the_median_of_the_latest(make) -> None:
    stage = make.scene().known.stage("work")
    for seconds in (100.0, 2.0, 3.0, 4.0, 3.0, 50.0):
        stage = with_stall(stage, "out", seconds, 2.0 * seconds)
    assert takes_s(stage, "out") == 6.0
    assert takes_s(stage, "in") == 3.0
    assert stall_s(stage, "out") == 3.0
    assert stall_s(stage, "in") == 1.0


def test_a_batch_becomes_a_sample_of_its_own_size(make) -> None:
    stage = learned(make, nodes=("pi1", "pi3"), batch_rows=80.0, batch_ms=1600.0)
    (sample,) = stage.batches
    assert (sample.replicas, sample.rtt_max_ms, sample.batch_rows, sample.partitions) == (2, 20.0, 80.0, 8)
    assert sample.mst == pytest.approx(50.0)
    assert stage.saturated == ()


def test_the_throughput_while_overloaded_is_a_sample_of_the_mst(make) -> None:
    stage = learned(make, nodes=("pi1", "pi2"), batch_rows=400.0, **OVERLOAD)
    (sample,) = stage.saturated
    assert (sample.replicas, sample.mst) == (2, 90.0)


@pytest.mark.parametrize(
    "given",
    [
        {"known": {"changed_at_s": 990.0}},
        {"known": {"sampled_at_s": 985.0}},
        {"batch_rows": 0.0},
        {"batch_ms": 0.0},
        {"down": ("pi2",)},
    ],
    ids=["just changed", "same batches", "no rows", "no batch", "an executor is missing"],
)
def test_no_sample_is_taken_of_what_is_not_one_configuration(make, given) -> None:
    assert learned(make, nodes=("pi1", "pi2"), **given).batches == ()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("key", ["input_rate", "processed_rate", "batch_ms", "batch_rows", "busyness"])
def test_impossible_numbers_teach_nothing(make, key, bad) -> None:
    world = make.scene(**{key: bad})
    assert evaluate(world.seen, world.known, GUARD) == world.known


def test_hours_in_one_configuration_do_not_drown_the_others(make) -> None:
    world = make.scene()
    known = world.known
    rates = [50.0, 53.0, 44.0, 61.0, 38.0]
    for look in range(200):
        at_s = 1000.0 + 31.0 * look
        m = make.metrics(at_s=at_s, batch_rows=40.0 + 40.0 * (look % 3), batch_ms=1e6 / rates[look % 5])
        known = evaluate(replace(world.seen, at_s=at_s, stages=(m,)), known, GUARD)
    kept = known.stage("work").batches
    assert len(kept) <= min(3 * SAME_CONFIGURATION, MOST_SAMPLES)
    assert {sample.batch_rows for sample in kept} >= {40.0, 80.0}


def test_a_sample_that_the_model_foretold_is_not_kept(make) -> None:
    world = make.scene()
    known = world.known
    for look in range(50):
        at_s = 1000.0 + 31.0 * look
        m = make.metrics(at_s=at_s, batch_rows=40.0, batch_ms=800.0)
        known = evaluate(replace(world.seen, at_s=at_s, stages=(m,), nodes=()), known, GUARD)
    # Replicas found running may have been started just now: what they do at first counts little.
    assert [sample.weight for sample in known.stage("work").batches] == [0.2, 0.2, 1.0, 1.0]


def _looks(make, known, times_s, nodes, cores, parts=None):
    """What is known after looks at these times, where each node uses so many cores."""
    for at_s in times_s:
        seen = replace(
            make.scene(nodes).seen,
            at_s=at_s,
            stages=(make.metrics(nodes=nodes, at_s=at_s),),
            nodes=tuple(
                replace(make.node_metrics(node, cores), cpu_used_by_part=parts or {}) for node in nodes
            ),
        )
        known = evaluate(seen, known, GUARD)
    return known


def test_replicas_are_cold_until_they_have_worked_and_the_newest_counts(make) -> None:
    known = make.scene(("pi1", "pi2")).known
    assert known.stage("work").cold == 0.0  # nothing is known
    known = _looks(make, known, [0.0], ("pi1", "pi2"), 0.2)
    assert known.stage("work").cold == 1.0
    known = _looks(make, known, range(2, 82, 2), ("pi1", "pi2"), 0.2)
    assert known.stage("work").worked_s == pytest.approx({"pi1": 16.0, "pi2": 16.0})
    assert known.stage("work").cold == pytest.approx(math.exp(-16.0 / WARM_CPU_S))
    assert known.stage("work").batches[-1].cold == pytest.approx(known.stage("work").cold, abs=0.1)
    known = _looks(make, known, [82.0, 84.0], ("pi1", "pi3"), 0.2)
    worked = known.stage("work").worked_s
    assert set(worked) == {"pi1", "pi3"}
    assert worked["pi3"] < 1.0 < worked["pi1"]
    # One that came back has begun anew.
    known = _looks(make, known, [86.0], ("pi1", "pi2"), 0.2)
    assert known.stage("work").worked_s["pi2"] < 1.0


def test_only_what_the_stages_own_replica_computes_warms_it(make) -> None:
    parts = {"toy-work": 0.1, "other-app": 0.5}
    known = _looks(make, make.scene().known, [0.0, 10.0], ("pi1",), 0.6, parts)
    assert known.stage("work").worked_s == pytest.approx({"pi1": 1.0})
    # An executor starts without its quota of a fifth of a core: that is no work.
    known = _looks(make, make.scene().known, [0.0, 10.0], ("pi1",), 0.9)
    assert known.stage("work").worked_s == pytest.approx({"pi1": 2.0})


def test_without_cpu_meters_nobody_is_called_cold_and_one_silent_meter_warms_nothing(make) -> None:
    known = _looks(make, make.scene().known, [0.0, 10.0, 20.0], ("pi1",), None)
    assert known.stage("work").worked_s == {}
    assert known.stage("work").cold == 0.0
    known = _looks(make, known, [30.0, 40.0], ("pi1",), 0.1)
    known = _looks(make, known, [50.0], ("pi1",), None)
    assert known.stage("work").worked_s == pytest.approx({"pi1": 2.0})


def test_a_backlog_that_shrinks_is_catching_up(make) -> None:
    world = make.scene(input_rate=100.0, lag=4000, lag_trend=-50.0)
    stage = evaluate(world.seen, world.known, GUARD).stage("work")
    (m,) = world.seen.stages
    assert backlog(m, stage) == pytest.approx(3000.0)
    assert catching_up(m, stage)
    assert not catching_up(replace(m, lag_trend=10.0), stage)
    assert not catching_up(replace(m, lag=900), stage)


def test_a_model_fitted_on_garbage_still_answers(make) -> None:
    world = make.scene()
    known = world.known
    for look in range(30):
        at_s = 1000.0 + 31.0 * look
        wild = make.metrics(
            at_s=at_s, batch_rows=float(1 + 7919 * look % 5000), batch_ms=float(1 + 104729 * look % 60000)
        )
        known = evaluate(replace(world.seen, at_s=at_s, stages=(wild,)), known, GUARD)
    model = known.stage("work").model("batch")
    assert model is not None
    assert 0.0 < model.mst(3, 100.0, 500.0, 8) < float("inf")
