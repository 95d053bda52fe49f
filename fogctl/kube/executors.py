"""The pods of a stage's executors: on exactly the labelled nodes, one each. Pure."""

from __future__ import annotations

from fogctl.kube import names
from fogctl.kube.app_objects import (
    APP_FOLDER,
    DECOMMISSION,
    EXECUTOR_ROLE,
    STATE_FOLDER,
    Manifest,
    StageRef,
    container_security,
    from_field,
    pod_security,
    scratch,
)
from fogctl.runtime.deployment import BESIDE_HEAP_BYTES
from fogctl.runtime.executor_list import NODE_VARIABLE
from fogctl.runtime.spark import SMALL_JVM, Pool, tuning

CONTAINER = "executor"
REQUEST = "10m"
"""CPU that the scheduler counts. A share is a limit, set later: the whole node can be given away in shares
although the cluster's own pods need a little of it."""
GRACE_S = 30
OVERHEAD_BYTES = 2 * BESIDE_HEAP_BYTES
"""Beside the heap, before the kernel ends an executor."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

# Ends an executor whose pod is to go (a drain, an eviction) as scaling in does: its tasks are finished first.
DECOMMISSION_SCRIPT = "#!/bin/sh\nkill -s PWR 1\nwhile kill -s 0 1; do sleep 0.2; done\n"


def template(ref: StageRef, state: str | None = None) -> Manifest:
    """What Spark makes executors from; it adds name, image, command's end, environment, memory and CPU.

    With `state`, a folder of the testbed's volume, they keep the stage's state there.
    """
    volume, mount = scratch("tmp")
    claim = {"name": "state", "persistentVolumeClaim": {"claimName": names.STATE_CLAIM}}
    kept = {"name": "state", "mountPath": STATE_FOLDER, "subPath": state}
    labelled = {"key": ref.run_label, "operator": "Exists"}
    own = {"matchLabels": ref.role_labels(EXECUTOR_ROLE)}
    apart = [{"labelSelector": own, "topologyKey": names.HOST_NAME}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": ref.role_labels(EXECUTOR_ROLE)},
        "spec": {
            "hostNetwork": True,
            "dnsPolicy": "Default",
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": GRACE_S,
            "securityContext": pod_security(),
            "affinity": {
                "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [labelled]}]}},
                "podAntiAffinity": {_REQUIRED: apart},
            },
            "containers": [
                {
                    "name": CONTAINER,
                    "command": ["python3", "-m", "fogctl.kube.executor_main"],
                    "env": [from_field(NODE_VARIABLE, "spec.nodeName")],
                    "securityContext": container_security(),
                    "volumeMounts": [
                        mount,
                        {"name": "app", "mountPath": APP_FOLDER, "readOnly": True},
                        *([kept] if state else []),
                    ],
                }
            ],
            "volumes": [
                volume,
                *([claim] if state else []),
                {
                    "name": "app",
                    "configMap": {
                        "name": ref.name,
                        "defaultMode": 0o555,
                        "items": [{"key": DECOMMISSION, "path": DECOMMISSION}],
                    },
                },
            ],
        },
    }


def settings(pool: Pool, ref: StageRef, image: str, *, memory_bytes: int, slots: int) -> dict[str, str]:
    """Spark's settings as far as they are known before the driver's pod is there."""
    return {
        **tuning(pool, executor_memory_mb=memory_bytes >> 20, executor_cores=slots),
        "spark.driver.extraJavaOptions": SMALL_JVM,
        "spark.executor.extraJavaOptions": SMALL_JVM,
        "spark.executor.memoryOverhead": f"{OVERHEAD_BYTES >> 20}m",
        # Executors of several stages share a node's network: each takes a port that is free.
        "spark.blockManager.port": "0",
        # Whoever is there first gets work: the others may be minutes away, or their node switched off.
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        "spark.kubernetes.namespace": ref.namespace,
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
        "spark.kubernetes.executor.podTemplateFile": f"{APP_FOLDER}/executor.json",
        "spark.kubernetes.executor.podTemplateContainerName": CONTAINER,
        "spark.kubernetes.executor.request.cores": REQUEST,
        "spark.kubernetes.decommission.script": f"{APP_FOLDER}/{DECOMMISSION}",
        # The driver needs rights on pods only: no ConfigMap, no Service, no volume claims of Spark's own.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.kubernetes.allocation.batch.delay": "1s",
        "spark.kubernetes.allocation.batch.size": "50",
        "spark.kubernetes.executor.eventProcessingInterval": "500ms",
        "spark.kubernetes.executor.apiPollingInterval": "10s",
        # A pod that waits for a node that is no longer wanted goes at once.
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.kubernetes.dynamicAllocation.deleteGracePeriod": "2s",
        # Boards are switched off and on: a driver must not give up because many executors failed.
        "spark.executor.maxNumFailures": str(2**31 - 1),
    }
