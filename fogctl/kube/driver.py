"""The pod of a stage's driver, kept by a StatefulSet on the control node, and the ConfigMap it reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fogctl.errors import FogError
from fogctl.kube import names
from fogctl.kube.app_objects import (
    APP_FOLDER,
    DECOMMISSION,
    DRIVER_ROLE,
    SPEC,
    STATE_FOLDER,
    TEMPLATE,
    Manifest,
    StageRef,
    container_security,
    from_field,
    pod_security,
    scratch,
)
from fogctl.kube.broker import on_node, tolerations
from fogctl.kube.executors import DECOMMISSION_SCRIPT, template

CONTAINER = "driver"
MEMORY = "640Mi"
"""What the scheduler counts for a driver: half a GiB of heap, Python and the JVM's own."""
GRACE_S = 20
MOST_BYTES = 900_000
"""Of a ConfigMap: the API server refuses more than a MiB with all around it."""


@dataclass(frozen=True, slots=True)
class DriverPlan:
    """Everything a stage's driver is made from."""

    ref: StageRef
    image: str
    control: str
    """The node it runs on."""
    control_port: int
    metrics_port: int
    state: str
    """Its folder on the testbed's volume."""
    shared: bool
    """Whether its executors write there too."""
    spec: Mapping[str, Any]
    code_name: str
    code: str

    @property
    def code_path(self) -> str:
        """Where the app's file is inside the pod."""
        return f"{APP_FOLDER}/{self.code_name}"


def config_map(plan: DriverPlan) -> Manifest:
    """What the stage runner reads, and what executors are made from; FogError if it is too large."""
    data = {
        SPEC: json.dumps(plan.spec),
        TEMPLATE: json.dumps(template(plan.ref, plan.state if plan.shared else None)),
        DECOMMISSION: DECOMMISSION_SCRIPT,
        plan.code_name: plan.code,
    }
    if (size := sum(len(text.encode()) for text in data.values())) > MOST_BYTES:
        raise FogError(
            f"stage {plan.ref.stage} of {plan.ref.app} would need {size >> 10} KiB of configuration, and a "
            f"cluster takes {MOST_BYTES >> 10}",
            hint=f"make {plan.code_name} smaller: put tables and models into files of the image",
        )
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": plan.ref.about(), "data": data}


def stateful_set(plan: DriverPlan) -> Manifest:
    """The driver; one that ends is started again, and goes on from its checkpoint."""
    pod = plan.ref.role_labels(DRIVER_ROLE)
    about = plan.ref.about()
    digest = _digest(config_map(plan), _pod(plan))
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {**about, "annotations": {names.DIGEST: digest}},
        "spec": {
            "replicas": 1,
            "serviceName": plan.ref.name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": pod},
            "template": {"metadata": {"labels": pod}, "spec": _pod(plan)},
        },
    }


def _pod(plan: DriverPlan) -> Manifest:
    volume, mount = scratch("tmp")
    return {
        "serviceAccountName": names.DRIVER,
        "hostNetwork": True,
        "dnsPolicy": "Default",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_S,
        "securityContext": pod_security(),
        "affinity": on_node(plan.control),
        "tolerations": tolerations(),
        "containers": [
            {
                "name": CONTAINER,
                "image": plan.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-m", "fogctl.kube.driver_main", f"{APP_FOLDER}/{SPEC}"],
                "env": [
                    from_field("FOG_POD_IP", "status.podIP"),
                    from_field("FOG_POD_NAME", "metadata.name"),
                ],
                # The first one is what the API server's proxy asks unless it is told otherwise.
                "ports": [
                    {"name": "control", "containerPort": plan.control_port},
                    {"name": "metrics", "containerPort": plan.metrics_port},
                ],
                "resources": {"requests": {"cpu": "10m", "memory": MEMORY}},
                "securityContext": container_security(),
                "volumeMounts": [
                    mount,
                    {"name": "app", "mountPath": APP_FOLDER, "readOnly": True},
                    {"name": "secret", "mountPath": names.SECRET_FOLDER, "readOnly": True},
                    {"name": "state", "mountPath": STATE_FOLDER, "subPath": plan.state},
                ],
            }
        ],
        "volumes": [
            volume,
            {"name": "app", "configMap": {"name": plan.ref.name}},
            {"name": "secret", "secret": {"secretName": names.SECRET, "defaultMode": 0o440}},
            {"name": "state", "persistentVolumeClaim": {"claimName": names.STATE_CLAIM}},
        ],
    }


def forget_job(testbed: str, image: str, control: str, app: str, folder: str) -> Manifest:
    """Removes an app's folder on the testbed's volume, and then itself."""
    volume, mount = scratch("tmp")
    state = {"name": "state", "persistentVolumeClaim": {"claimName": names.STATE_CLAIM}}
    labels = {**names.labels(testbed), names.APP: names.label_value(app)}
    script = f"import shutil; shutil.rmtree({f'{STATE_FOLDER}/{folder}'!r}, ignore_errors=True)"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{names.PREFIX}-forget-{folder.rpartition('-')[2]}",
            "namespace": names.namespace(testbed),
            "labels": labels,
        },
        "spec": {
            "backoffLimit": 3,
            "activeDeadlineSeconds": 600,
            "ttlSecondsAfterFinished": 30,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "hostNetwork": True,
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "securityContext": pod_security(),
                    "affinity": on_node(control),
                    "tolerations": tolerations(),
                    "containers": [
                        {
                            "name": "forget",
                            "image": image,
                            "imagePullPolicy": "IfNotPresent",
                            "command": ["python3", "-I", "-S", "-c", script],
                            "securityContext": container_security(),
                            "volumeMounts": [mount, {"name": "state", "mountPath": STATE_FOLDER}],
                        }
                    ],
                    "volumes": [volume, state],
                },
            },
        },
    }


def _digest(*manifests: Manifest) -> str:
    """Tells two drivers apart that would not do the same."""
    return hashlib.sha256(json.dumps(manifests, sort_keys=True).encode()).hexdigest()[:16]
