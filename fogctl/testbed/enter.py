"""Becoming a process inside a node: its network, its /etc/hosts, its host name, its control groups.

Run as `python -m fogctl.testbed.enter NAMESPACE HOSTNAME GROUP[:GROUP…] -- COMMAND…`. It replaces itself by
the command, so signals, terminal and exit code are the command's own. Imports little: start-up counts.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from fogctl.testbed import kernel

NAMESPACES = str(Path("/var/run/netns").resolve())
NETNS_FILES = "/etc/netns"
CGROUPS = "/sys/fs/cgroup"
NOT_FOUND, NOT_EXECUTABLE, NOT_ENTERED = 127, 126, 125
"""Exit codes as shells and `env` use them."""


def become(namespace: str, hostname: str, groups: Sequence[str], argv: Sequence[str]) -> None:
    """Enter the node and run the command in this very process. Returns only by an exception (OSError)."""
    descriptor = os.open(f"{NAMESPACES}/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
    kernel.enter(descriptor)
    os.close(descriptor)
    kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_HOSTNAME)
    kernel.mount("", "/", flags=kernel.SLAVE | kernel.RECURSIVE)
    _mount_sys(namespace)
    for file in Path(NETNS_FILES, namespace).glob("*"):
        if Path("/etc", file.name).exists():
            kernel.mount(str(file), f"/etc/{file.name}", flags=kernel.BIND)
    socket.sethostname(hostname)
    # Last: from here on every instruction counts against the node's CPU quota.
    for group in groups:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))
    os.execvp(argv[0], list(argv))


def _mount_sys(namespace: str) -> None:
    """Show the node's own interfaces in /sys, and keep control groups visible: JVMs read them."""
    kept = os.open(CGROUPS, os.O_PATH | os.O_CLOEXEC) if Path(CGROUPS).is_dir() else None
    kernel.mount(namespace, "/sys", "sysfs")
    if kept is not None:
        if Path(CGROUPS).is_dir():
            kernel.mount(f"/proc/self/fd/{kept}", CGROUPS, flags=kernel.BIND | kernel.RECURSIVE)
        os.close(kept)


def become_or_exit(namespace: str, hostname: str, groups: Sequence[str], argv: Sequence[str]) -> None:
    """As `become`; what goes wrong is one sentence on standard error and an exit code."""
    try:
        become(namespace, hostname, groups, argv)
    except OSError as error:
        if error.filename == argv[0] or error.filename is None:
            print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
            sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)
        print(
            f"node {hostname} cannot be entered: {error.filename}: {error.strerror} (run fogctl up)",
            file=sys.stderr,
        )
        sys.exit(NOT_ENTERED)


if __name__ == "__main__":
    where, what = sys.argv[1:4], sys.argv[5:]
    become_or_exit(where[0], where[1], where[2].split(":"), what)
