"""The nodes of a testbed as their cluster sees them: whether they answer, what they have, what they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fogctl.kube import names, quantity
from fogctl.kube.running import KubeRunning

_SYSTEM = ("architecture", "kernelVersion", "osImage", "kubeletVersion", "containerRuntimeVersion")


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node, at one moment."""

    name: str
    ready: bool
    why: str
    """What the cluster says of a node that is not ready; empty otherwise."""
    cordoned: bool
    """Whether nothing new may be placed on it."""
    cpu_cores: float | None
    """What pods may use of it, like the next; None: it does not say."""
    memory_bytes: int | None
    address: str = ""
    kubelet_port: int = 10250
    system: Mapping[str, str] = field(default_factory=dict)
    """Kernel, operating system, kubelet and container runtime, by Kubernetes' own names."""


def read_node(manifest: Mapping[str, Any]) -> NodeState:
    """A node's manifest as a value. Pure."""
    status = manifest.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    ready = conditions.get("Ready", {})
    allocatable = status.get("allocatable") or {}
    addresses = {each["type"]: each["address"] for each in status.get("addresses") or []}
    info = status.get("nodeInfo") or {}
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    answers = ready.get("status") == "True"
    return NodeState(
        name=manifest["metadata"]["name"],
        ready=answers,
        why="" if answers else _why(ready),
        cordoned=bool((manifest.get("spec") or {}).get("unschedulable")),
        cpu_cores=quantity.parse(allocatable["cpu"]) if "cpu" in allocatable else None,
        memory_bytes=int(quantity.parse(allocatable["memory"])) if "memory" in allocatable else None,
        address=addresses.get("InternalIP", ""),
        kubelet_port=int(endpoint.get("Port") or 10250),
        system={key: info[key] for key in _SYSTEM if info.get(key)},
    )


def node_states(running: KubeRunning) -> dict[str, NodeState]:
    """Every node of the testbed that the cluster has, by name; FogError if the cluster does not answer."""
    with running.access.sentences("looking at the nodes"):
        found = running.access.request(
            "GET", "/api/v1/nodes", query={"labelSelector": f"{names.TESTBED}={running.testbed.name}"}
        )
    states = [read_node(manifest) for manifest in found["items"]]
    ours = {node.name for node in running.testbed.nodes}
    return {state.name: state for state in states if state.name in ours}


def usable_cores(running: KubeRunning, state: NodeState) -> float | None:
    """What shares of a node are shares of: the cores that testbed.yaml gives it, or all that pods may use."""
    given = running.testbed.require(state.name).cpu_cores
    return state.cpu_cores if given is None else given


def _why(ready: Mapping[str, Any]) -> str:
    said = str(ready.get("message") or ready.get("reason") or "it has not reported yet")
    return said.rstrip(".")
