"""A cluster with kubelets that is not ended but killed: nothing of it stays on the host."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.kube.control_plane import until
from tests.kube.kubelets import Programs
from tests.kube.sweep import group_roots

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = """
import sys, time
from pathlib import Path
from tests.kube.kubelets import Kubelets, Programs
from tests.kube.pods import pod
server, tiny, name = sys.argv[1:]
with Kubelets(Programs(Path(server), Path(tiny)), name) as kubelets, kubelets.plane.namespace() as namespace:
    kubelets.plane.apply(*(pod(namespace, node, "spin", cpu="100m", node=node) for node in ("pi1", "pi2")))
    kubelets.plane.kubectl("wait", "pod", "--all", "-n", namespace, "--for=condition=Ready", "--timeout=150s")
    print(kubelets.folder, flush=True)
    time.sleep(600)
"""


def test_a_killed_test_run_leaves_no_node_no_container_and_no_file(kubelet_programs: Programs) -> None:
    name = f"x{os.getpid()}"
    settings = _kernel_settings()
    argv = [sys.executable, "-c", CLUSTER, str(kubelet_programs.server), str(kubelet_programs.tiny), name]
    run = subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert run.stdout is not None
    folder = run.stdout.readline().strip()
    assert folder, "the cluster did not come up"
    assert len(_traces(name, folder)) > 20
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    until(
        lambda: not _traces(name, folder),
        "nothing is left",
        otherwise=lambda: "\n".join(_traces(name, folder)),
    )
    assert _kernel_settings() == settings
    Path(f"{folder}.log").unlink(missing_ok=True)


def _traces(name: str, folder: str) -> list[str]:
    """Whatever on this host belongs to that testbed or names its folder."""
    found = [str(path) for path in Path("/run/netns").glob(f"fog-{name}-*")]
    for root in group_roots():
        # By os.walk, which passes over what is removed meanwhile.
        found += [at for at, _, _ in os.walk(root / f"fog-{name}")]
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if folder in line]
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            said = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if folder.encode() in said or f"/fog-{name}/" in (process / "cgroup").read_text():
                found.append(f"process {process.name}: {said[:80]!r}")
    return found + [folder] * Path(folder).exists()


def _kernel_settings() -> list[str]:
    """What a kubelet likes to set for the whole host."""
    files = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom")
    return [Path("/proc/sys", file).read_text() for file in files]
