"""The kinds of machine a guest can be: Debian architecture, kernel package, emulator and its devices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """One architecture of guest: what Debian, pip and QEMU call it."""

    debian_arch: str
    kernel_package: str
    wheel_arch: str
    emulator: str
    board: str
    # Old enough to emulate fast, new enough for numpy's wheels (x86-64-v2).
    cpu: str
    console: str


# The cloud kernel is Debian's stock kernel without drivers for physical devices: netem, ifb, veth, bridge,
# NFQUEUE and cgroup controllers are all there, and it is a quarter of the size.
AMD64 = Machine(
    debian_arch="amd64",
    kernel_package="linux-image-cloud-amd64",
    wheel_arch="x86_64",
    emulator="qemu-system-x86_64",
    board="pc",
    cpu="Nehalem",
    console="ttyS0",
)
