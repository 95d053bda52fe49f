"""A stage's objects on its cluster, read and changed: labelled nodes, pods, CPU limits of executors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fogctl.errors import FAILED, FogError
from fogctl.kube import cgroup_limit, names, quantity, resize
from fogctl.kube.access import Manifest
from fogctl.kube.app_objects import EXECUTOR_ROLE, ROLE, StageRef
from fogctl.kube.executors import CONTAINER
from fogctl.kube.nodes import node_states, usable_cores
from fogctl.kube.objects import Objects, Ref
from fogctl.kube.running import KubeRunning
from fogctl.kube.waiting import is_ready, trouble
from fogctl.runtime import fault_record


def label(objects: Objects, ref: StageRef, node: str) -> None:
    """Let the stage's executors run on a node."""
    _set_label(objects, ref, node, "true")


def unlabel(objects: Objects, ref: StageRef, node: str) -> None:
    """No new executor of the stage on a node; one that is there stays."""
    _set_label(objects, ref, node, None)


def _set_label(objects: Objects, ref: StageRef, node: str, value: str | None) -> None:
    if objects.patch(Ref("Node", node), {"metadata": {"labels": {ref.run_label: value}}}) is None:
        if value is None:
            return
        raise FogError(
            f"node {node} is not in the cluster", hint="fogctl status shows its nodes", exit_code=FAILED
        )


def labelled_nodes(objects: Objects, ref: StageRef) -> list[str]:
    """The testbed's nodes that the stage's executors may run on."""
    selector = f"{ref.run_label},{names.TESTBED}={ref.testbed}"
    return [node["metadata"]["name"] for node in objects.list("Node", selector=selector)]


def pods(objects: Objects, ref: StageRef, role: str) -> list[Manifest]:
    """Its driver's or its executors' pods."""
    return objects.list("Pod", ref.namespace, ref.selector(role))


def remove_app(objects: Objects, testbed: str, app: str) -> None:
    """Remove every stage of an app that is still there, as far as its objects tell."""
    selector = f"{names.selector(testbed)},{names.APP}={names.label_value(app)}"
    for kind in ("StatefulSet", "ConfigMap"):
        for found in objects.list(kind, names.namespace(testbed), selector):
            about = found["metadata"]
            ref = StageRef(testbed, app, about["labels"][names.STAGE])
            for node in labelled_nodes(objects, ref):
                unlabel(objects, ref, node)
            objects.delete(Ref(kind, about["name"], names.namespace(testbed)), uid=about["uid"])


def troubles(objects: Objects, testbed: str, role: str) -> list[str]:
    """What keeps pods of any stage from running, one sentence each."""
    found = []
    selector = f"{names.selector(testbed)},{ROLE}={role}"
    for pod in objects.list("Pod", names.namespace(testbed), selector):
        leaving = pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") == "Succeeded"
        if not leaving and not is_ready(pod):
            labels = pod["metadata"]["labels"]
            where = pod["spec"].get("nodeName")
            place = f" on {where}" if where else ""
            why, _ = trouble(pod)
            whose = f"{labels[names.APP]}.{labels[names.STAGE]}"
            found.append(f"the {role} of {whose}{place} is not ready: {why}")
    return found


@dataclass(frozen=True, slots=True)
class Limits:
    """The CPU limits of a testbed's executors."""

    running: KubeRunning
    objects: Objects
    ask: Callable[[StageRef, dict[str, Any]], dict[str, Any]]

    def set(self, ref: StageRef, node: str, share: float) -> None:
        """Give the replica on a node this share of it, less what a fault took."""
        cpu = self.cpu(node, share)
        with contextlib.suppress(FogError):  # a driver that is away reads it when it is told again
            self.ask(ref, {"ask": "limit", "node": node, "cpu": cpu})
        there = [pod for pod in pods(self.objects, ref, EXECUTOR_ROLE) if pod["spec"].get("nodeName") == node]
        if not there:
            return  # whoever comes there gets it from the driver
        in_place = resize.supported(self.objects)
        for pod in there:
            where = f"the replica of {ref.stage} on {node}"
            if in_place:
                pod_ref = Ref("Pod", pod["metadata"]["name"], ref.namespace)
                resize.resize(self.objects, pod_ref, CONTAINER, cpu, where)
            else:
                cgroup_limit.set_limit(self.running.testbed, node, pod, CONTAINER, quantity.parse(cpu), where)

    def cpu(self, node: str, share: float) -> str:
        """A share of a node as Kubernetes writes it."""
        state = node_states(self.running).get(node)
        cores = None if state is None else usable_cores(self.running, state)
        if cores is None:
            raise FogError(
                f"nobody knows how many cores node {node} has",
                hint="give it a board or cpu:",
                exit_code=FAILED,
            )
        left = fault_record.node_share(fault_record.read(self.running.folder), node)
        return quantity.milli_cores(max(0.01, share * left * cores))
