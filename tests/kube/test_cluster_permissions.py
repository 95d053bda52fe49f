"""What a running testbed's own account can do on a real control plane, and what it cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fogctl.kube import names
from tests.kube.cluster_bed import PATIENCE_S, Bed
from tests.kube.control_plane import ControlPlane
from tests.kube.fake_nodes import FakeNodes


@pytest.fixture(scope="module")
def bed(
    control_plane: ControlPlane, fake_nodes: FakeNodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    nodes = fake_nodes.add(["cloud", "pi1", "stranger", "far"])
    made = Bed(control_plane, tmp_path_factory.mktemp("bed"), ("cloud", "pi1"))
    try:
        made.up()
        yield made
        made.cluster.down()
    finally:
        fake_nodes.remove(nodes)


def verdicts(bed: Bed) -> dict[str, tuple[str, str]]:
    """What `doctor` finds, by subject; how it ends also depends on what else is on this machine."""
    out, _ = bed.command("doctor", "-o", "json").communicate(timeout=PATIENCE_S)
    return {each["about"]: (each["verdict"], each["says"]) for each in json.loads(out)}


def test_doctor_proves_both_what_it_may_and_what_it_may_not(bed: Bed) -> None:
    found = verdicts(bed)
    assert found["cluster of lab"][0] == "ok"
    assert "Kubernetes v1.36" in found["cluster of lab"][1]
    assert found["nodes of lab"] == ("ok", "all 2 are ready")
    assert found["fog-operator may"][0] == "ok"
    assert found["fog-operator may not"][0] == "ok"
    assert "get secrets in kube-system" in found["fog-operator may not"][1]


def test_doctor_finds_a_permission_too_few_and_up_gives_it_back(bed: Bed) -> None:
    bed.plane.kubectl("delete", "rolebinding", names.OPERATOR, "-n", bed.space)
    verdict, says = verdicts(bed)["fog-operator may"]
    assert verdict == "problem"
    assert f"patch statefulsets in {bed.space}" in says
    (made,) = bed.up().made
    assert made.describe() == f"RoleBinding {names.OPERATOR} in {bed.space}"
    assert verdicts(bed)["fog-operator may"][0] == "ok"


def test_doctor_finds_a_permission_too_many(bed: Bed) -> None:
    subject = f"--serviceaccount={bed.space}:{names.OPERATOR}"
    bed.plane.kubectl("create", "clusterrolebinding", "fog-test-too-many", "--clusterrole=view", subject)
    try:
        verdict, says = verdicts(bed)["fog-operator may not"]
        assert verdict == "problem"
        assert says == "but can: list pods in kube-system"
    finally:
        bed.plane.kubectl("delete", "clusterrolebinding", "fog-test-too-many")


def test_doctor_says_when_the_cluster_is_away(bed: Bed) -> None:
    bed.plane.stop_api()
    try:
        verdict, says = verdicts(bed)["cluster of lab"]
        assert verdict == "problem"
        assert "cannot be reached" in says
    finally:
        bed.plane.start_api()


def test_doctor_names_testbeds_of_others(bed: Bed, tmp_path: Path) -> None:
    other = Bed(bed.plane, tmp_path, ("far",), "theirs")
    other.up()
    try:
        assert "testbed theirs is on the same cluster" in verdicts(bed)["another testbed"][1]
    finally:
        other.cluster.down()


FORBIDDEN = [
    ("get", "secrets", "-n", "kube-system"),
    ("get", "secrets", "-n", "SPACE"),
    ("create", "clusterrole", "x", "--verb=get", "--resource=pods"),
    ("create", "rolebinding", "x", "--clusterrole=admin", "--user=x", "-n", "SPACE"),
    ("create", "token", names.DRIVER, "-n", "SPACE"),
    ("create", "configmap", "x", "-n", "default"),
    ("delete", "namespace", "SPACE"),
    ("label", "node", "stranger", "a=b"),
    ("delete", "node", "pi1"),
    ("get", "--raw", "/api/v1/nodes/pi1/proxy/pods"),
]


def test_the_account_is_refused_everything_else(bed: Bed) -> None:
    for command in FORBIDDEN:
        argv = [word.replace("SPACE", bed.space) for word in command]
        assert "orbidden" in bed.plane.refused(*argv, kubeconfig=bed.operator)


def test_the_account_can_do_its_work(bed: Bed) -> None:
    plane = bed.plane
    plane.kubectl(
        "label", "node", "pi1", f"{names.run_label('taxi', 'nearest')}=yes", kubeconfig=bed.operator
    )
    plane.kubectl("create", "configmap", "x", "-n", bed.space, kubeconfig=bed.operator)
    plane.kubectl("delete", "configmap", "x", "-n", bed.space, kubeconfig=bed.operator)
    plane.kubectl("get", "secret", names.SECRET, "-n", bed.space, kubeconfig=bed.operator)
    plane.kubectl("delete", "pod", f"{names.BROKER}-0", "-n", bed.space, kubeconfig=bed.operator)


def test_the_drivers_account_stays_in_its_namespace(bed: Bed) -> None:
    as_driver = f"--as=system:serviceaccount:{bed.space}:{names.DRIVER}"
    for verb in ("create", "delete", "deletecollection", "watch"):
        bed.plane.kubectl("auth", "can-i", verb, "pods", "-n", bed.space, as_driver)
    for question in (
        ("create", "pods", "-n", "default"),
        ("get", "secrets", "-n", bed.space),
        ("patch", "nodes"),
        ("create", "statefulsets", "-n", bed.space),
    ):
        bed.plane.refused("auth", "can-i", *question, as_driver)
