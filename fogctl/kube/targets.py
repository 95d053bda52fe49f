"""Tells Prometheus what to scrape of a cluster, by HTTP service discovery: drivers that run, and nodes.

Run as `python -m fogctl.kube.targets TESTBED STATE_DIR PORT`; it answers on loopback: `/stages`, `/nodes`.
(Debian's Prometheus is built without the discovery of Kubernetes.)
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fogctl.kube import names
from fogctl.kube.kubelet_link import PAGE
from fogctl.kube.nodes import NodeState, node_states
from fogctl.kube.running import KubeRunning
from fogctl.metrics.http import serve

METRICS_PORT = "metrics"
"""What the port at which a driver exposes itself is called in its pod."""


def driver_targets(running: KubeRunning, pods: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Drivers that run, each behind the API server's proxy to its pod."""
    url = urlsplit(running.access.url)
    found = []
    for pod in pods:
        if (pod.get("status") or {}).get("phase") != "Running":
            continue
        name = pod["metadata"]["name"]
        for container in pod["spec"]["containers"]:
            for port in container.get("ports") or []:
                if port.get("name") == METRICS_PORT:
                    pods_path = f"/api/v1/namespaces/{running.namespace}/pods"
                    way = f"{url.path.rstrip('/')}{pods_path}/{name}:{port['containerPort']}/proxy/metrics"
                    labels = {"__metrics_path__": way, "instance": name, "testbed": running.testbed.name}
                    found.append({"targets": [url.netloc], "labels": labels})
    return found


def node_targets(testbed: str, nodes: Iterable[NodeState]) -> list[dict[str, Any]]:
    """The kubelets of all nodes, each at its own address; one that is lost is missed by Prometheus itself."""
    found = []
    for node in nodes:
        host = f"[{node.address}]" if ":" in node.address else node.address
        labels = {"__metrics_path__": PAGE, "node": node.name, "testbed": testbed}
        found.append({"targets": [f"{host}:{node.kubelet_port}"], "labels": labels})
    return found


def stages(running: KubeRunning) -> str:
    """What is to be scraped of stages, as Prometheus wants it; FogError if the cluster does not answer."""
    with running.access.sentences("looking for drivers"):
        pods = running.access.request(
            "GET",
            f"/api/v1/namespaces/{running.namespace}/pods",
            query={"labelSelector": f"spark-role=driver,{names.APP}"},
        )
    return json.dumps(driver_targets(running, pods["items"]))


def nodes(running: KubeRunning) -> str:
    """What is to be scraped of nodes, as Prometheus wants it; FogError if the cluster does not answer."""
    return json.dumps(node_targets(running.testbed.name, node_states(running).values()))


def main(testbed: str, state_dir: Path, port: int) -> None:
    """Answer until the process is ended. An answer that fails leaves Prometheus with the one before."""
    running = KubeRunning.load(testbed, state_dir)
    one = threading.Lock()

    def stages_page() -> str:
        with one:
            return stages(running)

    def nodes_page() -> str:
        with one:
            return nodes(running)

    serve("127.0.0.1", port, lambda: (), {"/stages": stages_page, "/nodes": nodes_page})
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
