"""The testbed.yaml of a cluster that is there already, from its nodes and storage classes. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from fogctl.config.boards import UNLIMITED
from fogctl.config.fields import node_name
from fogctl.config.shipped import SCHEMA_COMMENT
from fogctl.errors import REFUSED, FogError
from fogctl.kube.access import Manifest
from fogctl.kube.broker import CONTROL_PLANE_TAINTS
from fogctl.testbed.model import KubeCluster, Role

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def yaml_text(
    name: str,
    kubeconfig: Path,
    context: str | None,
    nodes: Sequence[Manifest],
    storage_classes: Sequence[Manifest],
    server: str = "",
) -> str:
    """A description of all nodes of the cluster; FogError if they cannot be a testbed.

    `server` is where its API server is: the node with that address is the control node, if none says it is.
    """
    found = sorted(each["metadata"]["name"] for each in nodes)
    if not found:
        raise FogError("the cluster has no nodes", hint="join some first", exit_code=REFUSED)
    for each in found:
        try:
            node_name(each)
        except ValueError as error:
            raise FogError(f"the cluster's node {each} cannot be a node of a testbed: {error}") from None
    control = _control(nodes, server)
    lines = [
        SCHEMA_COMMENT,
        "#",
        "# A cluster that was there before. Name the boards that the nodes are where you know them (fogctl",
        "# board list). To inject latencies, say under hosts: how each is reached over SSH.",
        f"name: {name}",
        "kind: k3s",
        "kube:",
        f"  config: {json.dumps(str(kubeconfig))}",
        *([f"  context: {json.dumps(context)}"] if context is not None else []),
        *_storage(storage_classes),
        "nodes:",
    ]
    for each in sorted(found, key=lambda each: (each != control, each)):
        role = Role.control if each == control else Role.edge
        lines.append(f"  - {{name: {each}, role: {role.value}, board: {UNLIMITED}}}")
    return "\n".join(lines) + "\n"


def _control(nodes: Sequence[Manifest], server: str) -> str:
    """The node that the cluster itself calls so, or where its API server is; else the first by name."""
    by_name = sorted(nodes, key=lambda each: str(each["metadata"]["name"]))
    for each in by_name:
        if any(key in CONTROL_PLANE_TAINTS for key in each["metadata"].get("labels") or {}):
            return str(each["metadata"]["name"])
    host = urlsplit(server).hostname
    for each in by_name:
        known = (each.get("status") or {}).get("addresses") or []
        if host is not None and host in [address["address"] for address in known]:
            return str(each["metadata"]["name"])
    return str(by_name[0]["metadata"]["name"])


def _storage(classes: Sequence[Manifest]) -> list[str]:
    """The class to use, if it is not the one that is used anyway."""
    usual = KubeCluster().storage_class
    there = [str(each["metadata"]["name"]) for each in classes]
    if usual in there or not there:
        return []
    chosen = [
        str(each["metadata"]["name"])
        for each in classes
        if (each["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    ]
    return [f"  storage_class: {(chosen or there)[0]}"]
