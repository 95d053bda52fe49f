from __future__ import annotations

import pytest
from fognetem.matrix import LatencyMatrix
from hypothesis import given
from hypothesis import strategies as st

from fogctl.errors import FogError
from fogctl.runtime.deployment import (
    AddReplica,
    Deployment,
    RemoveReplica,
    Replica,
    SetShare,
    StagePlacement,
    StartStage,
    StopStage,
    changes,
    check,
    check_memory,
    from_json,
    inverse,
    mends,
    to_json,
)
from fogctl.testbed.model import Kind, Node, Role, Testbed

NODES = ("pi1", "pi2", "pi3", "pi4")
STAGES = ("parse", "count", "match")


def placements() -> st.SearchStrategy[tuple[Replica, ...]]:
    shares = st.sampled_from([0.25, 0.5, 1.0])
    return st.dictionaries(st.sampled_from(NODES), shares, min_size=1).map(
        lambda chosen: tuple(Replica(node, share) for node, share in chosen.items())
    )


def deployments() -> st.SearchStrategy[Deployment]:
    return st.dictionaries(st.sampled_from(STAGES), placements(), min_size=1).map(
        lambda stages: Deployment(
            "app",
            "app.yaml",
            tuple(
                StagePlacement(name, number, replicas)
                for number, (name, replicas) in enumerate(stages.items())
            ),
        )
    )


def carried_out(current: Deployment | None, steps: list[object]) -> dict[str, dict[str, float]]:
    """What runs after the steps, by an independent reading of each."""
    state = {p.stage: {r.node: r.share for r in p.replicas} for p in (current.stages if current else ())}
    for step in steps:
        match step:
            case StartStage(stage):
                assert stage not in state
                state[stage] = {}
            case StopStage(stage):
                del state[stage]
            case AddReplica(stage, replica):
                assert replica.node not in state[stage]
                state[stage][replica.node] = replica.share
            case RemoveReplica(stage, replica):
                del state[stage][replica.node]
            case SetShare(stage, replica, before):
                assert state[stage][replica.node] == before
                state[stage][replica.node] = replica.share
    return state


def running(deployment: Deployment | None) -> dict[str, dict[str, float]]:
    return carried_out(deployment, [])


@given(st.none() | deployments(), st.none() | deployments())
def test_changes_lead_from_one_deployment_to_the_other(
    old: Deployment | None, new: Deployment | None
) -> None:
    assert carried_out(old, list(changes(old, new))) == running(new)


@given(deployments())
def test_a_deployment_that_is_there_needs_no_change(deployment: Deployment) -> None:
    assert changes(deployment, deployment) == []


@given(st.none() | deployments(), st.none() | deployments(), st.sets(st.sampled_from(STAGES)), st.data())
def test_undoing_what_was_done_so_far_restores_what_was_there(
    old: Deployment | None, new: Deployment | None, anew: set[str], data: st.DataObject
) -> None:
    steps = changes(old, new, dict.fromkeys(anew, "options"))
    done = steps[: data.draw(st.integers(0, len(steps)))]
    undone = [back for step in reversed(done) for back in inverse(step)]
    assert carried_out(old, [*done, *undone]) == running(old)


@given(deployments(), deployments())
def test_a_stage_never_has_fewer_replicas_on_the_way_than_at_either_end(
    old: Deployment, new: Deployment
) -> None:
    steps = list(changes(old, new))
    common = {p.stage for p in old.stages} & {p.stage for p in new.stages}
    for cut in range(len(steps) + 1):
        state = carried_out(old, steps[:cut])
        for stage in common:
            assert len(state[stage]) >= min(len(old.stage(stage).replicas), len(new.stage(stage).replicas))


@given(deployments(), st.none() | deployments(), st.sets(st.sampled_from(STAGES)))
def test_stages_that_start_anew_are_stopped_first_and_end_as_wanted(
    old: Deployment, new: Deployment | None, named: set[str]
) -> None:
    anew = {p.stage: "options" for p in (new.stages if new else ()) if p.stage in named and p in old.stages}
    steps = changes(old, new, anew)
    assert carried_out(old, list(steps)) == running(new)
    for stage in anew:
        assert StopStage(stage, "options", old.stage(stage).replicas) in steps
        assert StartStage(stage) in steps


@given(deployments())
def test_a_deployment_survives_json(deployment: Deployment) -> None:
    assert from_json(to_json(deployment)) == deployment


def _testbed() -> Testbed:
    names = ("cloud", *NODES)
    nodes = tuple(
        Node(name, Role.control if name == "cloud" else Role.edge, "site", "rpi4-4g", 0.2, None)
        for name in names
    )
    return Testbed("lab", Kind.virtual, nodes, LatencyMatrix(names))


def _on(*replicas: Replica) -> Deployment:
    return Deployment("app", "app.yaml", (StagePlacement("parse", 0, replicas),))


@pytest.mark.parametrize(
    ("replicas", "sentence"),
    [
        ((Replica("pi9"),), "has no node pi9"),
        ((Replica("cloud"),), "role control"),
        ((Replica("pi1", 0.0),), "more than 0 %"),
        ((Replica("pi1", 1.5),), "at most 100 %"),
        ((), "no replica"),
    ],
)
def test_impossible_placements_are_refused(replicas: tuple[Replica, ...], sentence: str) -> None:
    with pytest.raises(FogError, match=sentence):
        check([_on(*replicas)], _testbed())


def test_an_unknown_stage_is_named_with_those_there_are() -> None:
    with pytest.raises(FogError) as caught:
        _on(Replica("pi1")).stage("prase")
    assert str(caught.value) == "app app has no stage prase (its stages: parse)"


def test_two_apps_cannot_have_more_than_a_whole_node_together() -> None:
    check([_on(Replica("pi1", 0.5)), _on(Replica("pi1", 0.5))], _testbed())
    with pytest.raises(FogError, match=r"pi1 would have 110%"):
        check([_on(Replica("pi1", 0.5)), _on(Replica("pi1", 0.6))], _testbed())


def test_a_node_without_room_is_refused_with_its_figures() -> None:
    testbed = Testbed(
        "lab",
        Kind.virtual,
        (Node("pi1", Role.edge, "s", "rpi4-2g", 0.2, 820 << 20),),
        LatencyMatrix(("pi1",)),
    )
    heaps = {("app", "parse"): 256 << 20, ("other", "parse"): 256 << 20}
    one = _on(Replica("pi1", 0.5))
    check_memory([one], heaps, testbed)
    other = Deployment("other", "app.yaml", one.stages)
    with pytest.raises(FogError, match=r"pi1 has no room: its memory is 820 MiB, .* need 832 MiB"):
        check_memory([one, other], heaps, testbed)


@given(deployments(), st.dictionaries(st.sampled_from(STAGES), st.sets(st.sampled_from(NODES))))
def test_after_mending_exactly_the_recorded_replicas_are_there(
    current: Deployment, there: dict[str, set[str]]
) -> None:
    found = {placement.stage: set(there.get(placement.stage, ())) for placement in current.stages}
    for step in mends(current, current, changes(current, current), {k: sorted(v) for k, v in found.items()}):
        match step:
            case AddReplica(stage, replica):
                assert replica.node not in found[stage]
                found[stage].add(replica.node)
            case RemoveReplica(stage, replica):
                found[stage].remove(replica.node)
    assert found == {placement.stage: set(placement.nodes) for placement in current.stages}


@given(deployments(), deployments())
def test_nothing_is_mended_where_the_record_is_right(current: Deployment, wanted: Deployment) -> None:
    there = {placement.stage: list(placement.nodes) for placement in current.stages}
    assert mends(current, wanted, changes(current, wanted), there) == []
    assert mends(None, wanted, changes(None, wanted), {}) == []
