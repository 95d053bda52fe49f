"""Real kubelets on emulated nodes: pods run there, are resized in place, speak, end, and leave nothing."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from fogctl.metrics.groups import NodeGroups
from fogctl.metrics.node import Reading
from tests.kube.control_plane import names_of, until
from tests.kube.kubelets import RTT_MS, Kubelets
from tests.kube.pods import container_status, pod, resize_patch

Tell = Callable[[str], None]


@pytest.fixture
def namespace(kubelets: Kubelets) -> Iterator[str]:
    with kubelets.plane.namespace() as name:
        yield name


def run(kubelets: Kubelets, namespace: str, *pods: Mapping[str, object]) -> None:
    """Have these pods, and wait until they are ready."""
    kubelets.plane.apply(*pods)
    kubelets.plane.kubectl("wait", "pod", "--all", "-n", namespace, "--for=condition=Ready", "--timeout=150s")


def test_the_nodes_are_the_testbeds_with_their_addresses_and_sizes(kubelets: Kubelets) -> None:
    nodes = {node["metadata"]["name"]: node["status"] for node in kubelets.plane.read("nodes")["items"]}
    assert set(nodes) == {node.name for node in kubelets.running.testbed.nodes}
    assert {"type": "InternalIP", "address": "10.77.0.3"} in nodes["pi1"]["addresses"]
    assert nodes["pi1"]["allocatable"]["cpu"] == "600m"


def test_a_pod_runs_on_each_node_asked_for_and_its_words_can_be_read(
    kubelets: Kubelets, namespace: str, tell: Tell
) -> None:
    started = time.monotonic()
    run(
        kubelets,
        namespace,
        *(pod(namespace, f"on-{node}", "count", cpu="200m", node=node) for node in ("pi1", "pi2")),
    )
    tell(f"two pods on two kubelets ready after {time.monotonic() - started:.1f} s")
    for node, address in (("pi1", "10.77.0.3"), ("pi2", "10.77.0.4")):
        status = kubelets.plane.read("pod", f"on-{node}", "-n", namespace)["status"]
        assert status["hostIP"] == status["podIP"] == address
        until(partial(_said, kubelets, namespace, f"on-{node}", "0\n1\n2\n"), "the pod's words arrive")


def test_a_pod_answers_through_the_api_server(kubelets: Kubelets, namespace: str) -> None:
    run(kubelets, namespace, pod(namespace, "web", "serve", "8080", node="pi2"))
    path = f"/api/v1/namespaces/{namespace}/pods/web:8080/proxy/hello"
    until(lambda: kubelets.plane.kubectl("get", "--raw", path) == "GET /hello\n", "the pod answers")


def test_a_resize_reaches_the_kernel_without_a_restart(
    kubelets: Kubelets, namespace: str, tell: Tell
) -> None:
    run(kubelets, namespace, pod(namespace, "a", "spin", cpu="500m", node="pi1"))
    plane = kubelets.plane
    uid = plane.read("pod", "a", "-n", namespace)["metadata"]["uid"]
    before = container_status(plane, namespace, "a")
    container = before["containerID"].removeprefix("containerd://")
    assert kubelets.quota_in("pi1", uid, container) == 50_000
    took = []

    def resize(cpu: str, quota: int) -> None:
        patch = resize_patch(cpu)
        plane.kubectl("patch", "pod", "a", "-n", namespace, "--subresource", "resize", "-p", patch)
        started = time.monotonic()
        until(lambda: kubelets.quota_in("pi1", uid, container) == quota, f"quota {quota}", pause_s=0.002)
        took.append((time.monotonic() - started) * 1000)
        until(
            lambda: container_status(plane, namespace, "a")["resources"]["limits"]["cpu"] == cpu,
            "the status shows it",
        )

    resize("200m", 20_000)
    resize("400m", 40_000)
    resize("100m", 10_000)
    after = container_status(plane, namespace, "a")
    assert after["restartCount"] == 0
    assert after["containerID"] == before["containerID"]
    tell(f"resize in the kernel {', '.join(f'{ms:.0f}' for ms in took)} ms after kubectl returned")


def test_what_a_pod_uses_is_limited_and_counted_as_its_nodes(
    kubelets: Kubelets, namespace: str, tell: Tell
) -> None:
    cores, period_s = 0.2, 0.1
    run(kubelets, namespace, pod(namespace, "a", "spin", cpu=f"{cores * 1000:.0f}m", node="pi1"))
    uid = kubelets.plane.read("pod", "a", "-n", namespace)["metadata"]["uid"]
    until(lambda: kubelets.pods_in("pi1") == {f"pod{uid}"}, "the pods of earlier tests have left the node")
    groups = NodeGroups(kubelets.running.testbed.name, kubelets.running.hierarchies)

    def read() -> Reading:
        found = groups.read("pi1")
        assert found is not None
        return found

    before = read()
    until(lambda: read().cpu_s - before.cpu_s > 2 * cores, "it used two seconds' worth of its quota")
    after = read()
    used_s, passed_s = after.cpu_s - before.cpu_s, after.at_s - before.at_s
    tell(f"a spinning pod with a limit of 200m makes its node use {used_s / passed_s:.0%} of a core")
    # Both ends may fall into a period whose whole quota was used on their side of it.
    assert used_s <= cores * (passed_s + 2 * period_s)


def test_pods_are_as_far_from_each_other_as_the_testbed_says(kubelets: Kubelets) -> None:
    # -U: until the answer is read. By default ping takes the time at which it reached the interface, and the
    # delay line may work behind that.
    ping = kubelets.inside(["ping", "-U", "-c", "5", "-i", "0.2", "-q", "pi1"])
    said = subprocess.run(ping, capture_output=True, text=True, check=True).stdout
    fastest = float(said.rpartition("= ")[2].split("/")[0])
    assert RTT_MS * 0.9 <= fastest <= RTT_MS * 2, said


def test_a_pod_reaches_the_api_server_as_its_service_account(kubelets: Kubelets, namespace: str) -> None:
    run(kubelets, namespace, pod(namespace, "a", "whoami", node="pi1"))
    until(
        partial(_said, kubelets, namespace, "a", f"system:serviceaccount:{namespace}:default\n"),
        "the API server told the pod who it is",
    )


def test_a_deleted_pod_is_gone_with_its_control_group(kubelets: Kubelets, namespace: str) -> None:
    run(kubelets, namespace, pod(namespace, "a", "sleep", cpu="100m", node="pi1"))
    uid = kubelets.plane.read("pod", "a", "-n", namespace)["metadata"]["uid"]
    assert kubelets.running.hierarchies.cpu is not None
    top = Path(kubelets.running.hierarchies.cpu.root)
    assert _groups_called(top, f"pod{uid}")
    kubelets.plane.kubectl("delete", "pod", "a", "-n", namespace, "--timeout=60s")
    assert names_of(kubelets.plane.read("pods", "-n", namespace)) == []
    until(lambda: not _groups_called(top, f"pod{uid}"), "the pod's control group is gone")


def test_a_pod_of_another_user_keeps_a_file_on_a_volume(kubelets: Kubelets, namespace: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "state", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "local-path",
        },
    }
    run(
        kubelets,
        namespace,
        claim,
        pod(namespace, "a", "keep", "/kept/note", "hello", claim="state", node="cloud"),
    )
    volume = kubelets.plane.read("pvc", "state", "-n", namespace)["spec"]["volumeName"]
    folder = kubelets.folder / "cloud" / "volumes" / volume.removeprefix("cloud-")
    note = folder / "note"
    until(lambda: note.exists() and note.read_text() == "hello", "the note is on the volume")


def _groups_called(top: Path, name: str) -> list[str]:
    """By os.walk, which passes over groups that are removed meanwhile."""
    return [at for at, groups, _ in os.walk(top) if name in groups]


def _said(kubelets: Kubelets, namespace: str, name: str, text: str) -> bool:
    return kubelets.plane.kubectl("logs", name, "-n", namespace).startswith(text)
