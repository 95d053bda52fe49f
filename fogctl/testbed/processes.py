"""Which processes live in control groups or network namespaces, and how they are ended for good."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from fogctl.errors import FAILED, REFUSED, FogError

PATIENCE_S = 20.0


def in_group(group: str) -> set[int]:
    """The processes in a control group and in every group below it."""
    found: set[int] = set()
    for path, _, files in os.walk(group):
        if "cgroup.procs" in files:
            with contextlib.suppress(OSError):
                found.update(int(pid) for pid in Path(path, "cgroup.procs").read_text().split())
    return found


def in_networks(inodes: set[int]) -> set[int]:
    """The processes whose network namespace has one of these inode numbers."""
    found = set()
    for entry in Path("/proc").iterdir() if inodes else ():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "ns/net").stat().st_ino in inodes:
                    found.add(int(entry.name))
    return found


def end(groups: Iterable[str], networks: set[int]) -> None:
    """Kill whatever is in the groups or networks, again and again until nothing is left there."""
    groups = [group for group in groups if Path(group).is_dir()]
    if os.getpid() in set().union(in_networks(networks), *map(in_group, groups)):
        raise FogError(
            "this fogctl runs inside the testbed it would end", hint="run it on the host", exit_code=REFUSED
        )
    for group in groups:
        _lift_quota(group)

    def kill_all() -> set[int]:
        for group in groups:
            with contextlib.suppress(OSError):
                # Kills forks in flight as well; version 2 only, Linux 5.14.
                _overwrite(f"{group}/cgroup.kill", "1")
        left = set().union(in_networks(networks), *map(in_group, groups))
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left

    left = wait_until_empty(kill_all)
    if left:
        raise FogError(
            f"processes {', '.join(map(str, sorted(left)))} of the testbed do not end although killed",
            hint="they hang in the kernel; see their state with ps, then run fogctl down again",
            exit_code=FAILED,
        )


def wait_until_empty(look: Callable[[], set[int]]) -> set[int]:
    """Call `look` until it answers an empty set or patience ends; answers what was left."""
    deadline = time.monotonic() + PATIENCE_S
    pause_s = 0.001
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(pause_s)
        pause_s = min(0.1, pause_s * 2)
    return left


def _lift_quota(group: str) -> None:
    """A killed process needs CPU time to end; a JVM at 1 % of a core would take minutes."""
    for path, _, files in os.walk(group):
        for name, text in (("cpu.max", "max"), ("cpu.cfs_quota_us", "-1")):
            if name in files:
                with contextlib.suppress(OSError):
                    _overwrite(f"{path}/{name}", text)


def _overwrite(path: str, text: str) -> None:
    """Write to an existing kernel file; never creates one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
