"""Faults on a real control plane: made, told, restored by name, by time, by down; or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fogctl.kube import names
from fogctl.runtime import events, fault_record
from fogctl.runtime.fault_record import Kind
from tests.kube.agent_bed import APP, STAGE, brought_up, executor, fresh
from tests.kube.cluster_bed import Bed
from tests.kube.control_plane import ControlPlane, until
from tests.kube.fake_nodes import FakeNodes


@pytest.fixture(scope="module")
def shared(
    control_plane: ControlPlane, fake_nodes: FakeNodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    with brought_up(control_plane, fake_nodes, tmp_path_factory.mktemp("faults")) as bed:
        yield bed


@pytest.fixture
def bed(shared: Bed) -> Iterator[Bed]:
    """A testbed that is up, with an app on record and an executor of it."""
    with fresh(shared) as found:
        executor(found, "first", "pi1")
        yield found


def pods(bed: Bed) -> set[str]:
    return {pod["metadata"]["name"] for pod in bed.plane.read("pods", "-n", bed.space)["items"]}


def cordoned(bed: Bed, node: str) -> bool:
    return bool(bed.plane.read("node", node)["spec"].get("unschedulable"))


def active(bed: Bed) -> list[tuple[Kind, tuple[str, ...]]]:
    return [(fault.kind, fault.target) for fault in fault_record.read(bed.state.folder)]


def test_a_killed_node_loses_our_pods_and_gets_none_until_it_is_restored(bed: Bed) -> None:
    theirs = {"name": "theirs", "namespace": "default"}
    spec = {"nodeName": "pi1", "containers": [{"name": "main", "image": "x"}]}
    bed.plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": theirs, "spec": spec})
    try:
        bed.fogctl("fault", "kill", "pi1")
        assert cordoned(bed, "pi1")
        until(lambda: "first" not in pods(bed), "our pod is gone")
        assert active(bed) == [(Kind.node, ("pi1",))]
        there = {pod["metadata"]["name"] for pod in bed.plane.read("pods", "-n", "default")["items"]}
        assert "theirs" in there, "what is not ours stays"
        bed.fogctl("fault", "restore", "pi1")
        assert not cordoned(bed, "pi1")
    finally:
        bed.plane.kubectl("delete", "pod", "theirs", "-n", "default", "--force", "--ignore-not-found")


def test_a_killed_executor_is_gone_at_once_and_nothing_is_left_to_restore(bed: Bed) -> None:
    bed.fogctl("fault", "kill", "executor", "pi1")
    until(lambda: "first" not in pods(bed), "the executor is gone")
    assert active(bed) == []
    assert "nothing to restore" in bed.fogctl("fault", "restore", code=2)


def test_a_broker_can_be_kept_down_and_comes_back(bed: Bed) -> None:
    name = f"{names.BROKER}-0"
    assert name in pods(bed)
    before = bed.plane.read("pod", name, "-n", bed.space)["metadata"]["uid"]
    bed.fogctl("fault", "kill", "broker")
    until(
        lambda: (
            name in pods(bed) and bed.plane.read("pod", name, "-n", bed.space)["metadata"]["uid"] != before
        ),
        "another broker is started at once",
    )
    bed.fogctl("fault", "kill", "broker", "--for", "1h")
    until(lambda: name not in pods(bed), "it stays down")
    bed.fogctl("fault", "restore", "broker")
    until(lambda: name in pods(bed), "it comes back")


REFUSED = [
    (["kill", "delay-line"], "there is no delay line to kill"),
    (["kill", "master", f"{APP}.{STAGE}"], "Kubernetes is in its place"),
    (["kill", "bridge"], "emulated nodes only"),
    (["kill", "executor", "pi1", "--for", "5s"], "cannot be kept down alone"),
    (["kill", "pi9"], "there is no node pi9"),
    (["cut", "pi1", "pi2"], "hosts"),
    (["slow", "pi1", "--cpu", "150%"], "150%"),
]


def test_what_cannot_be_done_or_undone_is_refused_in_one_sentence(bed: Bed) -> None:
    for words, sentence in REFUSED:
        process = bed.command("fault", *words)
        out, err = process.communicate(timeout=120)
        assert process.returncode in (1, 2), out + err
        assert sentence in err, err
        assert len(err.strip().splitlines()) <= 3, err
        assert active(bed) == []


def test_a_node_that_somebody_else_cordoned_is_left_alone(bed: Bed) -> None:
    bed.plane.kubectl("cordon", "pi2")
    try:
        assert "somebody else has cordoned" in bed.fogctl("fault", "kill", "pi2", code=1)
        assert active(bed) == []
    finally:
        bed.plane.kubectl("uncordon", "pi2")


def test_a_slow_node_gives_its_replicas_less_and_again_all_of_it(bed: Bed) -> None:
    def limit() -> str | None:
        pod = bed.plane.read("pod", "first", "-n", bed.space)
        (container,) = pod["spec"]["containers"]
        found: str | None = container.get("resources", {}).get("limits", {}).get("cpu")
        return found

    bed.plane.kubectl("delete", "pod", "first", "-n", bed.space, "--force")
    executor(bed, "first", "pi1", cpu="4")
    bed.fogctl("fault", "slow", "pi1", "--cpu", "25%")
    assert limit() in ("1", "1000m")
    bed.fogctl("fault", "restore", "pi1")
    assert limit() in ("4", "4000m")
    assert json.dumps([event["what"] for event in events.read(bed.state.folder)]).count("restored") == 1
