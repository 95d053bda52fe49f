"""Control groups, version 1, 2 or both: which hierarchy really has a controller, and which file does what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fogctl.errors import REFUSED, FogError
from fogctl.testbed.kernel import unescape

PERIOD_US = 100_000
"""CPU quotas are counted per 100 ms, the kernel's own default."""
LEAST_QUOTA_US = 1_000
"""The kernel accepts no quota below 1 ms per period."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted tree of control groups."""

    root: str
    version: int

    def group(self, *names: str) -> str:
        """The path of a group below the root."""
        return "/".join((self.root, *names))


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where each thing we need from control groups is found on this host."""

    cpu: Hierarchy | None = None
    memory: Hierarchy | None = None
    usage: Hierarchy | None = None
    """Where used CPU time is counted."""

    @property
    def used(self) -> tuple[Hierarchy, ...]:
        """Every hierarchy a node gets a group in, each once."""
        found = (self.cpu, self.memory, self.usage)
        return tuple(dict.fromkeys(hierarchy for hierarchy in found if hierarchy is not None))

    def controllers(self, hierarchy: Hierarchy) -> tuple[str, ...]:
        """The controllers we use of that hierarchy."""
        pairs = (("cpu", self.cpu), ("memory", self.memory))
        return tuple(name for name, where in pairs if where == hierarchy)

    def require(self, *, memory: bool) -> None:
        """Refuse, with the remedy, if CPU quotas (or memory limits, when wanted) cannot be set here."""
        if self.cpu is None:
            raise FogError(
                "no mounted cgroup hierarchy has the cpu controller, so CPU cannot be shared out",
                hint="mount one, for example: mount -t cgroup2 none /sys/fs/cgroup; or use kind: sim",
                exit_code=REFUSED,
            )
        if memory and self.memory is None:
            raise FogError(
                "no mounted cgroup hierarchy has the memory controller, so memory cannot be limited",
                hint="boot with cgroup_enable=memory cgroup_memory=1 on the kernel command line",
                exit_code=REFUSED,
            )


def detect(mountinfo: str, controllers_of: Callable[[str], str]) -> Hierarchies:
    """What /proc/self/mountinfo offers; `controllers_of(mount point)` reads a v2 cgroup.controllers file.

    A controller belongs to one hierarchy at a time: on hybrid hosts the v2 tree is mounted but most
    controllers sit in v1, so being mounted proves nothing and the list of controllers decides.
    """
    version1: dict[str, Hierarchy] = {}
    unified: Hierarchy | None = None
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        if not right:
            continue
        root = unescape(left.split(" ")[4])
        kind, _, rest = right.partition(" ")
        if kind == "cgroup2" and unified is None:
            unified = Hierarchy(root, 2)
        elif kind == "cgroup":
            for option in rest.rpartition(" ")[2].split(","):
                version1.setdefault(option, Hierarchy(root, 1))
    offered = set(controllers_of(unified.root).split()) if unified else set()

    def owner(controller: str) -> Hierarchy | None:
        return unified if controller in offered else version1.get(controller)

    # Every v2 group counts CPU time, with or without the controller.
    return Hierarchies(cpu=owner("cpu"), memory=owner("memory"), usage=unified or version1.get("cpuacct"))


def quota_us(cores: float) -> int:
    """The quota per period that gives so many cores, never below what the kernel accepts."""
    return max(LEAST_QUOTA_US, round(cores * PERIOD_US))


def cpu_files(version: int, quota: int | None) -> list[tuple[str, str]]:
    """What to write where to set a CPU quota (None: no limit), in this order."""
    if version == 2:
        return [("cpu.max", f"{'max' if quota is None else quota} {PERIOD_US}")]
    return [("cpu.cfs_period_us", str(PERIOD_US)), ("cpu.cfs_quota_us", str(-1 if quota is None else quota))]


def memory_files(version: int, limit: int | None) -> list[tuple[str, str, bool]]:
    """What to write where to limit memory (None: no limit), in this order, and whether the file must exist.

    Swap is closed as well, or a node with "1 GiB" would have 1 GiB plus the host's swap. The swap files are
    missing when the kernel does not count swap. Version 1 wants memory <= memory+swap at every moment.
    """
    if version == 2:
        if limit is None:
            return [("memory.max", "max", True), ("memory.swap.max", "max", False)]
        return [("memory.max", str(limit), True), ("memory.swap.max", "0", False)]
    lifted = ("memory.memsw.limit_in_bytes", "-1", False)
    if limit is None:
        return [lifted, ("memory.limit_in_bytes", "-1", True)]
    return [
        lifted,
        ("memory.limit_in_bytes", str(limit), True),
        ("memory.memsw.limit_in_bytes", str(limit), False),
    ]


def read_quota(version: int, text: str) -> int | None:
    """The quota per PERIOD_US in the text of cpu.max (v2) or cpu.cfs_quota_us (v1); None: no limit."""
    if version == 2:
        quota, period = text.split()
        return None if quota == "max" else round(int(quota) * PERIOD_US / int(period))
    return None if int(text) < 0 else int(text)


def read_limit(text: str) -> int | None:
    """A memory limit in bytes; None: no limit (v2 says max, v1 a number near 2**63)."""
    return None if text.strip() == "max" or int(text) >= 1 << 62 else int(text)
