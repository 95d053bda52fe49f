"""What a host is like: the probe that asks it, and the parser of what the probe prints. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROBE = Path(__file__).with_name("probe.sh")


@dataclass(frozen=True, slots=True)
class Facts:
    """One host, as its probe saw it. None: the host did not say."""

    node: str
    hostname: str
    machine_id: str
    model: str
    """The board's own name, from its device tree; empty on a PC."""
    machine: str
    """The kernel's architecture, as `uname -m` says it."""
    userland_bits: int
    kernel: str
    os: str
    os_family: str
    init: str
    memory_cgroup: bool
    cmdline: str
    boot_file: str | None
    """Where the kernel command line is set."""
    modules: frozenset[str]
    """Kernel modules that are loaded or can be."""
    clock_synchronised: bool | None
    clock_offset_s: float
    """How far its clock is ahead of ours."""
    clock_error_s: float
    """How far that figure may be off."""
    disk_bytes: int
    disk_free_bytes: int
    root_read_only: bool
    memory_bytes: int
    swaps: tuple[str, ...]
    python: str
    k3s: str
    root: bool
    """Whether we may become root there."""
    prepared: bool
    """Whether fogctl has changed it before."""
    throttled: int | None
    """The bits of `vcgencmd get_throttled`."""
    write_bytes_s: float | None

    @property
    def is_64_bit_kernel(self) -> bool:
        """Whether the kernel is a 64-bit one."""
        return self.machine in ("aarch64", "x86_64")


def parse(node: str, printed: str, asked_s: float, answered_s: float) -> Facts:
    """Facts from what the probe printed between two moments of our clock; ValueError if it is cut short."""
    said, lists = _read(printed)
    if "ended" not in said:
        raise ValueError("the probe was cut short")
    low = float(said["ended"]) - answered_s
    high = float(said["started"]) - asked_s
    # The probe ran after we asked and before we had the answer: its clock is ahead by low to high.
    return Facts(
        node=node,
        hostname=said.get("hostname", ""),
        machine_id=said.get("machine_id", ""),
        model=said.get("model", ""),
        machine=said.get("machine", ""),
        userland_bits=int(said.get("userland_bits") or 0),
        kernel=said.get("kernel", ""),
        os=said.get("os", ""),
        os_family=said.get("os_family", ""),
        init=said.get("init", ""),
        memory_cgroup=_memory_cgroup(said),
        cmdline=said.get("cmdline", ""),
        boot_file=next(iter(lists.get("boot_file", [])), None),
        modules=frozenset(lists.get("module", [])),
        clock_synchronised={"yes": True, "no": False}.get(said.get("clock_synchronised", "")),
        clock_offset_s=(low + high) / 2,
        clock_error_s=abs(high - low) / 2,
        disk_bytes=int(said.get("disk_kib") or 0) * 1024,
        disk_free_bytes=int(said.get("disk_free_kib") or 0) * 1024,
        root_read_only="ro" in said.get("root_options", "").split(","),
        memory_bytes=int(said.get("memory_kib") or 0) * 1024,
        swaps=tuple(text.split()[0] for text in lists.get("swap", []) if text),
        python=said.get("python", ""),
        k3s=said.get("k3s", ""),
        root=said.get("root") == "yes",
        prepared=said.get("prepared") == "yes",
        throttled=_throttled(said.get("throttled", "")),
        write_bytes_s=_speed(said.get("written", "")),
    )


def _read(printed: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The last value of each key, and all values of each key."""
    lists: dict[str, list[str]] = {}
    for line in printed.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.isidentifier():
            lists.setdefault(key, []).append(value.strip())
    return {key: values[-1] for key, values in lists.items()}, lists


def _memory_cgroup(said: Mapping[str, str]) -> bool:
    if "memory" in said.get("controllers", "").split():
        return True
    # cgroup v1: enabled, and in a hierarchy of its own.
    enabled, _, hierarchy = said.get("memory_cgroup_v1", "").partition(" ")
    return enabled == "1" and hierarchy not in ("", "0")


def _throttled(text: str) -> int | None:
    _, _, value = text.partition("=")
    try:
        return int(value, 16) if value else None
    except ValueError:
        return None


def _speed(text: str) -> float | None:
    words = text.split()
    if len(words) != 2 or int(words[1]) <= 0:
        return None
    return int(words[0]) / (int(words[1]) / 1e9)
