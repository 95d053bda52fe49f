"""Nodes that kwok plays: pods on them become Running and can be resized, and nothing really runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from tests.kube.control_plane import ControlPlane, names_of, until
from tests.kube.leash import Leashed
from tests.kube.programs import VERSION
from tests.kube.storage import offer_played

STAGES = Path(__file__).resolve().parent / "stages.yaml"
PLAYED = ("fogctl.test/played-by", "kwok")
LEASE_S = 12
"""kwok renews a lease after a quarter of this; the controllers lose patience after all of it."""
FREE_VOLUMES = 12
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
NOBODY = "nobody"


class FakeNodes:
    """kwok beside a control plane, as long as the `with` body lasts, and the nodes it plays."""

    def __init__(self, kwok: Path, plane: ControlPlane, folder: Path) -> None:
        self._kwok = kwok
        self._plane = plane
        self._folder = folder
        self._made = 0
        self._kubeconfig = folder / "kubeconfig"
        self._program: Leashed | None = None

    def __enter__(self) -> Self:
        self._kubeconfig = self._plane.kubeconfig_for(
            "kwok", self._plane.authority.client("fog-test-kwok", "system:masters")
        )
        self._start()
        self._plane.when_api_is_back.append(self._follow)
        return self

    def __exit__(self, *_: object) -> None:
        self._plane.when_api_is_back.remove(self._follow)
        self._end()

    def _start(self) -> None:
        argv = [
            str(self._kwok),
            f"--config={STAGES}",
            f"--kubeconfig={self._kubeconfig}",
            f"--manage-nodes-with-annotation-selector={'='.join(PLAYED)}",
            f"--node-lease-duration-seconds={LEASE_S}",
            "--cidr=10.244.0.0/16",
        ]
        self._program = Leashed(argv, self._folder / "kwok.log")

    def _end(self) -> None:
        if self._program is not None:
            self._program.end()

    def _follow(self) -> None:
        """Start kwok anew with an API server, and let it have its nodes, whose leases the old one holds."""
        self._end()
        (leases,) = self._plane.get(LEASES)
        held = [each for each in leases["items"] if each["spec"].get("holderIdentity") != NOBODY]
        self._plane.remove(*(f"{LEASES}/{each['metadata']['name']}" for each in held))
        self._start()

    @property
    def pid(self) -> int:
        """kwok's process number."""
        assert self._program is not None
        return self._program.pid

    def add(
        self, names: Iterable[str], *, cpu: str = "4", memory: str = "4Gi", labels: Mapping[str, str] = {}
    ) -> list[str]:
        """Nodes of these names and sizes, and free volumes for their pods; returns when all are ready."""
        offer_played(self._plane, FREE_VOLUMES)
        wanted = list(names)
        self._plane.api.create(*(self._node(name, cpu, memory, labels) for name in wanted))
        until(
            lambda: set(wanted) <= set(self._in_state("True")),
            f"{len(wanted)} nodes are ready",
            otherwise=self._complaint,
        )
        return wanted

    def remove(self, names: Sequence[str]) -> None:
        """Take nodes away, and at once the pods on them."""
        pods = [
            f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            for pod in self._plane.read("pods", "-A")["items"]
            if pod["spec"].get("nodeName") in names
        ]
        self._plane.remove(
            *(f"{pod}?gracePeriodSeconds=0" for pod in pods),
            *(f"/api/v1/nodes/{name}" for name in names),
            *(f"{LEASES}/{name}" for name in names),
        )
        until(lambda: not set(names) & set(names_of(self._plane.read("nodes"))), "the nodes are gone")

    def lose(self, name: str) -> None:
        """Let a node fall silent; returns when the controllers have noticed."""
        # kwok leaves alone what somebody else has leased, and that somebody never renews it.
        self._lease(name, NOBODY, 24 * 3600)
        until(lambda: name in self._in_state("Unknown"), f"node {name} is lost", otherwise=self._complaint)

    def find(self, name: str) -> None:
        """Let a lost node speak again; returns when it is ready."""
        self._plane.remove(f"{LEASES}/{name}")
        until(lambda: name in self._in_state("True"), f"node {name} is found", otherwise=self._complaint)

    def _lease(self, name: str, holder: str, seconds: int) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": now}
        self._plane.api.patch(f"{LEASES}/{name}", {"spec": spec})

    def _in_state(self, ready: str) -> list[str]:
        """The nodes whose condition Ready is that."""
        return [
            node["metadata"]["name"]
            for node in self._plane.read("nodes")["items"]
            for condition in node["status"].get("conditions", ())
            if condition["type"] == "Ready" and condition["status"] == ready
        ]

    def _complaint(self) -> str:
        return "" if self._program is None else self._program.complaint()

    def _node(self, name: str, cpu: str, memory: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """A node with its status: the scheduler may look at it before kwok does."""
        high, low = divmod(self._made, 250)
        self._made += 1
        size = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "30Gi"}
        known = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**known, **labels}, "annotations": dict([PLAYED])},
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": f"10.79.{high}.{low + 1}"},
                    {"type": "Hostname", "address": name},
                ],
                "capacity": size,
                "allocatable": size,
                "nodeInfo": {
                    "architecture": "arm64",
                    "bootID": "",
                    "containerRuntimeVersion": "kwok://",
                    "kernelVersion": "6.12.0",
                    "kubeProxyVersion": "",
                    "kubeletVersion": VERSION,
                    "machineID": "",
                    "operatingSystem": "linux",
                    "osImage": "played by kwok",
                    "systemUUID": "",
                },
            },
        }
