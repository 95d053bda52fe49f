"""A testbed that is up on a control plane: its secrets; what is missing is mended, what changed changed."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator

import pytest

from fogctl.kube import names
from fogctl.kube.objects import Ref
from tests.kube.cluster_bed import Bed
from tests.kube.control_plane import ControlPlane
from tests.kube.fake_nodes import FakeNodes

NODES = ("cloud", "hub", "pi1", "pi2")


@pytest.fixture(scope="module")
def shared(
    control_plane: ControlPlane, fake_nodes: FakeNodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    """One for all: taking it down takes longer than any of these tests."""
    fake_nodes.add(NODES)
    try:
        made = Bed(control_plane, tmp_path_factory.mktemp("mends"), NODES)
        made.up()
        yield made
        made.cluster.down()
    finally:
        fake_nodes.remove(NODES)


@pytest.fixture
def bed(shared: Bed) -> Bed:
    """Of all four nodes, whatever the test before has done to it."""
    if tuple(shared.nodes) != NODES:
        shared.nodes = NODES
        shared.write()
        shared.up()
    return shared


def test_secrets_are_for_their_owner_only_and_in_no_ledger(bed: Bed, control_plane: ControlPlane) -> None:
    secret = control_plane.read("secret", names.SECRET, "-n", bed.space)["data"]
    assert set(secret) == {names.KAFKA_PASSWORD, names.CONTROL_TOKEN}
    for file in (bed.operator, bed.state.folder / "kafka.password", bed.state.folder / "control.token"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    password = (bed.state.folder / "kafka.password").read_text().strip()
    for file in (bed.state.ledger, bed.state.record):
        assert password not in file.read_text()
    settings = control_plane.read("configmap", names.BROKER_SETTINGS, "-n", bed.space)
    assert password not in json.dumps(settings)


def test_status_says_what_is_missing_and_up_mends_exactly_that(bed: Bed, control_plane: ControlPlane) -> None:
    whole = bed.answer("status")
    assert (whole["state"], whole["missing"]) == ("up", [])
    assert [node["name"] for node in whole["nodes"]] == list(NODES)
    assert all(node["ready"] and node["cpu_quota_cores"] == 4 for node in whole["nodes"])
    assert whole["nodes"][1]["pods"] == ["fog-broker-0: ready"]
    control_plane.kubectl("delete", "role", names.DRIVER, "-n", bed.space)
    control_plane.kubectl("label", "node", "pi2", f"{names.TESTBED}-")
    control_plane.kubectl("delete", "configmap", names.BROKER_SETTINGS, "-n", bed.space)
    half = bed.answer("status", code=1)
    assert half["state"] == "half-built"
    assert set(half["missing"]) == {
        f"Role {names.DRIVER} in {bed.space}",
        f"label {names.TESTBED}=lab on node pi2",
        f"ConfigMap {names.BROKER_SETTINGS} in {bed.space}",
    }
    assert set(bed.answer("up")["made"]) == set(half["missing"])
    assert bed.answer("status")["state"] == "up"


def test_up_waits_for_what_is_still_being_removed(bed: Bed, control_plane: ControlPlane) -> None:
    hold = json.dumps({"metadata": {"finalizers": ["fogctl.test/hold"]}})
    control_plane.kubectl(
        "patch", "configmap", names.BROKER_SETTINGS, "-n", bed.space, "--type=merge", "-p", hold
    )
    control_plane.kubectl("delete", "configmap", names.BROKER_SETTINGS, "-n", bed.space, "--wait=false")
    free = json.dumps({"metadata": {"finalizers": None}})

    def let_go() -> None:
        control_plane.kubectl(
            "patch", "configmap", names.BROKER_SETTINGS, "-n", bed.space, "--type=merge", "-p", free
        )

    timer = threading.Timer(3.0, let_go)
    timer.start()
    made = bed.answer("up")
    timer.join()
    assert made["made"] == [Ref("ConfigMap", names.BROKER_SETTINGS, bed.space).describe()]


def test_a_changed_testbed_is_changed_in_place_and_what_no_longer_belongs_goes(
    bed: Bed, control_plane: ControlPlane
) -> None:
    bed.nodes = NODES[:3]
    bed.write()
    changes = bed.answer("up")
    assert changes["removed"] == [f"label {names.TESTBED}=lab on node pi2"]
    assert changes["made"] == ["ClusterRole fog-lab-operator"], "it may no longer label pi2"
    assert names.TESTBED not in control_plane.read("node", "pi2")["metadata"]["labels"]
