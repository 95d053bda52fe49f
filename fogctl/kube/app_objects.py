"""What a stage is made of in a cluster: labels, paths inside its pods, security of its containers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fogctl.kube import names

Manifest = dict[str, Any]
"""A Kubernetes object as plain JSON values; pods import this module, and nothing of the API's client."""

ROLE = "spark-role"
"""Spark's own label."""
DRIVER_ROLE, EXECUTOR_ROLE = "driver", "executor"
EXECUTOR_ID = "spark-exec-id"

APP_FOLDER = "/fog/app"
"""Where the stage's ConfigMap is: specification, code, executor template."""
STATE_FOLDER = "/fog/state"
"""Where the driver keeps what it must not lose: a folder of its own on the testbed's volume."""
SPEC = "spec.json"
TEMPLATE = "executor.json"
DECOMMISSION = "decommission.sh"

USER = 10001
"""Whom the image runs as."""


@dataclass(frozen=True, slots=True)
class StageRef:
    """One stage of an app on a testbed, as its objects know it."""

    testbed: str
    app: str
    stage: str

    @property
    def name(self) -> str:
        """What its objects are called."""
        return names.stage_name(self.app, self.stage)

    @property
    def namespace(self) -> str:
        """Where they are."""
        return names.namespace(self.testbed)

    @property
    def driver_pod(self) -> str:
        """The pod of its driver."""
        return f"{self.name}-0"

    @property
    def run_label(self) -> str:
        """The label of the nodes that its executors run on."""
        return names.run_label(self.app, self.stage)

    @property
    def labels(self) -> dict[str, str]:
        """What all its objects carry."""
        own = {names.APP: names.label_value(self.app), names.STAGE: names.label_value(self.stage)}
        return {**names.labels(self.testbed), **own}

    def role_labels(self, role: str) -> dict[str, str]:
        """What its driver's, or its executors', pods carry."""
        return {**self.labels, ROLE: role}

    def selector(self, role: str) -> str:
        """Finds those pods."""
        return ",".join(f"{key}={value}" for key, value in self.role_labels(role).items())

    def about(self) -> Manifest:
        """The metadata of an object of its name."""
        return {"name": self.name, "namespace": self.namespace, "labels": self.labels}


def pod_security() -> Manifest:
    """Nobody's rights: the image's user, and files of volumes that belong to it."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Manifest:
    """Nothing is written outside volumes, and no right is gained."""
    return {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def from_field(name: str, path: str) -> Manifest:
    """An environment variable that holds a fact of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def scratch(name: str) -> tuple[Manifest, Manifest]:
    """A volume for /tmp, and its mount."""
    return {"name": name, "emptyDir": {}}, {"name": name, "mountPath": "/tmp"}
