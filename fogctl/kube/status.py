"""What a testbed's nodes are and have at this moment, as its cluster says, and what is missing of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fogctl.errors import FogError
from fogctl.kube import latency, names, operator_access, waiting
from fogctl.kube.access import Access, Manifest
from fogctl.kube.ledger import NodeLabel
from fogctl.kube.nodes import read_node
from fogctl.kube.objects import Objects, Ref
from fogctl.kube.plan import Part, up_to_date
from fogctl.kube.running import KubeRunning
from fogctl.testbed.model import Node, Role
from fogctl.testbed.status import NodeStatus, Status

_OPERATOR_SEES = ("Secret", "ConfigMap", "PersistentVolumeClaim", "StatefulSet")


def status_of(running: KubeRunning, wanted: Sequence[Part]) -> Status:
    """What is there and what is missing; the administrator sees all, the testbed's own account most."""
    admin = Access.admin(running.testbed)
    sees_all = admin.kubeconfig.is_file()
    objects = Objects(admin if sees_all else running.access)
    try:
        manifests = {each["metadata"]["name"]: each for each in objects.list("Node")}
        missing = [part.describe() for part in wanted if _lacks(part, objects, manifests, sees_all)]
        gone = len(missing) == len(wanted)
        if sees_all and not _way_in(running, objects, admin):
            missing.append(f"kubeconfig of {names.OPERATOR}")
        pods = objects.list("Pod", running.namespace)
    finally:
        objects.access.close()
    broker = [pod for pod in pods if pod["metadata"]["name"] == f"{names.BROKER}-0"]
    if running.testbed.kafka is None and not (broker and waiting.is_ready(broker[0])):
        missing.append(f"the broker: {waiting.trouble(broker[0] if broker else None)[0]}")
    try:
        missing += [entry.describe() for entry in latency.lacking(running)]
    except FogError as error:
        missing.append(f"latencies could not be looked at: {error}")
    nodes = tuple(_node(running, node, manifests, pods) for node in running.testbed.nodes)
    missing += [f"node {node.name}: {node.missing[0]}" for node in nodes if node.missing]
    condition = "down" if gone else "half-built" if missing else "up"
    backend = running.record.backend if running.latencies.paths else None
    testbed = running.testbed
    return Status(testbed.name, testbed.kind.value, condition, backend, nodes, tuple(missing))


def observe(running: KubeRunning) -> tuple[NodeStatus, ...]:
    """What each node has at this moment, as the testbed's own account sees it."""
    objects = Objects(running.access)
    manifests = {each["metadata"]["name"]: each for each in objects.list("Node")}
    pods = objects.list("Pod", running.namespace)
    return tuple(_node(running, node, manifests, pods) for node in running.testbed.nodes)


def _lacks(part: Part, objects: Objects, nodes: Mapping[str, Manifest], sees_all: bool) -> bool:
    entry = part.entry
    if isinstance(entry, NodeLabel):
        return _labels(nodes.get(entry.node)).get(entry.key) != entry.value
    if not sees_all and entry.kind not in _OPERATOR_SEES:
        return False
    found = objects.get(entry)
    return (
        found is None
        or bool(found["metadata"].get("deletionTimestamp"))
        or not up_to_date(found, part.manifest)
    )


def _way_in(running: KubeRunning, objects: Objects, admin: Access) -> bool:
    account = objects.get(Ref("ServiceAccount", names.OPERATOR, running.namespace))
    return account is not None and operator_access.usable(running.folder, admin, account["metadata"]["uid"])


def _node(
    running: KubeRunning, node: Node, manifests: Mapping[str, Manifest], pods: Sequence[Manifest]
) -> NodeStatus:
    control = next((each.name for each in running.testbed.nodes if each.role is Role.control), None)
    found = manifests.get(node.name)
    state = None if found is None else read_node(found)
    own = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName") == node.name]
    ssh = {host.node: host.address for host in running.testbed.hosts}
    missing: tuple[str, ...] = ()
    if state is None:
        missing = ("it is not in the cluster",)
    elif not state.ready:
        missing = (f"it is not ready: {state.why}",)
    ours = [key for key in _labels(found) if key == names.TESTBED or key.startswith(names.RUN_PREFIX)]
    return NodeStatus(
        name=node.name,
        role=node.role.value,
        site=node.site,
        board=node.board,
        address="" if state is None else state.address,
        management_address=ssh.get(node.name, ""),
        cpu_quota_cores=None if state is None else state.cpu_cores,
        cpu_used_cores=None,
        cpu_throttled=None,
        memory_limit_bytes=None if state is None else state.memory_bytes,
        memory_used_bytes=None,
        processes=None,
        rtt_to_control_ms=None if control is None else running.latencies.rtt_ms(node.name, control),
        missing=missing,
        ready=state is not None and state.ready,
        labels=tuple(sorted(ours)),
        pods=tuple(sorted(f"{pod['metadata']['name']}: {_condition(pod)}" for pod in own)),
    )


def _labels(manifest: Manifest | None) -> dict[str, Any]:
    return {} if manifest is None else manifest["metadata"].get("labels") or {}


def _condition(pod: Manifest) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "ending"
    if waiting.is_ready(pod):
        return "ready"
    return str((pod.get("status") or {}).get("phase", "unknown")).lower()
