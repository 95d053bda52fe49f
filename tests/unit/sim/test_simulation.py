"""The whole simulated world: changes, stalls, faults, latencies that change, stages in a row."""

from __future__ import annotations

import numpy as np
import pytest
from fognetem.matrix import Path

from fogctl.errors import FogError
from fogctl.runtime.app import Mode
from fogctl.runtime.deployment import AddReplica, RemoveReplica, Replica, SetShare
from fogctl.sim import Counted, StageParameters, Stalls, Timed
from fogctl.sim.faults import Fault
from fogctl.testbed.model import LatencyChange

STALLS = Stalls(
    registers_s=4.0,
    add_takes_s=6.0,
    out_s=4.0,
    first_trips=0.0,
    remove_takes_s=1.0,
    in_s=1.0,
    lost_s=3.0,
    first_s=0.0,
)
QUIET = StageParameters(
    tau_s=0.1,
    mu_per_s=100.0,
    beta=1.0,
    k0=4.0,
    k1=2.0,
    theta=1.0,
    noise=0.0,
    start_sigma=0.0,
    driver_s=0.0,
    cold=0.0,
    stalls=STALLS,
)


def constant(rate: float, seconds: int = 2000) -> Counted:
    return Counted(np.full(seconds, rate))


def with_stalls(stalls: Stalls = STALLS) -> StageParameters:
    from dataclasses import replace

    return replace(QUIET, stalls=stalls)


def held_up(sim, **far_ms: float) -> list[tuple[float, float]]:
    """Batches that took too long: their start, and by how much. `n2=50.0`: two, one at 50 ms."""
    done = sim.stages["work"].batches()
    found = []
    for end_s, took_s, rows, n in zip(
        *(done[k] for k in ("end_s", "duration_s", "rows", "replicas")), strict=True
    ):
        beyond = took_s - QUIET.batch_s(rows, n, 4, far_ms[f"n{n}"])
        if beyond > 0.5:
            found.append((end_s - took_s, beyond))
    return found


def test_a_new_replica_takes_its_time_and_stalls_once(world) -> None:
    sim = world.simulation(constant(500.0), ["e1"], with_stalls())
    sim.advance(100.0)
    before = sim.stage_metrics()[0].true_rate
    seen = []
    sim._later(103.0, lambda: seen.append((sim.deployment.stage("work").nodes, sim.stage_metrics()[0].nodes)))
    sim.change(AddReplica("work", Replica("e2")))
    assert sim.now_s == 106.0
    # It is placed, and paid for, at once, and works once it has registered.
    assert seen == [(("e1", "e2"), ("e1",))]
    assert sim.supply["work"] == [(0.0, 1), (100.0, 2)]
    assert sim.stage_metrics()[0].nodes == ("e1", "e2")
    sim.advance(250.0)
    ((at_s, seconds),) = held_up(sim, n1=0.0, n2=10.0)
    assert 104.0 <= at_s <= 109.0
    assert seconds == pytest.approx(4.0)
    assert sim.stage_metrics()[0].true_rate > 1.8 * before


def test_a_new_replica_is_cold_at_first_while_the_others_are_warm(world) -> None:
    from dataclasses import replace

    cold = replace(with_stalls(), cold=1.0, warm_cpu_s=1.0)
    sim = world.simulation(constant(500.0), ["e1"], cold)
    sim.advance(150.0)
    sim.change(AddReplica("work", Replica("e2")))
    sim.advance(170.0)
    begins = sim.stages["work"].batches()["duration_s"][-1] / sim.stages["work"].batches()["rows"][-1]
    sim.advance(400.0)
    ends = sim.stages["work"].batches()["duration_s"][-1] / sim.stages["work"].batches()["rows"][-1]
    assert begins > 1.3 * ends


def test_a_node_that_is_lost_while_its_replica_starts_is_not_kept(world) -> None:
    sim = world.simulation(constant(50.0), ["e1"], with_stalls(), faults=[Fault(102.0, "kill", "e2")])
    sim.advance(100.0)
    with pytest.raises(FogError, match="lost meanwhile"):
        sim.change(AddReplica("work", Replica("e2")))
    assert sim.deployment.stage("work").nodes == ("e1",)
    assert sim.supply["work"] == [(0.0, 1), (100.0, 2), (104.0, 1)]


def test_replicas_that_are_added_together_take_the_time_and_the_stall_of_one(world) -> None:
    sim = world.simulation(constant(500.0), ["e1"], with_stalls())
    sim.advance(100.0)
    sim.change(AddReplica("work", Replica("e2")), AddReplica("work", Replica("e3")))
    assert sim.now_s == 106.0
    sim.advance(200.0)
    assert sim.stage_metrics()[0].nodes == ("e1", "e2", "e3")
    assert [seconds for _, seconds in held_up(sim, n1=0.0, n3=50.0)] == [pytest.approx(4.0)]


def test_a_far_replica_stalls_for_longer_when_it_joins(world) -> None:
    from dataclasses import replace

    sim = world.simulation(constant(500.0), ["e1"], with_stalls(replace(STALLS, first_trips=10.0)))
    sim.advance(100.0)
    sim.change(AddReplica("work", Replica("e4")))  # 300 ms away
    sim.advance(150.0)
    assert [seconds for _, seconds in held_up(sim, n1=0.0, n2=300.0)] == [pytest.approx(4.0 + 10 * 0.3)]


def test_slots_let_a_replica_wait_for_its_tasks_at_once(world) -> None:
    # Four tasks on one replica at 300 ms: 4 + 2·4 trips with one slot, 4 + 2 with four. They share its CPU.
    assert QUIET.batch_s(100, 1, 4, 300.0, slots=1) == pytest.approx(0.4 + 1.0 + 12 * 0.3)
    assert QUIET.batch_s(100, 1, 4, 300.0, slots=4) == pytest.approx(0.4 + 1.0 + 6 * 0.3)
    app = world.app(("work", "records", "done"), slots=4)
    sim = world.simulation(constant(500.0), ["e4"], QUIET, app=app)
    sim.advance(100.0)
    (seen,) = sim.stage_metrics()
    assert seen.slots == 4
    assert seen.processed_rate == pytest.approx(230 / 4.5, rel=0.06)


def test_removing_a_replica_stalls_less(world) -> None:
    sim = world.simulation(constant(500.0), ["e1", "e2"], with_stalls())
    sim.advance(100.0)
    sim.change(RemoveReplica("work", Replica("e2")))
    sim.advance(200.0)
    assert sim.stage_metrics()[0].nodes == ("e1",)
    assert [seconds for _, seconds in held_up(sim, n1=0.0, n2=10.0)] == [pytest.approx(1.0)]


def test_a_share_changes_at_once_and_without_a_stall(world) -> None:
    sim = world.simulation(constant(500.0), ["e1"], with_stalls())
    sim.advance(100.0)
    sim.change(SetShare("work", Replica("e1", 0.5), 1.0))
    assert sim.now_s == 100.0
    assert sim.events == []
    sim.advance(200.0)
    # D = 0.4 + N/50 = 4.5 s.
    assert sim.stage_metrics()[0].processed_rate == pytest.approx(205 / 4.5, rel=0.02)


def test_a_lost_node_stalls_the_stage_and_comes_back_cold_when_restored(world) -> None:
    faults = [Fault(100.0, "kill", "e2"), Fault(200.0, "restore", "e2")]
    sim = world.simulation(constant(500.0), ["e1", "e2"], with_stalls(), faults=faults)
    sim.advance(150.0)
    assert sim.stage_metrics()[0].nodes == ("e1",)
    assert "e2" not in {node.node for node in sim.node_metrics()}
    assert sim.deployment.stage("work").nodes == ("e1", "e2")
    sim.advance(300.0)
    assert sim.stage_metrics()[0].nodes == ("e1", "e2")
    beyond = [seconds for _, seconds in held_up(sim, n1=0.0, n2=10.0)]
    assert beyond == [pytest.approx(3.0), pytest.approx(4.0)]
    assert [event["what"] for event in sim.events] == ["stall", "fault", "stall", "fault"]


def test_a_slow_node_slows_the_batch(world) -> None:
    sim = world.simulation(constant(500.0), ["e1"], QUIET, faults=[Fault(100.0, "slow", "e1", 0.5)])
    sim.advance(200.0)
    assert sim.stage_metrics()[0].processed_rate == pytest.approx(205 / 4.5, rel=0.02)


def test_latencies_change_by_the_testbeds_schedule(world) -> None:
    change = [LatencyChange(100.0, o, "e1", Path(rtt_ms=300.0)) for o in ("cloud", "broker")]
    sim = world.simulation(constant(500.0), ["e1"], QUIET, testbed=world.testbed(schedule=change))
    sim.advance(90.0)
    assert sim.latencies.rtt_ms("cloud", "e1") == 0.0
    near = sim.stage_metrics()[0].processed_rate
    sim.advance(200.0)
    assert sim.latencies.rtt_ms("broker", "e1") == 300.0
    assert sim.latencies.rtt_ms("cloud", "e4") == 300.0
    # 4 s are fixed, 1 s may be work: 100 rows in 5 s.
    assert near == pytest.approx(410 / 4.5, rel=0.02)
    assert sim.stage_metrics()[0].processed_rate == pytest.approx(20.0, rel=0.1)


def test_faster_nodes_work_faster(world) -> None:
    testbed = world.testbed((0.0, 0.0), cores=(0.2, 0.8))
    slow = world.simulation(constant(2000.0), ["e1"], QUIET, testbed=testbed)
    fast = world.simulation(constant(2000.0), ["e2"], QUIET, testbed=testbed)
    for sim in (slow, fast):
        sim.advance(100.0)
    rate = [sim.stage_metrics()[0].processed_rate for sim in (slow, fast)]
    assert rate[1] == pytest.approx(4 * rate[0], rel=0.04)


def test_stages_in_a_row_hand_on_what_they_keep(world) -> None:
    from dataclasses import replace

    app = world.app(("first", "records", "middle"), ("second", "middle", "done"))
    parameters = {"first": replace(QUIET, out_per_in=0.5), "second": QUIET}
    sim = world.simulation(constant(40.0, 600), ["e1"], parameters, app=app)
    sim.advance(300.0)
    one, two = sim.stage_metrics()
    assert one.processed_rate == pytest.approx(40.0, rel=0.05)
    assert two.input_rate == pytest.approx(20.0, rel=0.06)
    finished = sim.drain()
    assert finished is not None
    assert 600.0 <= finished <= 610.0
    assert sim.stages["second"].processed == pytest.approx(sim.stages["first"].processed / 2, abs=1)


def test_an_overloaded_stage_starves_the_next_and_only_it_falls_behind(world) -> None:
    app = world.app(("first", "records", "middle"), ("second", "middle", "done"))
    sim = world.simulation(constant(100.0), ["e1"], QUIET, app=app)  # half a node each: 45.6/s at most
    sim.advance(500.0)
    one, two = sim.stage_metrics()
    assert one.lag_trend == pytest.approx(100 - 205 / 4.5, rel=0.15)
    assert two.lag < 500
    assert two.lag_trend_low < 0 < two.lag_trend_high


def test_response_times_add_up_along_real_time_stages(world) -> None:
    app = world.app(("first", "records", "middle"), ("second", "middle", "done"), mode=Mode.real_time)
    times = np.cumsum(np.random.default_rng(1).exponential(0.1, 5000))
    parameters = {"first": StageParameters(mu_per_s=100.0), "second": StageParameters(mu_per_s=50.0)}
    sim = world.simulation(Timed(times), ["e1"], parameters, app=app)
    sim.advance(float(times[-1]) + 10)
    left, born = sim.stages["second"].output.records
    assert len(left) == 5000
    assert born == pytest.approx(times)
    # Half a node each: 50 and 25 records a second at a load of 10: at least 20 + 40 ms.
    assert 0.06 < (left - born).mean() < 0.09


def test_the_same_seed_gives_the_same_run_and_another_does_not(world) -> None:
    runs = []
    for seed in (1, 1, 2):
        sim = world.simulation(constant(80.0), ["e1", "e2"], StageParameters(), seed=seed)
        sim.advance(300.0)
        runs.append(sim.stages["work"].batches())
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_what_cannot_be_simulated_is_refused_in_a_sentence(world) -> None:
    with pytest.raises(FogError, match="has no node e9"):
        world.simulation(constant(1.0), ["e1"], QUIET, faults=[Fault(1.0, "kill", "e9")])
    with pytest.raises(FogError, match="has no node e9"):
        world.simulation(constant(1.0), ["e9"], QUIET)
    with pytest.raises(ValueError, match="mu_per_s"):
        StageParameters(mu_per_s=0.0)
    with pytest.raises(ValueError, match="out_s"):
        StageParameters(stalls=Stalls(out_s=float("nan")))
