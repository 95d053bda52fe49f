"""A streaming app as pods of our own image on real kubelets: scaled, resized, killed under load, 0 lost."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fogctl.kube import names, quantity
from fogctl.kube.app_objects import DRIVER_ROLE, EXECUTOR_ROLE, StageRef
from fogctl.kube.running import KubeRunning
from fogctl.runtime.sent_numbers import SentNumbers
from fogctl.testbed.names import data_address
from tests.integration.live_testbed import Replay, audited, ok
from tests.kube.control_plane import until
from tests.kube.kubelets import FOGCTL, Kubelets
from tests.kube.ssh_door import SSHD, make_key, ssh_door
from tests.kube.stage_image import StageImage

NAME = "apps"
REF = StageRef(NAME, "identity", "copy")
PATIENCE_S = 600
KEY = "boards-key"
Tell = Callable[[str], None]


@pytest.fixture(scope="module")
def bed(kubelets: Kubelets, stage_image: StageImage) -> Iterator[KubeRunning]:
    """A testbed of all nodes, brought up with its broker."""
    kubelets.load(stage_image.archive)
    file = kubelets.folder / "apps.yaml"
    roles = {"cloud": "control", "broker": "broker"}
    nodes = [f"  - {{name: {node}, role: {roles.get(node, 'edge')}, board: host}}" for node in kubelets.nodes]
    key = make_key(kubelets.folder / KEY)
    hosts = [
        f"  {node}: {{address: {address(kubelets, node)}, user: root, key: {key}}}" for node in kubelets.nodes
    ]
    kube = f"kube: {{config: {kubelets.kubeconfig}}}"
    file.write_text("\n".join([f"name: {NAME}", "kind: k3s", kube, "nodes:", *nodes, "hosts:", *hosts]))
    ok(kubelets.fogctl("up", "--testbed", str(file), timeout=PATIENCE_S))
    yield KubeRunning.load(NAME, kubelets.state_dir)
    ok(kubelets.fogctl("down", NAME, timeout=PATIENCE_S))


def address(kubelets: Kubelets, node: str) -> str:
    """Where the other nodes reach a node."""
    return data_address(kubelets.nodes.index(node))


def fogctl(kubelets: Kubelets) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return kubelets.fogctl(*arguments, "--testbed", NAME, timeout=PATIENCE_S)

    return run


def pods(kubelets: Kubelets, role: str) -> list[dict[str, Any]]:
    found = kubelets.plane.read("pods", "-n", REF.namespace, "-l", REF.selector(role))["items"]
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def executors(kubelets: Kubelets) -> list[str]:
    """The nodes whose executors the driver has; none while it does not answer."""
    done = kubelets.fogctl("app", "status", "identity", "--testbed", NAME, "-o", "json")
    if done.returncode != 0:
        return []
    (stage,) = json.loads(done.stdout)["stages"]
    return sorted(each["node"] for each in stage["executors"])


def quota(kubelets: Kubelets, node: str) -> int | None:
    (pod,) = [pod for pod in pods(kubelets, EXECUTOR_ROLE) if pod["spec"]["nodeName"] == node]
    return kubelets.cpu_quota(REF.namespace, pod["metadata"]["name"], "executor")


def test_a_stage_of_pods_is_scaled_resized_and_killed_under_load_and_loses_nothing(
    kubelets: Kubelets, bed: KubeRunning, tell: Tell
) -> None:
    run = fogctl(kubelets)
    made = ("--days", "0.08", "--rides", "250000", "--start", "2013-05-01T08:00:00")
    ok(kubelets.fogctl("trace", "make", "rides.csv", *made))
    began = time.monotonic()
    ok(run("app", "deploy", "identity", "--on", "pi1"))
    tell(f"a stage of one replica deployed as pods: {time.monotonic() - began:.1f} s")
    until(lambda: executors(kubelets) == ["pi1"], "the driver has them")
    (driver,) = pods(kubelets, DRIVER_ROLE)
    assert driver["spec"]["nodeName"] == "cloud"
    sent = SentNumbers(bed.folder / "apps" / "identity" / "sent.jsonl")

    def sends_on(more: int) -> None:
        before = int(sent.read().sure.sum())
        until(lambda: int(sent.read().sure.sum()) >= before + more, f"{more} more records are sent")

    environment = ["env", f"FOGCTL_STATE_DIR={kubelets.state_dir}", *FOGCTL]
    arguments = ("rides.csv", "--app", "identity", "--speed", "5", "--testbed", NAME)
    with Replay(kubelets.inside(environment), kubelets.folder, *arguments) as replay:
        began = time.monotonic()
        ok(run("app", "scale", "identity", "copy", "--nodes", "pi1,pi2"))
        tell(f"scaled out by a pod under load: {time.monotonic() - began:.1f} s")
        until(lambda: executors(kubelets) == ["pi1", "pi2"], "the driver has them")
        assert sorted(pod["spec"]["nodeName"] for pod in pods(kubelets, EXECUTOR_ROLE)) == ["pi1", "pi2"]
        starts = {pod["metadata"]["name"]: restarts(pod) for pod in pods(kubelets, EXECUTOR_ROLE)}

        began = time.monotonic()
        ok(run("app", "share", "identity", "copy", "50%"))
        tell(f"both replicas resized to 50 %: {time.monotonic() - began:.1f} s, the command's start included")
        whole = whole_cores(kubelets, "pi1")
        for node in ("pi1", "pi2"):
            assert quota(kubelets, node) == pytest.approx(0.5 * whole * 100_000, rel=0.01)
        assert {pod["metadata"]["name"]: restarts(pod) for pod in pods(kubelets, EXECUTOR_ROLE)} == starts
        ok(run("app", "share", "identity", "copy", "100%"))
        sends_on(300)

        evict(kubelets, "pi1", tell)
        lose_power(kubelets, "pi1", tell)

        began = time.monotonic()
        ok(run("app", "scale", "identity", "copy", "--nodes", "pi2"))
        tell(f"scaled in, decommissioned first: {time.monotonic() - began:.1f} s")
        until(lambda: executors(kubelets) == ["pi2"], "the driver has it")
        assert labelled(kubelets) == ["pi2"]

        kill_the_driver(kubelets, tell)
        kubelets.plane.restart_api()
        sends_on(300)
        replay.stop()
    result = audited(run, "identity")
    tell(f"audit: {result}")
    assert result["sent"] > 1000
    assert (result["lost"], result["foreign"]) == (0, 0)


def evict(kubelets: Kubelets, node: str, tell: Tell) -> None:
    """As the cluster does when a node is short of memory or drained: Spark starts another one there."""
    (pod,) = [pod for pod in pods(kubelets, EXECUTOR_ROLE) if pod["spec"]["nodeName"] == node]
    about = {"name": pod["metadata"]["name"], "namespace": REF.namespace}
    path = f"/api/v1/namespaces/{REF.namespace}/pods/{about['name']}/eviction"
    asked = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about}
    began = time.monotonic()
    kubelets.plane.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(asked))

    def replaced() -> bool:
        there = {each["spec"].get("nodeName"): each for each in pods(kubelets, EXECUTOR_ROLE)}
        newer = node in there and there[node]["metadata"]["uid"] != pod["metadata"]["uid"]
        return newer and executors(kubelets) == ["pi1", "pi2"]

    until(replaced, "another executor works in the evicted one's place", PATIENCE_S, pause_s=0.5)
    tell(f"an evicted executor was replaced after {time.monotonic() - began:.1f} s")


def lose_power(kubelets: Kubelets, node: str, tell: Tell) -> None:
    """The stage goes on without a node that lost its power."""
    kubelets.unplug(node)
    began = time.monotonic()
    try:
        until(
            lambda: executors(kubelets) == ["pi2"], "its driver misses the executor", PATIENCE_S, pause_s=0.5
        )
        tell(f"an executor whose node lost its power was missed after {time.monotonic() - began:.1f} s")
        seen = batch(kubelets)
        until(lambda: batch(kubelets) > seen + 1, "batches go on on the other node", PATIENCE_S, pause_s=0.5)
        tell(f"two more batches were through {time.monotonic() - began:.1f} s after the power was lost")
    finally:
        kubelets.plug_in(node)


def batch(kubelets: Kubelets) -> int:
    """The number of the last batch that the stage has done; -1 while it does not say."""
    done = kubelets.fogctl("app", "status", "identity", "--testbed", NAME, "-o", "json")
    last = json.loads(done.stdout)["stages"][0]["last"] if done.returncode == 0 else None
    return -1 if last is None else int(last["batchId"])


def restarts(pod: dict[str, Any]) -> int:
    return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])


def labelled(kubelets: Kubelets) -> list[str]:
    found = kubelets.plane.read("nodes", "-l", REF.run_label)["items"]
    return sorted(node["metadata"]["name"] for node in found)


def whole_cores(kubelets: Kubelets, node: str) -> float:
    """What a share of 100 % is."""
    return quantity.parse(kubelets.plane.read("node", node)["status"]["allocatable"]["cpu"])


def kill_the_driver(kubelets: Kubelets, tell: Tell) -> None:
    """It comes back by itself, from its checkpoint, and asks for the same executors."""
    before = kubelets.plane.read("pod", REF.driver_pod, "-n", REF.namespace)["metadata"]["uid"]
    began = time.monotonic()
    kubelets.plane.kubectl(
        "delete", "pod", REF.driver_pod, "-n", REF.namespace, "--grace-period=0", "--force"
    )

    def back() -> bool:
        found = [pod for pod in pods(kubelets, DRIVER_ROLE) if pod["metadata"]["uid"] != before]
        return bool(found) and executors(kubelets) == ["pi2"]

    until(back, "driver and executor are back", PATIENCE_S)
    tell(f"a killed driver's stage was whole again after {time.monotonic() - began:.1f} s")


def test_a_change_that_is_killed_is_mended_by_the_next(kubelets: Kubelets, bed: KubeRunning) -> None:
    """kill -9 of fogctl after the node is labelled: asked for what was, the stray replica goes."""
    until(lambda: executors(kubelets) == ["pi2"], "the driver has it")
    environment = ["env", f"FOGCTL_STATE_DIR={kubelets.state_dir}", *FOGCTL]
    command = [*environment, "app", "scale", "identity", "copy", "--nodes", "pi1,pi2", "--testbed", NAME]
    # Not in the project's own folder: a file or folder of the testbed's name would be meant there.
    process = subprocess.Popen(
        kubelets.inside(command),
        cwd=kubelets.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: labelled(kubelets) == ["pi1", "pi2"], "the new node is labelled")
    process.send_signal(signal.SIGKILL)
    process.wait()
    said = json.loads(
        ok(fogctl(kubelets)("app", "scale", "identity", "copy", "--nodes", "pi2", "-o", "json"))
    )
    assert said["changes"] == ["remove the replica of copy on pi1"]
    assert labelled(kubelets) == ["pi2"]
    until(lambda: executors(kubelets) == ["pi2"], "the driver has it")
    assert bed.testbed.name == NAME


@pytest.mark.skipif(not Path(SSHD).exists(), reason="Debian's openssh-server is not installed")
def test_a_cluster_too_old_to_resize_has_the_share_set_on_the_board_itself(
    kubelets: Kubelets, bed: KubeRunning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Tell
) -> None:
    """The API server is that of a cluster without `resize`; the board lets fogctl in over SSH."""
    run = fogctl(kubelets)
    whole = whole_cores(kubelets, "pi2")
    (before,) = pods(kubelets, EXECUTOR_ROLE)
    client = kubelets.folder / KEY
    with (
        kubelets.plane.too_old_to_resize(),
        ssh_door(kubelets, "pi2", address(kubelets, "pi2"), client, tmp_path) as known,
    ):
        monkeypatch.setenv("FOGCTL_KNOWN_HOSTS", str(tmp_path / "nothing"))
        refused = run("app", "share", "identity", "copy", "40%")
        assert refused.returncode == 1
        assert "its host key is not recorded" in refused.stderr
        monkeypatch.setenv("FOGCTL_KNOWN_HOSTS", str(known))
        began = time.monotonic()
        ok(run("app", "share", "identity", "copy", "40%"))
        tell(f"a share set over SSH, without resize: {time.monotonic() - began:.1f} s")
        assert quota(kubelets, "pi2") == pytest.approx(0.4 * whole * 100_000, rel=0.01)
    (after,) = pods(kubelets, EXECUTOR_ROLE)
    assert (after["metadata"]["uid"], restarts(after)) == (before["metadata"]["uid"], restarts(before))
    ok(run("app", "share", "identity", "copy", "80%"))
    assert quota(kubelets, "pi2") == pytest.approx(0.8 * whole * 100_000, rel=0.01)
    assert bed.testbed.name == NAME


def test_an_app_that_raises_is_refused_with_its_own_line_and_leaves_nothing(
    kubelets: Kubelets, bed: KubeRunning
) -> None:
    folder = kubelets.folder / "broken"
    folder.mkdir()
    (folder / "app.yaml").write_text(
        "name: broken\nstages:\n  - {name: boom, inputs: [a], output: b, partitions: 2}\n"
    )
    (folder / "app.py").write_text("def boom(records, options):\n    return records.select(1 / 0)\n")
    failed = fogctl(kubelets)("app", "deploy", "broken", "--on", "pi1")
    assert failed.returncode == 1
    assert "app.py:2: ZeroDivisionError" in failed.stderr.splitlines()[-1]
    assert "was undone" in failed.stderr.splitlines()[-1]
    left = kubelets.plane.read(
        "pods,statefulsets,configmaps", "-n", REF.namespace, "-l", f"{names.APP}=broken"
    )
    assert [item["kind"] for item in left["items"] if item["kind"] != "Pod"] == []
    assert not (bed.folder / "apps" / "broken").exists()


def test_a_stage_with_state_is_refused_where_nodes_have_no_storage_in_common(
    kubelets: Kubelets, bed: KubeRunning, tell: Tell
) -> None:
    folder = kubelets.folder / "sums"
    folder.mkdir()
    (folder / "app.yaml").write_text(
        "name: sums\nstages:\n  - {name: count, inputs: [a], output: b, partitions: 2, output_mode: update}\n"
    )
    (folder / "app.py").write_text(
        "def count(records, options):\n"
        "    counted = records.groupBy('key').count()\n"
        "    return counted.selectExpr('key', 'CAST(count AS STRING) AS value')\n"
    )
    began = time.monotonic()
    refused = fogctl(kubelets)("app", "deploy", "sums", "--on", "pi1")
    tell(f"a stage with state was refused after {time.monotonic() - began:.1f} s")
    assert refused.returncode == 1
    sentence = refused.stderr.splitlines()[-1]
    assert "stage count failed: the query keeps state (Aggregate)" in sentence
    assert "and the nodes have no storage in common (give kube: a storage_class that many nodes" in sentence
    assert "was undone" in sentence
    left = kubelets.plane.read("statefulsets,configmaps", "-n", REF.namespace, "-l", f"{names.APP}=sums")
    assert left["items"] == []
    assert not (bed.folder / "apps" / "sums").exists()


def test_an_app_is_removed_with_all_its_pods_and_labels(kubelets: Kubelets, bed: KubeRunning) -> None:
    logs = ok(fogctl(kubelets)("app", "logs", "identity"))
    assert {"copy.driver", "copy.executor.pi2"} <= {line.split("\t")[0] for line in logs.splitlines()}
    ok(fogctl(kubelets)("app", "rm", "identity"))
    assert labelled(kubelets) == []
    assert pods(kubelets, EXECUTOR_ROLE) == []
    assert pods(kubelets, DRIVER_ROLE) == []
    assert not (bed.folder / "apps" / "identity").exists()
