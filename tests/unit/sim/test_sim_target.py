"""The simulator as the agent's target: plans are carried out as on a live testbed."""

from __future__ import annotations

import numpy as np
import pytest

from fogctl.agent.plan import Plan, Scale, Share
from fogctl.agent.target import Target
from fogctl.errors import FogError
from fogctl.sim import Counted, SimTarget, StageParameters, Timed
from fogctl.sim.faults import Fault


@pytest.fixture
def target(world) -> SimTarget:
    return SimTarget(world.simulation(Counted(np.full(5000, 60.0)), ["e1"], StageParameters()))


def test_it_is_a_target(target: SimTarget) -> None:
    agreed: Target = target
    facts = agreed.facts("toy")
    assert [stage.stage for stage in facts.stages] == ["work"]
    assert [node.name for node in facts.edge] == ["e1", "e2", "e3", "e4"]
    assert facts.origins == ("cloud", "broker")
    assert agreed.latencies.rtt_ms("cloud", "e4") == 300.0
    assert agreed.host() is None
    assert agreed.others("toy") == {}


def test_sleeping_lets_only_simulated_time_pass(target: SimTarget) -> None:
    target.sleep(3600.0)
    assert target.now_s() == 3600.0
    (stage,) = target.reader.stages("toy")
    assert stage.at_s == 3600.0
    assert stage.processed_rate == pytest.approx(60.0, rel=0.05)
    assert {node.node for node in target.reader.nodes()} == {"cloud", "broker", "e1", "e2", "e3", "e4"}


def test_a_plan_is_applied_once_however_often_it_is_asked_for(target: SimTarget) -> None:
    target.sleep(60.0)
    plan = Plan((Scale("work", ("e1", "e2"), 0.5), Share("work", "e1", 0.8)), "test")
    target.apply("toy", plan)
    placed = target.deployment("toy").stage("work").replicas
    assert [(replica.node, replica.share) for replica in placed] == [("e1", 0.8), ("e2", 0.5)]
    after = target.now_s()
    assert after > 60.0
    target.apply("toy", plan)
    assert target.now_s() == after
    assert target.deployment("toy").stage("work").replicas == placed


def test_a_plan_that_fails_half_way_is_undone(world) -> None:
    simulation = world.simulation(
        Counted(np.full(500, 60.0)), ["e1"], StageParameters(), faults=[Fault(0.0, "kill", "e3")]
    )
    target = SimTarget(simulation)
    target.sleep(60.0)
    with pytest.raises(FogError, match="e3 does not answer") as failed:
        target.apply("toy", Plan((Scale("work", ("e1", "e2", "e3")),), "test"))
    assert failed.value.hint == "what had been changed was undone"
    assert target.deployment("toy").stage("work").nodes == ("e1",)


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (Scale("work", ()), "no replica"),
        (Scale("work", ("cloud",)), "role control"),
        (Share("work", "e2", 0.5), "no replica on e2"),
        (Share("work", None, 1.5), "at most 100 %"),
        (Scale("rest", ("e1",)), "no stage rest"),
    ],
)
def test_what_a_live_testbed_would_refuse_is_refused_before_anything_is_done(target, action, says) -> None:
    with pytest.raises(FogError, match=says):
        target.apply("toy", Plan((action,), "test"))
    assert target.now_s() == 0.0
    assert target.deployment("toy").stage("work").nodes == ("e1",)


def test_arrivals_are_told_up_to_now_and_only_where_single_ones_are_simulated(world, target) -> None:
    assert target.arrivals("toy") == {}
    timed = SimTarget(world.simulation(Timed(np.arange(1.0, 100_001.0) / 100), ["e1"], StageParameters()))
    timed.sleep(5.0)
    assert timed.arrivals("toy")["work"] == tuple(np.arange(1.0, 501.0) / 100)
    timed.sleep(900.0)
    assert len(timed.arrivals("toy")["work"]) == 50_000
    assert timed.arrivals("toy")["work"][-1] == 905.0


def test_another_app_is_not_deployed(target: SimTarget) -> None:
    with pytest.raises(FogError, match="app taxi is not deployed"):
        target.stages("taxi")
