"""Persistent volumes of a test's cluster: folders made beforehand, under the storage class k3s would have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.kube.control_plane import ControlPlane

STORAGE_CLASS = "local-path"
SHARED_CLASS = "shared"
"""Its volumes can be written by all nodes: here they share one disk."""
SIZE = "64Gi"


def storage_class(name: str = STORAGE_CLASS) -> dict[str, Any]:
    """The class by name: a claim is bound when a pod that uses it has been given a node."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }


def volume(name: str, folder: str, node: str | None = None) -> dict[str, Any]:
    """A volume that is a folder of a node; of any node if none is named."""
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": SIZE},
        "hostPath": {"path": folder},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": STORAGE_CLASS,
    }
    if node is not None:
        there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def offer_played(plane: ControlPlane, count: int) -> None:
    """Have so many free volumes for pods that do not really run."""
    listed = plane.read("persistentvolumes")["items"]
    free = [one for one in listed if one.get("status", {}).get("phase") in (None, "Available", "Pending")]
    made = [
        volume(f"played-{number}", f"/played/{number}")
        for number in range(len(listed), len(listed) + count - len(free))
    ]
    if made:
        plane.apply(storage_class(), *made)


def offer_real(plane: ControlPlane, folders: Iterable[tuple[str, Path]]) -> None:
    """Have a volume in each of these folders of nodes; any user may write there, as k3s has it."""
    made = []
    for node, folder in folders:
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        made.append(volume(f"{node}-{folder.name}", str(folder), node))
    plane.apply(storage_class(), *made)


def offer_shared(plane: ControlPlane, folders: Iterable[Path]) -> None:
    """Have a volume in each of these folders, for every node at once."""
    made = []
    for folder in folders:
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        each = volume(f"{SHARED_CLASS}-{folder.name}", str(folder))
        each["spec"] |= {
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "storageClassName": SHARED_CLASS,
        }
        made.append(each)
    plane.apply(storage_class(SHARED_CLASS), *made)
