"""A cluster as an agent's surroundings: what nodes have, which are gone, and what became of an app's pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fogctl.agent.knowledge import NodeFacts
from fogctl.errors import FogError
from fogctl.kube import names
from fogctl.kube.nodes import NodeState, node_states, usable_cores
from fogctl.kube.running import KubeRunning
from fogctl.runtime import fault_record
from fogctl.runtime.deployment import Deployment

_TELLING = ("Evicted", "TaintManagerEviction", "Preempting", "Preempted", "OOMKilling", "NodeNotReady")
"""Reasons of Kubernetes' own events that say why a pod went."""


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod of an app at one moment."""

    name: str
    uid: str
    stage: str
    role: str
    """driver or executor."""
    node: str
    over: str = ""
    """Why it is over, if it is: `Evicted: The node was low on resource: memory.`"""
    restarts: int = 0
    """Of its container."""
    ended: str = ""
    """How its container ended the last time, if it was started again."""

    def service(self, app: str) -> str:
        """What it is called in events, as on emulated nodes."""
        where = f".{self.node}" if self.role == "executor" else ""
        return f"{app}.{self.stage}.{self.role}{where}"


def read_pod(manifest: Mapping[str, Any]) -> PodSeen:
    """A pod's manifest as a value. Pure."""
    labels = manifest["metadata"].get("labels") or {}
    status = manifest.get("status") or {}
    containers = status.get("containerStatuses") or []
    last = ((containers[0].get("lastState") or {}).get("terminated") or {}) if containers else {}
    over = ""
    if status.get("phase") in ("Failed", "Succeeded"):
        now = ((containers[0].get("state") or {}).get("terminated") or {}) if containers else {}
        reason = status.get("reason") or now.get("reason") or status["phase"]
        said = status.get("message") or now.get("message") or ""
        over = f"{reason}: {said}".rstrip(": ")
    return PodSeen(
        name=manifest["metadata"]["name"],
        uid=manifest["metadata"]["uid"],
        stage=labels.get(names.STAGE, ""),
        role=labels.get("spark-role", ""),
        node=(manifest.get("spec") or {}).get("nodeName") or "",
        over=over,
        restarts=containers[0].get("restartCount", 0) if containers else 0,
        ended=_ending(last),
    )


def pod_news(
    app: str, before: Iterable[PodSeen], after: Iterable[PodSeen], wanted: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """What happened between two looks, as events. Pure.

    `wanted` names the nodes of each stage: an executor that left another node was removed on purpose.
    """
    then, now = {pod.uid: pod for pod in before}, {pod.uid: pod for pod in after}
    told: list[dict[str, Any]] = []
    for pod in then.values():
        later = now.get(pod.uid)
        if pod.over or (later is not None and not later.over):
            continue
        if pod.role == "executor" and pod.node not in wanted.get(pod.stage, ()):
            continue
        reason = later.over if later is not None else "it is gone"
        told.append({"what": "lost", "service": pod.service(app), "reason": reason, "pod": pod.name})
    for pod in now.values():
        earlier = then.get(pod.uid)
        if earlier is not None and pod.restarts > earlier.restarts:
            reason = pod.ended or "ended by itself"
            told.append(
                {
                    "what": "restarted",
                    "service": pod.service(app),
                    "reason": reason,
                    "attempt": pod.restarts - earlier.restarts,
                }
            )
        if earlier is None and not pod.over:
            same = [old for old in then.values() if old.service(app) == pod.service(app)]
            if same:
                told.append(
                    {"what": "restarted", "service": pod.service(app), "reason": "a new pod", "attempt": 1}
                )
    return told


def node_news(before: Mapping[str, NodeState], after: Mapping[str, NodeState]) -> list[dict[str, Any]]:
    """Nodes that stopped or began to be ready between two looks, in the cluster's own words. Pure."""
    told: list[dict[str, Any]] = []
    for name, state in after.items():
        was = before[name].ready if name in before else True
        if was and not state.ready:
            told.append({"what": "node not ready", "node": name, "reason": state.why})
        elif state.ready and not was:
            told.append({"what": "node ready again", "node": name})
    gone = [name for name in before if name not in after]
    return told + [{"what": "node not ready", "node": name, "reason": "it left the cluster"} for name in gone]


@dataclass(slots=True)
class ClusterSurroundings:
    """Real nodes under Kubernetes. Satisfies `fogctl.agent.surroundings.Surroundings`."""

    running: KubeRunning
    _pods: dict[str, dict[str, PodSeen]] = field(default_factory=dict, repr=False)
    """By app, by what they are called in events: the newest pod seen."""
    _nodes: dict[str, NodeState] = field(default_factory=dict, repr=False)

    def host(self) -> None:
        """Nodes are machines of their own."""
        return

    def nodes(self) -> Mapping[str, NodeFacts]:
        """What pods may use of each, as the cluster says; a node that the cluster lacks is none."""
        return {
            name: NodeFacts(name, usable_cores(self.running, state), state.memory_bytes)
            for name, state in node_states(self.running).items()
        }

    def down(self) -> frozenset[str]:
        """Those that a fault holds down, though their kubelets answer; the reader leaves out lost ones."""
        return fault_record.down_nodes(fault_record.read(self.running.folder))

    def news(self, deployed: Deployment) -> Sequence[Mapping[str, Any]]:
        """Nodes that are not ready any more; drivers and executors that ended, were evicted or came back."""
        seen = node_states(self.running)
        met, self._nodes = node_news(self._nodes, seen), seen
        return [*met, *self._pod_news(deployed)]

    def _pod_news(self, deployed: Deployment) -> list[Mapping[str, Any]]:
        with self.running.access.sentences("looking at the pods"):
            found = self.running.access.request(
                "GET",
                f"/api/v1/namespaces/{self.running.namespace}/pods",
                query={"labelSelector": f"{names.APP}={names.label_value(deployed.app)},spark-role"},
            )
        called = {names.label_value(placement.stage): placement.stage for placement in deployed.stages}
        pods = [
            replace(pod, stage=called.get(pod.stage, pod.stage))
            for manifest in found["items"]
            if (pod := read_pod(manifest)).node
        ]
        first = deployed.app not in self._pods
        kept = self._pods.setdefault(deployed.app, {})
        wanted = {placement.stage: placement.nodes for placement in deployed.stages}
        told = [] if first else pod_news(deployed.app, kept.values(), pods, wanted)
        # One that is gone is remembered as over, so that its successor is known as one; one that was removed
        # on purpose is forgotten.
        there = {pod.uid for pod in pods}
        for name, pod in list(kept.items()):
            if pod.role == "executor" and pod.node not in wanted.get(pod.stage, ()):
                del kept[name]
            elif pod.uid not in there and not pod.over:
                kept[name] = replace(pod, over="it is gone")
        for pod in sorted(pods, key=lambda each: bool(each.over), reverse=True):
            kept[pod.service(deployed.app)] = pod
        return [
            {**event, "reason": self._why(event["pod"]) or event["reason"]}
            if event["reason"] == "it is gone"
            else event
            for event in told
        ]

    def _why(self, pod: str) -> str:
        """What Kubernetes' own events say of a pod that is gone; empty if they say nothing, or not to us."""
        try:
            with self.running.access.sentences():
                found = self.running.access.request(
                    "GET",
                    f"/api/v1/namespaces/{self.running.namespace}/events",
                    query={"fieldSelector": f"involvedObject.name={pod}"},
                )
        except FogError:
            return ""
        telling = [each for each in found["items"] if each.get("reason") in _TELLING]
        return f"{telling[-1]['reason']}: {telling[-1].get('message', '')}".rstrip(": ") if telling else ""


def _ending(state: Mapping[str, Any]) -> str:
    if not state:
        return ""
    code = state.get("exitCode")
    return f"{state.get('reason') or 'ended'}" + (f", exit code {code}" if code is not None else "")
