"""What a testbed is on a real control plane, how it is mended and goes; the rest is what every kind does."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fogctl.kube import names
from tests.kube.cluster_bed import Bed, Make, everything, until_recorded
from tests.kube.control_plane import ControlPlane, names_of, until
from tests.kube.fake_nodes import FakeNodes
from tests.kube.storage import offer_played

NODES = ("cloud", "hub", "pi1", "pi2")
VOLUMES = 4


@pytest.fixture(scope="module")
def nodes(fake_nodes: FakeNodes) -> Iterator[None]:
    fake_nodes.add(NODES)
    yield
    fake_nodes.remove(NODES)


@pytest.fixture
def make(control_plane: ControlPlane, nodes: None, tmp_path: Path) -> Iterator[Make]:
    made: list[Bed] = []

    def bed(nodes: tuple[str, ...] = NODES, name: str = "lab") -> Bed:
        folder = tmp_path / name
        folder.mkdir()
        offer_played(control_plane, VOLUMES)  # a volume is used once
        made.append(Bed(control_plane, folder, nodes, name))
        return made[-1]

    yield bed
    for each in made:
        each.cluster.down()


def labels_of(plane: ControlPlane, node: str) -> dict[str, str]:
    found: dict[str, str] = plane.read("node", node)["metadata"]["labels"]
    return found


def test_up_labels_the_nodes_and_makes_what_apps_stand_on(
    make: Make, control_plane: ControlPlane, tell: Callable[[str], None]
) -> None:
    bed = make()
    began = time.monotonic()
    made = bed.answer("up")
    tell(f"fogctl up on 4 played nodes: {time.monotonic() - began:.1f} s, {len(made['made'])} parts")
    for node in NODES:
        assert labels_of(control_plane, node)[names.TESTBED] == "lab"
    broker = control_plane.read("pod", "fog-broker-0", "-n", bed.space)
    assert broker["spec"]["nodeName"] == "hub"
    assert broker["spec"]["hostNetwork"] is True
    for kind in ("serviceaccounts", "roles", "rolebindings", "secrets", "configmaps", "statefulsets", "pvc"):
        for item in control_plane.read(kind, "-n", bed.space, "-l", names.selector("lab"))["items"]:
            assert names.is_ours(item["metadata"]["labels"], "lab")
    claims = names_of(control_plane.read("pvc", "-n", bed.space))
    assert sorted(claims) == [names.BROKER, names.STATE_CLAIM]
    began = time.monotonic()
    gone = bed.answer("down")
    tell(f"fogctl down: {time.monotonic() - began:.1f} s")
    assert len(gone["removed"]) == made["steps"] - 1, "all but the kubeconfig, which is in the state folder"


def test_down_killed_is_gone_on_with(make: Make, control_plane: ControlPlane) -> None:
    bed = make()
    before = everything(control_plane)
    bed.up()
    lines = bed.state.ledger.read_bytes().count(b"\n")
    process = bed.command("down")
    until_recorded(bed, lines + 2, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    bed.fogctl("down")
    assert everything(control_plane) == before


def test_an_api_server_that_restarts_in_the_middle_is_waited_for(
    make: Make, control_plane: ControlPlane
) -> None:
    bed = make()
    before = everything(control_plane)
    process = bed.command("up")
    until_recorded(bed, 6, process)
    control_plane.restart_api()
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "testbed lab is up" in out
    assert bed.answer("status")["state"] == "up"
    down = bed.command("down")
    until_recorded(bed, bed.state.ledger.read_bytes().count(b"\n") + 1, down)
    control_plane.restart_api()
    assert down.wait(300) == 0
    until(lambda: everything(control_plane) == before, "the cluster is as it was")


def test_a_hundred_nodes_are_labelled(
    make: Make,
    control_plane: ControlPlane,
    kwok_nodes: Callable[..., list[str]],
    tell: Callable[[str], None],
) -> None:
    nodes = tuple(kwok_nodes(f"n{number}" for number in range(100)))
    bed = make(nodes)
    before = everything(control_plane)
    began = time.monotonic()
    bed.up()
    up_s = time.monotonic() - began
    labelled = names_of(control_plane.read("nodes", "-l", f"{names.TESTBED}=lab"))
    assert sorted(labelled) == sorted(nodes)
    began = time.monotonic()
    bed.cluster.down()
    tell(f"100 played nodes: up in {up_s:.1f} s, down in {time.monotonic() - began:.1f} s")
    assert everything(control_plane) == before


def test_two_testbeds_share_a_cluster_but_no_node(make: Make, control_plane: ControlPlane) -> None:
    first = make(("cloud", "hub"), "first")
    second = make(("pi1", "pi2"), "second")
    first.up()
    second.up()
    greedy = Bed(control_plane, second.folder, ("pi1", "hub"), "second")
    assert "node hub belongs to testbed first" in greedy.fogctl("up", code=3)
    second.nodes = ("pi1", "pi2")
    second.write()
    first.cluster.down()
    assert second.answer("status")["state"] == "up"


def test_a_lost_node_does_not_hold_down_up(
    make: Make,
    control_plane: ControlPlane,
    lose_node: Callable[[str], None],
    find_node: Callable[[str], None],
) -> None:
    bed = make()
    bed.up()
    lose_node("hub")
    try:
        lost = bed.answer("status", code=1)
        assert any("node hub: it is not ready" in what for what in lost["missing"])
        bed.fogctl("down")
    finally:
        find_node("hub")
    assert names.TESTBED not in labels_of(control_plane, "hub")
    assert control_plane.refused("get", "namespace", bed.space)


def test_what_somebody_else_put_into_the_namespace_stays(make: Make, control_plane: ControlPlane) -> None:
    bed = make()
    bed.up()
    control_plane.kubectl("create", "configmap", "notes", "-n", bed.space, "--from-literal=a=b")
    said = bed.fogctl("down", code=1)
    assert f"namespace {bed.space} stays, because ConfigMap notes is in it" in said
    left = names_of(control_plane.read("configmaps,statefulsets,secrets,pvc", "-n", bed.space))
    assert sorted(left) == ["kube-root-ca.crt", "notes"]
    for node in NODES:
        assert names.TESTBED not in labels_of(control_plane, node)
    control_plane.kubectl("delete", "configmap", "notes", "-n", bed.space)
    bed.fogctl("down")
    assert control_plane.refused("get", "namespace", bed.space)


def test_labels_and_objects_that_became_others_are_left_alone(
    make: Make, control_plane: ControlPlane
) -> None:
    bed = make()
    bed.up()
    control_plane.kubectl("label", "node", "pi1", f"{names.TESTBED}=theirs", "--overwrite")
    role = "fog-lab-operator"
    control_plane.kubectl("label", "clusterrole", role, f"{names.MANAGED_BY}=helm", "--overwrite")
    bed.cluster.down()
    assert labels_of(control_plane, "pi1")[names.TESTBED] == "theirs"
    assert control_plane.read("clusterrole", role)["metadata"]["labels"][names.MANAGED_BY] == "helm"
    control_plane.kubectl("delete", "clusterrole", role)
    control_plane.kubectl("label", "node", "pi1", f"{names.TESTBED}-")


def test_down_takes_the_labels_of_stages_off_too(make: Make, control_plane: ControlPlane) -> None:
    bed = make()
    before = everything(control_plane)
    bed.up()
    for node in ("pi1", "pi2"):
        control_plane.kubectl("label", "node", node, f"{names.run_label('taxi', 'nearest')}=yes")
    assert bed.answer("status")["nodes"][2]["labels"] == ["fogctl.io/run-taxi.nearest", names.TESTBED]
    bed.cluster.down()
    assert everything(control_plane) == before


def test_init_makes_a_testbed_of_the_clusters_nodes(make: Make, control_plane: ControlPlane) -> None:
    bed = make()
    bed.file.unlink()
    told = bed.answer("init", "lab", "--kind", "k3s", "--kubeconfig", str(control_plane.kubeconfig))
    assert told["up"]
    assert set(NODES) <= set(told["nodes"])
    assert bed.answer("status")["state"] == "up"
    again = bed.answer("init", "lab", "--kind", "k3s", "--kubeconfig", str(control_plane.kubeconfig))
    assert again["up"], "the same command again goes on where it ended"
