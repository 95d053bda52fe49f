"""Real Spark on a real control plane: its executors land on exactly the labelled nodes, resized there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fogctl.errors import REFUSED, FogError
from fogctl.kube import names, resize, stage_objects
from fogctl.kube.app_objects import EXECUTOR_ROLE, StageRef
from fogctl.kube.ground import KubeGround
from fogctl.kube.objects import Ref
from fogctl.kube.running import KubeRunning
from fogctl.runtime import app as apps
from fogctl.runtime import deployment
from fogctl.runtime.carry_out import carry_out
from fogctl.runtime.deployment import Replica, SetShare
from tests.kube.cluster_bed import Bed
from tests.kube.control_plane import ControlPlane, until
from tests.kube.fake_nodes import FakeNodes
from tests.kube.pods import pod as tiny_pod
from tests.kube.spark_driver import SparkDriver, spark_driver

NAME = "apps"
NODES = ("cloud", "hub", "pi1", "pi2", "pi3")
ANSWER = "kube.fogctl.test/resize"
SYSTEM = "kubernetes.io/os"
REF = StageRef(NAME, "identity", "copy")


@pytest.fixture(scope="module")
def shared(
    control_plane: ControlPlane, fake_nodes: FakeNodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubeGround]:
    """A testbed for all tests of this file: taking one down takes longer than most of them."""
    fake_nodes.add(NODES, cpu="4")
    try:
        bed = Bed(control_plane, tmp_path_factory.mktemp("apps"), NODES, NAME)
        bed.cluster.up()
        yield KubeGround.on(KubeRunning.load(NAME, bed.state_dir))
        bed.cluster.down()
    finally:
        fake_nodes.remove(NODES)


@pytest.fixture
def ground(shared: KubeGround, control_plane: ControlPlane) -> Iterator[KubeGround]:
    """The testbed for one test; no stage is on it, before and afterwards."""
    yield shared
    left = ("statefulsets,pods,configmaps", "-n", REF.namespace, "-l", names.APP)
    control_plane.kubectl("delete", *left, "--force", "--grace-period=0")
    for node in NODES:
        stage_objects.unlabel(shared.objects, REF, node)


@pytest.fixture
def driver(ground: KubeGround, control_plane: ControlPlane, tmp_path: Path) -> Iterator[SparkDriver]:
    folder = tmp_path / "driver"
    folder.mkdir()
    with spark_driver(control_plane, REF, "cloud", folder) as made:
        yield made


def placed(ground: KubeGround) -> list[str | None]:
    """The nodes of the executors; None: it waits for one."""
    pods = stage_objects.pods(ground.objects, REF, EXECUTOR_ROLE)
    there = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    return sorted((pod["spec"].get("nodeName") for pod in there), key=str)


def test_executors_follow_the_labels_and_are_resized_in_place(
    ground: KubeGround, driver: SparkDriver, control_plane: ControlPlane, tell: Callable[[str], None]
) -> None:
    until(lambda: placed(ground) == [None], "without a labelled node an executor waits")
    stage_objects.label(ground.objects, REF, "pi1")
    until(lambda: placed(ground) == ["pi1"], "it is placed as soon as a node is labelled")
    assert ground.executors("identity", "copy") == ["pi1"]

    driver.ask(ask="scale", executors=3)
    until(lambda: placed(ground) == [None, None, "pi1"], "one a node, and none elsewhere")
    stage_objects.label(ground.objects, REF, "pi3")
    until(lambda: placed(ground) == [None, "pi1", "pi3"], "the second labelled node gets one")
    driver.ask(ask="scale", executors=2)
    until(lambda: placed(ground) == ["pi1", "pi3"], "the one that waits in vain is not wanted any more")

    assert_owned_by_the_driver_and_us(control_plane)
    assert_resized(ground, control_plane)
    assert_lost_node_is_waited_for(ground, control_plane)
    assert_driver_may_no_more_than_it_needs(control_plane)
    assert_state_needs_storage_in_common(driver)


def assert_state_needs_storage_in_common(driver: SparkDriver) -> None:
    """Real queries, as Spark has analysed them: whatever keeps state is found, and named."""
    for state in ("counts", "windows", "join"):
        said = driver.ask(ask="check", state=state, shared=False)["said"]
        assert said.startswith("the query keeps state ("), said
        assert said.endswith(
            "), and the nodes have no storage in common "
            "(give kube: a storage_class that many nodes can write, with shared_storage: true)"
        )
        assert driver.ask(ask="check", state=state, shared=True) == {"said": None}
    assert driver.ask(ask="check", state="none", shared=False) == {"said": None}


def assert_owned_by_the_driver_and_us(plane: ControlPlane) -> None:
    for pod in plane.read("pods", "-n", REF.namespace, "-l", REF.selector(EXECUTOR_ROLE))["items"]:
        assert names.is_ours(pod["metadata"]["labels"], NAME)
        assert [owner["name"] for owner in pod["metadata"]["ownerReferences"]] == [REF.driver_pod]
        (container,) = pod["spec"]["containers"]
        assert container["command"] == ["python3", "-m", "fogctl.kube.executor_main"]
        assert container["resources"]["requests"]["cpu"] == "10m"
        assert "cpu" not in container["resources"]["limits"]


def limit_on(plane: ControlPlane, node: str) -> str | None:
    pods = plane.read("pods", "-n", REF.namespace, "-l", REF.selector(EXECUTOR_ROLE))["items"]
    (pod,) = [pod for pod in pods if pod["spec"].get("nodeName") == node]
    limits: dict[str, Any] = pod["status"]["containerStatuses"][0]["resources"].get("limits", {})
    return limits.get("cpu")


def asked_on(plane: ControlPlane, node: str) -> str | None:
    """What the pod there is to have, done or not."""
    pods = plane.read("pods", "-n", REF.namespace, "-l", REF.selector(EXECUTOR_ROLE))["items"]
    (pod,) = [pod for pod in pods if pod["spec"].get("nodeName") == node]
    found: str | None = pod["spec"]["containers"][0]["resources"].get("limits", {}).get("cpu")
    return found


def assert_resized(ground: KubeGround, plane: ControlPlane) -> None:
    """A share is set without a restart; a node that puts it off or never can is quoted, and it is undone."""
    assert resize.supported(ground.objects)
    ground.limit("identity", "copy", "pi1", 0.6)
    assert limit_on(plane, "pi1") == "2400m"
    ground.limit("identity", "copy", "pi1", 0.1)
    assert limit_on(plane, "pi1") == "400m"
    pods = stage_objects.pods(ground.objects, REF, EXECUTOR_ROLE)
    (name,) = [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == "pi1"]
    app = apps.load("identity")
    make = ground.maker((app, deployment.place(app, {"copy": ["pi1"]}, ())))
    more = SetShare("copy", Replica("pi1", 0.8), 0.1)
    for answer, words in {"deferred": "has put it off", "infeasible": "never can"}.items():
        plane.kubectl("annotate", "pod", name, "-n", REF.namespace, f"{ANSWER}={answer}", "--overwrite")
        with pytest.raises(FogError, match=f"the replica of copy on pi1 cannot have 3200m.*{words}") as told:
            carry_out([more], make, "nothing", lambda _: None)
        assert told.value.exit_code == REFUSED
        assert "what had been changed was undone" in str(told.value)
        assert asked_on(plane, "pi1") == limit_on(plane, "pi1") == "400m"
    plane.kubectl("annotate", "pod", name, "-n", REF.namespace, f"{ANSWER}-")
    plane.kubectl("label", "node", "pi1", f"{SYSTEM}=windows", "--overwrite")
    with pytest.raises(FogError, match=r"copy on pi1 cannot have .*only supported on linux nodes") as told:
        _shrink_until_refused(ground)
    assert told.value.exit_code == REFUSED
    plane.kubectl("label", "node", "pi1", f"{SYSTEM}=linux", "--overwrite")
    until(partial(_is_set, ground, plane), "it can be resized again")


def _shrink_until_refused(ground: KubeGround) -> None:
    """The cluster's check of resizes sees a node's new label a moment later."""
    for share in range(90, 20, -1):
        ground.limit("identity", "copy", "pi1", share / 100)


def _is_set(ground: KubeGround, plane: ControlPlane) -> bool:
    try:
        ground.limit("identity", "copy", "pi1", 0.1)
    except FogError:
        return False
    return limit_on(plane, "pi1") == "400m"


def assert_lost_node_is_waited_for(ground: KubeGround, plane: ControlPlane) -> None:
    """An executor whose pod goes is made anew, on its labelled node and no other."""
    pods = stage_objects.pods(ground.objects, REF, EXECUTOR_ROLE)
    gone = next(pod for pod in pods if pod["spec"]["nodeName"] == "pi3")
    name = gone["metadata"]["name"]
    plane.kubectl("delete", "pod", name, "-n", REF.namespace, "--grace-period=0", "--force")

    def anew() -> bool:
        found = stage_objects.pods(ground.objects, REF, EXECUTOR_ROLE)
        assert name not in [pod["metadata"]["name"] for pod in found]
        return sorted(pod["spec"].get("nodeName") or "" for pod in found) == ["pi1", "pi3"]

    until(anew, "Spark asks for another")


def assert_driver_may_no_more_than_it_needs(plane: ControlPlane) -> None:
    account = f"system:serviceaccount:{REF.namespace}:{names.DRIVER}"

    def may(verb: str, what: str, namespace: str = REF.namespace) -> bool:
        kind, _, part = what.partition("/")
        asked = ("auth", "can-i", verb, kind, "-n", namespace, "--as", account)
        try:
            return plane.kubectl(*asked, *([f"--subresource={part}"] if part else [])).strip() == "yes"
        except AssertionError:  # the answer no is a failure of the command
            return False

    assert all(may(verb, "pods") for verb in ("get", "list", "watch", "create", "delete", "patch"))
    assert may("patch", "pods/resize")
    for verb, what in (
        *(("get", "secrets"), ("create", "pods/exec"), ("create", "statefulsets.apps"), ("get", "nodes")),
        *(("create", "configmaps"), ("create", "services"), ("create", "persistentvolumeclaims")),
        ("create", "serviceaccounts/token"),
    ):
        assert not may(verb, what), f"{verb} {what}"
    assert not may("list", "pods", "default")
    assert not may("list", "pods", "kube-system")


def test_a_replica_that_leaves_is_decommissioned_before_its_pod_goes(
    ground: KubeGround, control_plane: ControlPlane
) -> None:
    """Its label goes first, then its driver is told; the pod stays until the driver has it no more."""
    nodes = ["pi1", "pi2"]
    for node in nodes:
        stage_objects.label(ground.objects, REF, node)
        labels = REF.role_labels(EXECUTOR_ROLE)
        control_plane.apply(tiny_pod(REF.namespace, f"exec-{node}", node=node, labels=labels))
    until(lambda: placed(ground) == nodes, "both executors have a node")
    finishing = 3
    told: list[tuple[str, list[str], list[str | None]]] = []

    def driver(request: dict[str, Any]) -> dict[str, Any]:
        """Goes on for some looks with the tasks of the replica that is to leave."""
        nonlocal finishing
        told.append((request["ask"], ground.executors("identity", "copy"), placed(ground)))
        if request["ask"] == "decommission":
            assert (request["node"], request["executors"]) == ("pi1", 1)
        elif any(ask == "decommission" for ask, _, _ in told):
            finishing -= 1
        has = nodes if finishing > 0 else ["pi2"]
        return {"ok": True, "wanted": 1, "executors": [{"node": node} for node in has]}

    app = apps.load("identity")
    placement = deployment.place(app, {"copy": nodes}, ()).stage("copy")
    replace(ground._pool(app, placement), ask=driver).remove("pi1")
    assert [ask for ask, _, _ in told] == ["decommission", "executors", "executors", "executors"]
    for _, labelled, there in told:
        assert labelled == ["pi2"], "no successor is started there"
        assert there == nodes, "it may finish its tasks"
    until(lambda: placed(ground) == ["pi2"], "then its pod goes")


def test_a_stage_whose_driver_never_answers_is_undone_and_leaves_nothing(
    ground: KubeGround, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods that kwok plays run nothing, so nobody answers in them."""
    from fogctl.kube import pool

    monkeypatch.setattr(pool, "PATIENCE_S", 3.0)
    app = apps.load("identity")
    wanted = deployment.place(app, {"copy": ["pi1", "pi2"]}, ())
    steps = deployment.changes(None, wanted)
    seen: list[str] = []

    def say(text: str) -> None:
        seen.append(text)

    make = ground.maker((app, wanted))
    with pytest.raises(FogError, match=r"did not (start|register): ") as failed:
        carry_out(steps, make, "fogctl app rm identity", say)
    assert "what had been changed was undone" in str(failed.value)
    assert [line for line in seen if line.startswith("undoing: stop stage copy")]
    assert ground.executors("identity", "copy") == []
    for kind in ("StatefulSet", "ConfigMap"):
        assert ground.objects.get(Ref(kind, REF.name, REF.namespace)) is None
    assert stage_objects.pods(ground.objects, REF, EXECUTOR_ROLE) == []
    assert control_plane.read("pods", "-n", REF.namespace, "-l", f"{names.APP}=identity")["items"] == []
