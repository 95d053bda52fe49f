"""Pods as tests write them: on the host's network, with one container, and where they have got to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.kube.control_plane import ControlPlane

IMAGE = "localhost/fogctl-test/tiny:1"


def pod(
    namespace: str,
    name: str,
    *command: str,
    cpu: str | None = None,
    memory: str | None = None,
    labels: Mapping[str, str] = {},
    affinity: Mapping[str, Any] | None = None,
    tolerations: Sequence[Mapping[str, Any]] = (),
    node: str | None = None,
    claim: str | None = None,
) -> dict[str, Any]:
    """A pod that asks for a tenth of its CPU limit, so that several fit on a node."""
    container: dict[str, Any] = {"name": "main", "image": IMAGE, "args": list(command or ("sleep",))}
    if cpu is not None:
        limits = {"cpu": cpu, **({"memory": memory} if memory else {})}
        requests = {"cpu": "10m", **({"memory": memory} if memory else {})}
        container["resources"] = {"limits": limits, "requests": requests}
    spec: dict[str, Any] = {
        "containers": [container],
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 2,
        "tolerations": [dict(each) for each in tolerations],
    }
    if affinity is not None:
        spec["affinity"] = dict(affinity)
    if node is not None:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    if claim is not None:
        container["volumeMounts"] = [{"name": "kept", "mountPath": "/kept"}]
        spec["volumes"] = [{"name": "kept", "persistentVolumeClaim": {"claimName": claim}}]
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def affinity(label: str, app: str) -> dict[str, Any]:
    """Only on nodes that carry a label, and never beside another pod of the same app."""
    term = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
    apart = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
    }


def placed(plane: ControlPlane, namespace: str) -> dict[str, str]:
    """By pod the node it runs on, or is about to."""
    pods = plane.read("pods", "-n", namespace)["items"]
    return {one["metadata"]["name"]: one["spec"]["nodeName"] for one in pods if "nodeName" in one["spec"]}


def phase(plane: ControlPlane, namespace: str, name: str) -> str:
    """How far a pod has got."""
    return str(plane.read("pod", name, "-n", namespace)["status"]["phase"])


def container_status(plane: ControlPlane, namespace: str, name: str) -> dict[str, Any]:
    """What is known of a pod's only container; empty before its kubelet has said anything."""
    known = plane.read("pod", name, "-n", namespace)["status"].get("containerStatuses", [])
    return dict(known[0]) if known else {}


def resize_patch(cpu: str, request: str | None = None) -> str:
    """A change of a pod's CPU limit (and request), for `kubectl patch --subresource resize`."""
    resources = {"limits": {"cpu": cpu}, **({"requests": {"cpu": request}} if request else {})}
    return json.dumps({"spec": {"containers": [{"name": "main", "resources": resources}]}})
