"""Take a testbed with kubelets down, when the test run asks for it or is gone: it waits for its input's end.

Run as `python -m tests.kube.sweep STATE_DIR TESTBED FOLDER`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from fogctl.testbed import names
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.state import StateFolder
from fogctl.testbed.virtual import take_down


def sweep(state_dir: Path, testbed: str, folder: Path) -> None:
    """End everything that runs in the testbed, and leave nothing of it: groups, namespaces, files."""
    host = LinuxHost()
    # Kubelets make groups in hierarchies that fogctl does not use; nothing may run there when the rest goes.
    own = [root / names.folder(testbed) for root in group_roots()]
    for group in own:
        if group.is_dir():
            for node in group.iterdir():
                if (node / KUBE).is_dir():
                    host.remove_group(str(node / KUBE))
    take_down(StateFolder.of(testbed, state_dir), host)
    for group in own:
        host.remove_group(str(group))
    shutil.rmtree(folder)


KUBE = "kube"
"""The part of a node's control groups in which its kubelet makes groups for pods."""


def group_roots() -> list[Path]:
    """Where every hierarchy of control groups is mounted."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [Path(line.split()[4]) for line in lines if " - cgroup" in line]


if __name__ == "__main__":
    while sys.stdin.read(16):
        pass
    sweep(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
