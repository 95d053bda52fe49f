"""Packets of a flow stay in order: each flow is handed to one CPU, whichever CPU sends or delays it.

A packet that crosses a veth is queued on the CPU that happens to carry it, so two packets of one flow on two
CPUs can overtake each other, which no cable does. Receive packet steering gives each flow a CPU of its own.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from fogctl.testbed import kernel


def cpu_mask(cpus: int) -> str:
    """All of the first `cpus` CPUs, as the kernel writes masks: groups of 32 bits, highest first."""
    bits = (1 << cpus) - 1
    groups: list[str] = []
    while bits or not groups:
        groups.append(f"{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
    return ",".join(reversed(groups))


def steer(namespace_file: str, interfaces: Sequence[str]) -> None:
    """Spread the flows that these interfaces receive over all CPUs, each flow staying on one."""
    mask = cpu_mask(os.cpu_count() or 1)

    def write() -> None:
        for interface in interfaces:
            with contextlib.suppress(FileNotFoundError):  # a kernel without steering
                _file(interface).write_text(mask)

    _with_interfaces_of(namespace_file, write)


def steered(namespace_file: str, interfaces: Sequence[str]) -> bool:
    """Whether these interfaces hand their flows to all CPUs; true where the kernel cannot."""
    wanted = int(cpu_mask(os.cpu_count() or 1).replace(",", ""), 16)
    found: list[bool] = []

    def read() -> None:
        for interface in interfaces:
            if not Path(f"/sys/class/net/{interface}").exists():
                found.append(False)
                continue
            with contextlib.suppress(FileNotFoundError):
                found.append(int(_file(interface).read_text().strip().replace(",", ""), 16) == wanted)

    _with_interfaces_of(namespace_file, read)
    return all(found)


def _file(interface: str) -> Path:
    return Path(f"/sys/class/net/{interface}/queues/rx-0/rps_cpus")


def _with_interfaces_of(namespace_file: str, act: Callable[[], None]) -> None:
    """Run `act` in a thread that sees the namespace's interfaces in /sys; its mounts vanish with it."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            descriptor = os.open(namespace_file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                kernel.enter(descriptor)
            finally:
                os.close(descriptor)
            kernel.unshare(kernel.NEW_MOUNTS)
            kernel.mount("", "/", flags=kernel.SLAVE | kernel.RECURSIVE)
            kernel.mount("fogctl", "/sys", "sysfs")
            act()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
