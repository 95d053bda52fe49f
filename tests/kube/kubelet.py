"""One emulated node with Debian's containerd and a real kubelet on it, in namespaces that end with it."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fogctl.testbed.host import LinuxHost
from fogctl.testbed.model import Node
from fogctl.testbed.processes import in_group
from fogctl.testbed.running import Running
from tests.kube.control_plane import SERVICE_ADDRESS, SERVICE_NAMES, ControlPlane, until
from tests.kube.leash import Leashed
from tests.kube.stock import Stock, images_of
from tests.kube.sweep import KUBE, group_roots

PAUSE = "localhost/fogctl-test/pause:1"
NODE_FOLDERS = {"lib": "/var/lib", "log": "/var/log", "run": "/run"}
"""What the node has of its own: the usual paths, and nothing on the host changes."""
KERNEL_SETTINGS = {"kernel/panic": "10", "kernel/panic_on_oops": "1", "vm/overcommit_memory": "1"}
"""What a kubelet would set for the whole host; it finds it set."""
SOCKET = "/run/containerd/containerd.sock"
PLUGINS = "/usr/lib/cni"
LEASE_S = 12
LOOK_S = 5
"""How often it looks at its node: twice as often as in production, or tests would wait minutes."""
FREE = "16Mi"


class KubeletNode:
    """A node of a virtual testbed that takes part in a cluster."""

    def __init__(
        self, running: Running, node: Node, data_address: str, plane: ControlPlane, binary: Path, folder: Path
    ) -> None:
        self._running = running
        self._node = node
        self._address = data_address
        self._plane = plane
        self._binary = binary
        self.folder = folder
        self._program: Leashed | None = None
        self._images: Mapping[str, str] = {}
        self.started_at = 0.0

    @property
    def name(self) -> str:
        """The same in Kubernetes and in the testbed."""
        return self._node.name

    @property
    def group(self) -> str:
        """Its pods' control group, below the top of each hierarchy."""
        top = Path(self._running.groups(self.name)[0])
        return f"/{top.parent.name}/{top.name}/{KUBE}"

    def start(self) -> None:
        """Start containerd and the kubelet; they are ready some seconds later."""
        self._make_groups()
        script = self._write_files()
        # The kubelet's own work is the experimenter's, not the emulated board's: it is in the control node's
        # group, and only pods count against the node.
        where = self._running.namespace(self.name), self.name, ":".join(self._running.part_groups("cloud"))
        enter = [sys.executable, "-P", "-m", "fogctl.testbed.enter", *where, "--"]
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", str(script)]
        self.started_at = time.time()
        self._program = Leashed([*enter, *alone], self.folder / "node.log")

    def end(self) -> None:
        """Pull the plug: kubelet, containerd and every container are gone when this returns."""
        if self._program is not None:
            self._program.end()
            self._program = None
            groups = [str(root) + self.group for root in group_roots()]
            until(lambda: not set().union(*map(in_group, groups)), f"no container of {self.name} runs")

    def stock_up(self, stock: Stock) -> None:
        """Have all images that the stock has; before it is started."""
        self._images = stock.copy_to(self.folder / "lib" / "containerd")

    def has(self, archive: Path) -> bool:
        """Whether it has the images of an OCI archive."""
        return images_of(archive).items() <= self._images.items()

    def complaint(self) -> str:
        """What its programs said last."""
        logs = ("node.log", "containerd.log", "kubelet.log")
        return "\n".join(f"{name}:\n{_tail(self.folder / name)}" for name in logs)

    def alive(self) -> bool:
        """True; an AssertionError, with what its programs said, if it ended by itself."""
        assert self._program is not None, f"node {self.name} was never started"
        assert self._program.running, f"node {self.name} ended\n{self.complaint()}"
        return True

    def _make_groups(self) -> None:
        """The kubelet makes groups below one that must be there, in each hierarchy."""
        for root in group_roots():
            path = root
            for part in self.group.strip("/").split("/"):
                path = path / part
                path.mkdir(exist_ok=True)
                for name in ("cpuset.cpus", "cpuset.mems"):  # version 1: empty in a new group
                    own, above = path / name, path.parent / name
                    if own.exists() and above.exists() and not own.read_text().strip():
                        LinuxHost().write_kernel(str(own), above.read_text().strip())

    def _write_files(self) -> Path:
        shutil.rmtree(self.folder / "run", ignore_errors=True)  # as after a reboot
        for name in (*NODE_FOLDERS, "sysctl", "cni"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "run").chmod(0o711)
        (self.folder / "cni" / "10-loopback.conf").write_text(
            json.dumps({"cniVersion": "0.3.1", "name": "loopback", "type": "loopback"})
        )
        hosts = Path(f"/etc/netns/{self._running.namespace(self.name)}/hosts").read_text()
        (self.folder / "hosts").write_text(f"{hosts}{SERVICE_ADDRESS} {' '.join(SERVICE_NAMES)}\n")
        (self.folder / "containerd.toml").write_text(self._containerd_config())
        (self.folder / "kubelet.json").write_text(json.dumps(self._kubelet_config(), indent=1))
        script = self.folder / "node.sh"
        script.write_text("\n".join(self._script()) + "\n")
        return script

    def _script(self) -> Iterator[str]:
        """The first thing that runs in the node's own process and mount namespaces."""
        yield "set -e"
        for name, value in KERNEL_SETTINGS.items():
            file = self.folder / "sysctl" / name.replace("/", ".")
            file.write_text(f"{value}\n")
            yield f"mount --bind {file} /proc/sys/{name}"
        yield f"mount --bind {self.folder}/hosts /etc/hosts"
        for name, path in NODE_FOLDERS.items():
            yield f"mount --bind {self.folder}/{name} {path}"
        programs = [
            {
                "argv": ["/usr/bin/containerd", "--config", f"{self.folder}/containerd.toml"],
                "log": f"{self.folder}/containerd.log",
            },
            {"argv": self._kubelet_argv(), "log": f"{self.folder}/kubelet.log"},
        ]
        yield f"exec {self._binary} init {shlex.quote(json.dumps(programs))}"

    def _kubelet_argv(self) -> list[str]:
        """The kubelet, as soon as there is a containerd to speak to: it would not wait itself."""
        user = self._plane.authority.client(f"system:node:{self.name}", "system:nodes")
        argv = [
            str(self._binary),
            "kubelet",
            f"--config={self.folder}/kubelet.json",
            f"--kubeconfig={self._plane.kubeconfig_for(f'kubelet-{self.name}', user)}",
            f"--hostname-override={self.name}",
            f"--node-ip={self._address}",
            f"--housekeeping-interval={LOOK_S}s",
        ]
        return ["/bin/sh", "-c", f"until [ -S {SOCKET} ]; do sleep 0.1; done; exec {shlex.join(argv)}"]

    def _kubelet_config(self) -> dict[str, Any]:
        serving = self._plane.authority.server(f"kubelet-{self.name}", [self._address, self.name])
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self._plane.ca_file)},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.group,
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "enforceNodeAllocatable": ["pods"],
            # The disk is the host's, and its fill level is none of this node's business.
            "evictionHard": {"memory.available": FREE, "nodefs.available": FREE, "imagefs.available": FREE},
            "failCgroupV1": False,
            "healthzPort": 0,
            "imageGCHighThresholdPercent": 100,
            "kubeReserved": self._reserved(),
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "nodeLeaseDurationSeconds": LEASE_S,
            "nodeStatusUpdateFrequency": "2s",
            "oomScoreAdj": 0,
            "registerNode": True,
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
            "volumePluginDir": "/var/lib/kubelet/plugins-volumes",
        }

    def _reserved(self) -> dict[str, str]:
        """What the host has and the emulated node does not, so that the scheduler sees the node's size."""
        cores, memory = _host_size()
        kept = {}
        if self._node.cpu_cores is not None:
            kept["cpu"] = f"{round(1000 * max(0.0, cores - self._node.cpu_cores))}m"
        if self._node.memory_bytes is not None:
            kept["memory"] = str(max(0, memory - self._node.memory_bytes))
        return kept

    def _containerd_config(self) -> str:
        return f"""\
version = 2
oom_score = 0
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{PAUSE}"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{PLUGINS}"
  conf_dir = "{self.folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
"""


def _host_size() -> tuple[int, int]:
    """Cores and bytes of memory of this host."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    kibibytes = next(int(line.split()[1]) for line in lines if line.startswith("MemTotal:"))
    cores = sum(line.startswith("processor") for line in Path("/proc/cpuinfo").read_text().splitlines())
    return cores, kibibytes * 1024


def _tail(file: Path, lines: int = 12) -> str:
    return "\n".join(file.read_text(errors="replace").splitlines()[-lines:]) if file.exists() else "(nothing)"
