"""The broker on a cluster: its objects, and how pods and this machine connect to it. Pure but for a file."""

from __future__ import annotations

import uuid
from pathlib import Path

from fogctl.kube import names
from fogctl.kube.access import Manifest
from fogctl.kube.credentials import KAFKA_PASSWORD_FILE, in_pods
from fogctl.kube.running import KubeRunning
from fogctl.runtime import broker as embedded
from fogctl.runtime.kafka_config import KafkaConnection, Security
from fogctl.testbed.model import KafkaSasl, Testbed

HEAP_MB = 192
MECHANISM = "SCRAM-SHA-512"
LOG_SIZE = "4Gi"
"""What is asked of the storage class; one that hands out folders does not enforce it."""
USER_ID = 10001
"""The image's user."""
_LOG = "/fog/log"
_SETTINGS = "/fog/settings"
_SCRIPT = Path(__file__).with_name("broker.sh")
CONTROL_PLANE_TAINTS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def properties() -> dict[str, str]:
    """The broker's settings, but for its address and its password: those are added where it runs."""
    return {
        "listener.security.protocol.map": "DATA:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "DATA",
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        # Passwords of the other kind are kept by the controller, so it cannot itself be asked for one.
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        **embedded.small_broker(f"{_LOG}/log"),
    }


def manifests(testbed: Testbed, storage_class: str, image: str) -> list[Manifest]:
    """Settings, log and broker, in the order in which they are made; none if Kafka is elsewhere."""
    if testbed.kafka is not None:
        return []
    return [
        _labelled(
            testbed,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": names.BROKER_SETTINGS},
                "data": {
                    "server.properties": embedded.as_text(properties()),
                    "broker.sh": _SCRIPT.read_text(encoding="utf-8"),
                },
            },
        ),
        claim(testbed, names.BROKER, storage_class, LOG_SIZE),
        _stateful_set(testbed, image),
    ]


def claim(testbed: Testbed, name: str, storage_class: str, size: str, *, shared: bool = False) -> Manifest:
    """A volume that one node writes to, or every node if it is shared."""
    return _labelled(
        testbed,
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteMany" if shared else "ReadWriteOnce"],
                "storageClassName": storage_class,
                "resources": {"requests": {"storage": size}},
            },
        },
    )


def on_node(node: str) -> Manifest:
    """The affinity of a pod that runs on exactly that node."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


def tolerations() -> list[Manifest]:
    """A control node may be closed to pods; ours are meant to be there."""
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in CONTROL_PLANE_TAINTS]


def _labelled(testbed: Testbed, manifest: Manifest) -> Manifest:
    about = {"namespace": names.namespace(testbed.name), "labels": names.labels(testbed.name)}
    return manifest | {"metadata": manifest["metadata"] | about}


def _stateful_set(testbed: Testbed, image: str) -> Manifest:
    own = {"app.kubernetes.io/name": names.BROKER}
    # The same testbed formats the same identity, so that a plan made again is the same plan.
    identity = embedded.cluster_identity(uuid.uuid5(uuid.NAMESPACE_DNS, names.namespace(testbed.name)))
    environment: list[Manifest] = [
        {"name": "NODE_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        *(
            {"name": name, "value": value}
            for name, value in {
                "KAFKA_USER": names.KAFKA_USER,
                "FOG_SECRETS": names.SECRET_FOLDER,
                "FOG_SETTINGS": _SETTINGS,
                "LOG_FOLDER": f"{_LOG}/log",
                "DATA_PORT": str(embedded.DATA_PORT),
                "CONTROLLER_PORT": str(embedded.CONTROLLER_PORT),
                "CLUSTER_ID": identity,
                "CLASS_PATH": "/opt/fogctl/kafka/*",
                "JAVA_OPTIONS": " ".join(embedded.java_options(HEAP_MB)),
            }.items()
        ),
    ]

    def container(name: str, command: str) -> Manifest:
        return {
            "name": name,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", f"{_SETTINGS}/broker.sh", command],
            "env": environment,
            "resources": {
                "requests": {"cpu": "200m", "memory": "320Mi"},
                "limits": {"memory": "768Mi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": "log", "mountPath": _LOG},
                {"name": "settings", "mountPath": _SETTINGS, "readOnly": True},
                {"name": "secrets", "mountPath": names.SECRET_FOLDER, "readOnly": True},
                {"name": "tmp", "mountPath": "/tmp"},
            ],
        }

    probe = {"tcpSocket": {"port": embedded.DATA_PORT}, "periodSeconds": 2, "failureThreshold": 3}
    running = container("broker", "run") | {
        "ports": [{"name": "kafka", "containerPort": embedded.DATA_PORT, "hostPort": embedded.DATA_PORT}],
        "readinessProbe": probe,
    }
    pod: Manifest = {
        "hostNetwork": True,
        "dnsPolicy": "Default",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "affinity": on_node(embedded.broker_node(testbed)),
        "tolerations": tolerations(),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [container("format", "format")],
        "containers": [running],
        "volumes": [
            {"name": "log", "persistentVolumeClaim": {"claimName": names.BROKER}},
            {"name": "settings", "configMap": {"name": names.BROKER_SETTINGS}},
            {"name": "secrets", "secret": {"secretName": names.SECRET, "defaultMode": 0o440}},
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "32Mi"}},
        ],
    }
    return _labelled(
        testbed,
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": names.BROKER},
            "spec": {
                "serviceName": names.BROKER,
                "replicas": 1,
                "selector": {"matchLabels": own | {names.TESTBED: testbed.name}},
                "template": {
                    "metadata": {"labels": own | names.labels(testbed.name)},
                    "spec": pod,
                },
            },
        },
    )


def inside(running: KubeRunning) -> KafkaConnection:
    """What pods connect to, with the files that their Secret is mounted as."""
    if (kafka := running.testbed.kafka) is not None:
        return KafkaConnection(",".join(kafka.servers), in_pods(kafka))
    sasl = KafkaSasl(MECHANISM, names.KAFKA_USER, f"{names.SECRET_FOLDER}/{names.KAFKA_PASSWORD}")
    return KafkaConnection(_servers(running), Security(sasl=sasl))


def outside(running: KubeRunning) -> KafkaConnection:
    """What this machine connects to: replay, audit, topics."""
    if (kafka := running.testbed.kafka) is not None:
        return KafkaConnection(",".join(kafka.servers), Security(kafka.tls, kafka.sasl))
    sasl = KafkaSasl(MECHANISM, names.KAFKA_USER, str(running.folder / KAFKA_PASSWORD_FILE))
    return KafkaConnection(_servers(running), Security(sasl=sasl))


def _servers(running: KubeRunning) -> str:
    return f"{running.address(embedded.broker_node(running.testbed))}:{embedded.DATA_PORT}"
