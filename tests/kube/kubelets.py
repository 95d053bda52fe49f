"""A virtual testbed, brought up by fogctl, whose nodes are the nodes of a real Kubernetes cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from fogctl.testbed import cgroups, names
from fogctl.testbed.running import Running
from tests.integration.live_testbed import described, ok
from tests.kube.control_plane import SERVICE_ADDRESS, ControlPlane, Place, until
from tests.kube.kubelet import PAUSE, KubeletNode
from tests.kube.leash import Leashed
from tests.kube.oci import write_archive
from tests.kube.pods import IMAGE
from tests.kube.programs import cache_folder
from tests.kube.stock import Stock, images_of
from tests.kube.storage import offer_real, offer_shared

FOGCTL = [sys.executable, "-c", "from fogctl.cli import main; main()"]
ROOT = Path(__file__).resolve().parents[2]
CONTROL = "cloud"
PIS = '{name: "pi[1-2]", role: edge, site: field, board: rpi4-2g, cpu: 60%, memory: 1200MiB}'
RTT_MS = 20
VOLUMES = 12
"""On each node; a volume is used once."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The binaries that make a cluster."""

    server: Path
    tiny: Path


class Kubelets:
    """The cluster, as long as the `with` body lasts: control plane in the control node, a kubelet on each."""

    def __init__(self, programs: Programs, name: str) -> None:
        self._programs = programs
        self._name = name
        self._stock = Stock(cache_folder() / "containerd")

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="fog-kube-"))
        self.folder.chmod(0o711)  # pods that are not root write to volumes in it
        self.state_dir = self.folder / "state-k3s"
        own_state = self.folder / "state"
        sweeping = [sys.executable, "-m", "tests.kube.sweep", str(own_state), self._name, str(self.folder)]
        environment = {"PYTHONPATH": str(ROOT), "FOGCTL_STATE_DIR": str(own_state)}
        self._sweeper = Leashed(sweeping, self.folder.with_suffix(".log"), environment)
        self._nodes: dict[str, KubeletNode] = {}
        self._plane: ControlPlane | None = None
        try:
            self._bring_up(own_state)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Take everything down; returns when nothing is left."""
        for node in self._nodes.values():
            node.end()
        if self._plane is not None:
            self._plane.end()
        self._sweeper.let_go(timeout_s=120)
        assert self._sweeper.wait() == 0, self._sweeper.complaint()
        self._sweeper.log.unlink()

    def _bring_up(self, own_state: Path) -> None:
        (self.folder / "testbed.yaml").write_text(described(self._name, PIS, scale=None, rtt=f"{RTT_MS}ms"))
        environment = {**os.environ, "FOGCTL_STATE_DIR": str(own_state)}
        up = [*FOGCTL, "up", "--testbed", str(self.folder / "testbed.yaml")]
        ok(subprocess.run(up, env=environment, capture_output=True, text=True, check=False, timeout=250))
        self.running = Running.load(self._name, own_state)
        self._lead_to_service()
        self._plane = self._start_plane()
        entries = {PAUSE: ["/tiny", "pause"], IMAGE: ["/tiny"]}
        self._stock.add(write_archive(self.folder / "tiny.tar", self._programs.tiny, entries))
        for index, node in enumerate(self.running.testbed.nodes):
            made = KubeletNode(
                self.running,
                node,
                names.data_address(index),
                self._plane,
                self._programs.server,
                self.folder / node.name,
            )
            self._nodes[node.name] = made
            made.stock_up(self._stock)
            made.start()
        offer_real(
            self._plane,
            [(node, self.folder / node / "volumes" / str(n)) for node in self._nodes for n in range(VOLUMES)],
        )
        offer_shared(self._plane, [self.folder / "shared" / str(n) for n in range(VOLUMES)])
        self._until_ready(self.nodes)

    def _start_plane(self) -> ControlPlane:
        index = next(i for i, node in enumerate(self.running.testbed.nodes) if node.name == CONTROL)
        folder = self.folder / "plane"
        folder.mkdir()
        place = Place(
            address=names.management_address(index),
            listen="0.0.0.0",
            port=443,
            also=(names.data_address(index), CONTROL, f"{CONTROL}-mgmt"),
            wrap=self.inside,
            inside=lambda: self.running.host.inside(self.running.namespace(CONTROL)),
        )
        return ControlPlane(self._programs.server, folder, place).__enter__()

    def _lead_to_service(self) -> None:
        """Where kube-proxy would translate: the service's address is the control node's as well."""
        host, there = self.running.host, names.management_address(0)
        for node in self.running.testbed.nodes:
            namespace = self.running.namespace(node.name)
            if node.name == CONTROL:
                host.run(namespace, ["ip", "address", "add", f"{SERVICE_ADDRESS}/32", "dev", "lo"])
            else:
                host.run(namespace, ["ip", "route", "add", f"{SERVICE_ADDRESS}/32", "via", there])

    def _ready(self) -> set[str]:
        """The nodes whose kubelets have said that they are ready, since they were started."""
        return {
            node["metadata"]["name"]
            for node in self.plane.read("nodes")["items"]
            for condition in node["status"]["conditions"]
            if condition["type"] == "Ready"
            and condition["status"] == "True"
            and datetime.fromisoformat(condition["lastHeartbeatTime"]).timestamp()
            >= self._nodes[node["metadata"]["name"]].started_at
        }

    def _complaint(self) -> str:
        lacking = [node.complaint() for name, node in self._nodes.items() if name not in self._ready()]
        return "\n".join(lacking)

    # What tests use

    @property
    def plane(self) -> ControlPlane:
        """The control plane, in the control node's namespace."""
        assert self._plane is not None
        return self._plane

    @property
    def kubeconfig(self) -> Path:
        """For the administrator; works inside the nodes' namespaces only."""
        return self.plane.kubeconfig

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes, in Kubernetes and in the testbed."""
        return tuple(self._nodes)

    def inside(self, argv: Sequence[str], node: str = CONTROL) -> list[str]:
        """A command that runs in a node: its network, names and control group."""
        return self.running.exec_argv(node, argv)

    def fogctl(self, *arguments: str, timeout: float = 250) -> subprocess.CompletedProcess[str]:
        """The command line in the control node, with a state folder of its own."""
        environment = {
            **os.environ,
            "FOGCTL_STATE_DIR": str(self.state_dir),
            "KUBECONFIG": str(self.kubeconfig),
        }
        done = subprocess.run(
            self.inside([*FOGCTL, *arguments]),
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def load(self, archive: Path) -> list[str]:
        """Have the images of an OCI archive on every node; answers their names.

        Nodes start with all images of earlier runs. If these are new, the nodes are switched off and on.
        """
        lacking = [name for name, node in self._nodes.items() if not node.has(archive)]
        if lacking:
            self._stock.add(archive)
            for name in lacking:
                self.unplug(name)
                self._nodes[name].stock_up(self._stock)
            for name in lacking:
                self._nodes[name].start()
            self._until_ready(lacking)
        return list(images_of(archive))

    def cpu_quota(self, namespace: str, pod: str, container: str = "main") -> int | None:
        """The CPU quota of a container as the kernel has it, in microseconds per 100 ms; None: no limit."""
        found = self.plane.read("pod", pod, "-n", namespace)
        (status,) = [one for one in found["status"]["containerStatuses"] if one["name"] == container]
        short = status["containerID"].removeprefix("containerd://")
        return self.quota_in(found["spec"]["nodeName"], found["metadata"]["uid"], short)

    def quota_in(self, node: str, pod_uid: str, container_id: str) -> int | None:
        """The same without asking the API server."""
        where = self.running.hierarchies.cpu
        assert where is not None
        (folder,) = Path(where.root + self._nodes[node].group).rglob(f"pod{pod_uid}/{container_id}")
        file = cgroups.cpu_files(where.version, None)[-1][0]
        return cgroups.read_quota(where.version, (folder / file).read_text())

    def group(self, node: str) -> str:
        """The control group of a node's pods, below the top of each hierarchy."""
        return self._nodes[node].group

    def pods_in(self, node: str) -> set[str]:
        """The control groups of the pods that are on a node, by the kernel."""
        where = self.running.hierarchies.cpu
        assert where is not None
        return {path.name for path in Path(where.root + self.group(node)).rglob("pod*") if path.is_dir()}

    def unplug(self, node: str) -> None:
        """Pull the plug of a node: its kubelet and its pods are gone at once."""
        self._nodes[node].end()

    def plug_in(self, node: str) -> None:
        """Start an unplugged node again; returns when it is ready."""
        self._nodes[node].start()
        self._until_ready([node])

    def _until_ready(self, wanted: Sequence[str]) -> None:
        """Wait until these nodes' kubelets are ready."""

        def ready() -> bool:
            return all(self._nodes[name].alive() for name in wanted) and self._ready() >= set(wanted)

        until(ready, f"the kubelets of {', '.join(wanted)} are ready", otherwise=self._complaint)
