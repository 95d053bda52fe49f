"""Where ds2 puts the replicas it asks for: by the profile where there is one, and never by moving others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fogctl.agent.knowledge import RecordCost, StageFacts
from fogctl.agent.plan import Plan, Scale
from fogctl.agent.policies.ds2 import Ds2
from fogctl.agent.policy import make as policy
from fogctl.agent.policy import settings
from fogctl.errors import FogError

CHEAP, DEAR = RecordCost(0.0001, 0.0, 100.0), RecordCost(0.01, 0.0, 100.0)
NEAR = {"pi1": 5.0, "pi2": 5.0, "pi3": 5.0, "pi4": 10.0}


def world(
    make: Any,
    stages: dict[str, Any],
    cost: RecordCost | None = DEAR,
    *,
    cores: dict[str, float] | None = None,
    busy: str = "count",
    **more: Any,
) -> Any:
    """parse → count at 100 records/s; the busy stage needs two replicas, the other one."""
    facts = {
        "parse": StageFacts("parse", 8, 5.0, ("lines",), "parsed", cost=cost and CHEAP),
        "count": StageFacts("count", 8, 5.0, ("parsed",), "counts", cost=cost),
    }
    rates = {"input_rate": 100.0, "processed_rate": 100.0}
    made = make.scene(
        stages=stages,
        facts=facts,
        distances=NEAR,
        each={name: {**rates, "busyness": 0.95 if name == busy else 0.1} for name in stages},
        **more,
    )
    edge = tuple(replace(node, cpu_cores=(cores or {}).get(node.name, 0.2)) for node in made.known.edge)
    return replace(made, known=replace(made.known, edge=edge))


def nodes(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {action.stage: action.nodes for action in plan.actions if isinstance(action, Scale)}


def test_a_heavy_stage_gets_the_node_with_cpu_and_not_the_nearest(make: Any) -> None:
    at = world(make, {"parse": ("pi1",), "count": ("pi2",)}, cores={"pi3": 0.02})
    assert nodes(policy("ds2", {"place": "nearest"}).decide(at.seen, at.known)) == {"count": ("pi2", "pi3")}
    plan = policy("ds2").decide(at.seen, at.known)
    assert nodes(plan) == {"count": ("pi2", "pi4")}
    assert "placed by its profile" in plan.reason


def test_without_a_profile_ds2_is_as_it_was(make: Any) -> None:
    at = world(make, {"parse": ("pi1",), "count": ("pi2",)}, None, cores={"pi3": 0.02})
    assert policy("ds2").decide(at.seen, at.known) == Ds2(place="nearest").decide(at.seen, at.known)


def test_what_stays_is_not_moved_and_a_removal_takes_the_worst_node(make: Any) -> None:
    at = world(make, {"parse": ("pi1",), "count": ("pi3", "pi2", "pi4")}, cores={"pi3": 0.02}, busy="neither")
    assert nodes(Ds2(place="nearest").decide(at.seen, at.known)) == {"count": ("pi2",)}
    (kept,) = nodes(Ds2().decide(at.seen, at.known))["count"]
    assert kept in ("pi2", "pi4")


def test_replicas_with_half_a_node_share_one_with_another_stage(make: Any) -> None:
    halves = {"parse": {"pi1": 0.5, "pi2": 0.5}, "count": {"pi3": 0.5}}
    slow = {"pi4": 0.001}
    at = world(make, halves, cores=slow, others={"pi3": 0.5})
    (scale,) = (a for a in Ds2().decide(at.seen, at.known).actions if a.stage == "count")
    assert isinstance(scale, Scale)
    assert scale.nodes[0] == "pi3"
    assert scale.nodes[1] in ("pi1", "pi2")  # beside parse; pi4 is empty and slow
    assert scale.share == 0.5


def test_nodes_that_are_silent_or_full_are_not_used(make: Any) -> None:
    at = world(make, {"parse": ("pi1",), "count": ("pi2",)}, down=("pi4",), others={"pi3": 0.5})
    assert nodes(Ds2().decide(at.seen, at.known)) == {}
    at = world(make, {"parse": ("pi1",), "count": ("pi2",)}, down=("pi4",))
    assert nodes(Ds2().decide(at.seen, at.known)) == {"count": ("pi2", "pi3")}


@pytest.mark.parametrize(("place", "second"), [("spread", "pi4"), ("pack", "pi1")])
def test_other_strategies_look_at_slots_alone(make: Any, place: str, second: str) -> None:
    quarters = {"parse": {"pi1": 0.25}, "count": {"pi2": 0.25, "pi3": 0.25}}
    at = world(make, quarters, None, known={"min_replicas": 1})
    known = at.known.with_stage("count", replace(at.known.stage("count"), min_replicas=3))
    plan = Ds2(place=place).decide(at.seen, known)  # type: ignore[arg-type]
    assert nodes(plan)["count"] == ("pi2", "pi3", second)
    assert f"placed {place}" in plan.reason


def test_another_seed_is_another_random_node(make: Any) -> None:
    at = world(make, {"parse": ("pi1",), "count": ("pi2",)})
    found = {nodes(Ds2(place="random", seed=seed).decide(at.seen, at.known))["count"] for seed in range(8)}
    assert found == {("pi2", "pi3"), ("pi2", "pi4")}


def test_places_that_there_are_not_are_refused() -> None:
    assert settings("ds2") == {"place": "auto", "seed": 0}
    with pytest.raises(FogError, match="place"):
        policy("ds2", {"place": "best"})
