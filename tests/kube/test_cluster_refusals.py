"""What a testbed refuses before it changes anything on a real control plane, each in one sentence."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from fogctl.kube import names
from tests.kube.certificates import Authority
from tests.kube.cluster_bed import Bed, everything
from tests.kube.control_plane import ControlPlane
from tests.kube.fake_nodes import FakeNodes

NODES = ("cloud", "pi1")


@pytest.fixture(scope="module")
def nodes(fake_nodes: FakeNodes) -> Iterator[tuple[str, ...]]:
    fake_nodes.add(NODES)
    yield NODES
    fake_nodes.remove(NODES)


@pytest.fixture
def bed(control_plane: ControlPlane, nodes: tuple[str, ...], tmp_path: Path) -> Iterator[Bed]:
    made = Bed(control_plane, tmp_path, nodes)
    yield made
    made.kubeconfig = None
    made.write()
    made.cluster.down()


def refused(bed: Bed, code: int) -> str:
    """What `up` says; nothing may be different afterwards, here or there."""
    before = everything(bed.plane)
    said = bed.fogctl("up", code=code).strip()
    assert everything(bed.plane) == before
    assert not bed.state.exists
    assert "Traceback" not in said
    return " ".join(said.split())


def with_config(bed: Bed, tmp_path: Path, change: Callable[[dict[str, object]], None]) -> None:
    """The administrator's kubeconfig with something wrong in it."""
    config = yaml.safe_load(bed.plane.kubeconfig.read_text())
    change(config)
    bed.kubeconfig = tmp_path / "other.kubeconfig"
    bed.kubeconfig.write_text(yaml.safe_dump(config))
    bed.write()


def test_a_namespace_of_somebody_else(bed: Bed) -> None:
    bed.plane.kubectl("create", "namespace", bed.space)
    try:
        said = refused(bed, 3)
        assert f"Namespace {bed.space} exists and was not made by fogctl" in said
        bed.fogctl("down")
        assert bed.plane.read("namespace", bed.space)["status"]["phase"] == "Active"
    finally:
        bed.plane.kubectl("delete", "namespace", bed.space)


def test_a_cluster_role_of_somebody_else(bed: Bed) -> None:
    role = "fog-lab-operator"
    bed.plane.kubectl("create", "clusterrole", role, "--verb=get", "--resource=pods")
    try:
        assert f"ClusterRole {role} exists and was not made by fogctl" in refused(bed, 3)
    finally:
        bed.plane.kubectl("delete", "clusterrole", role)


def test_the_same_testbed_brought_up_from_elsewhere(bed: Bed, tmp_path: Path) -> None:
    bed.up()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = Bed(bed.plane, elsewhere, NODES)
    said = refused(other, 3)
    assert "testbed lab is on this cluster already, but not brought up from here" in said
    assert bed.answer("status")["state"] == "up"


def test_a_node_that_is_not_in_the_cluster(bed: Bed) -> None:
    bed.nodes = (*NODES, "pi9")
    bed.write()
    assert "the cluster has no node pi9 (its nodes: " in refused(bed, 3)


def test_a_node_that_is_not_ready(
    bed: Bed, lose_node: Callable[[str], None], find_node: Callable[[str], None]
) -> None:
    lose_node("pi1")
    try:
        assert "node pi1 is not ready: Kubelet stopped posting node status" in refused(bed, 3)
    finally:
        find_node("pi1")


def test_a_storage_class_that_is_not_there(bed: Bed) -> None:
    bed.file.write_text(bed.file.read_text().replace("kube: {", "kube: {storage_class: gold, "))
    assert "the cluster has no storage class gold (it has: local-path)" in refused(bed, 3)


def test_latencies_without_hosts(bed: Bed) -> None:
    bed.file.write_text(bed.file.read_text() + "latency: {default: {rtt: 20ms}}\n")
    assert "names no hosts, so no latency can be injected" in refused(bed, 2)


def test_a_wrong_token(bed: Bed, tmp_path: Path) -> None:
    def change(config: dict[str, object]) -> None:
        config["users"] = [{"name": "admin", "user": {"token": "wrong"}}]

    with_config(bed, tmp_path, change)
    said = refused(bed, 3)
    assert f"the cluster at {bed.plane.url} does not accept the credentials in {bed.kubeconfig}" in said
    assert "wrong," not in said.replace("they are wrong,", ""), "the token itself is not shown"


def test_nothing_listens(bed: Bed, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{taken.getsockname()[1]}"

        def change(config: dict[str, object]) -> None:
            config["clusters"][0]["cluster"]["server"] = url  # type: ignore[index]

        with_config(bed, tmp_path, change)
        assert f"the cluster at {url} cannot be reached: nothing listens there" in refused(bed, 1)


def test_a_certificate_of_another_authority(bed: Bed, tmp_path: Path) -> None:
    other = Authority(tmp_path / "pki").certificate

    def change(config: dict[str, object]) -> None:
        trusted = {"certificate-authority-data": base64.b64encode(other.read_bytes()).decode()}
        config["clusters"][0]["cluster"] = {"server": bed.plane.url, **trusted}  # type: ignore[index]

    with_config(bed, tmp_path, change)
    assert f"the certificate of {bed.plane.url} is not one that" in refused(bed, 3)


def test_an_account_that_may_not(bed: Bed, tmp_path: Path) -> None:
    viewer = bed.plane.kubeconfig_for("viewer", bed.plane.authority.client("fog-test-viewer"))
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "fog-test-viewer"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "fog-test-viewer",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "fog-test-viewer"}],
    }
    bed.plane.kubectl("create", "clusterrole", "fog-test-viewer", "--verb=get,list", "--resource=*.*")
    bed.plane.apply(role)
    try:
        bed.kubeconfig = viewer
        bed.write()
        said = refused(bed, 3)
        assert f"the account in {viewer} may not create namespaces; " in said
    finally:
        bed.plane.kubectl("delete", "clusterrole,clusterrolebinding", "fog-test-viewer")


def test_no_kubeconfig_and_one_that_is_none(bed: Bed, tmp_path: Path) -> None:
    bed.kubeconfig = tmp_path / "nowhere"
    bed.write()
    assert "nowhere: there is no kubeconfig, so the cluster cannot be reached" in refused(bed, 1)
    bed.kubeconfig.write_text("[1, 2]")
    assert "not a" in refused(bed, 2)


def test_the_way_in_of_a_running_testbed_is_made_anew_when_it_is_spoilt(bed: Bed) -> None:
    bed.up()
    spoilt = yaml.safe_load(bed.operator.read_text())
    spoilt["users"][0]["user"]["token"] = "wrong"
    bed.operator.write_text(yaml.safe_dump(spoilt))
    assert bed.answer("status", code=1)["missing"] == [f"kubeconfig of {names.OPERATOR}"]
    assert bed.answer("up")["made"] == [f"kubeconfig of {names.OPERATOR} in {bed.operator}"]
    bed.plane.kubectl("get", "pods", "-n", bed.space, kubeconfig=bed.operator)
