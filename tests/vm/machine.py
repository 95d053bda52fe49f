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
    with_project: bool = True
    """Whether fogctl's own tests run in it, so that its Python packages are needed."""


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

# A board's own processor: the Pi 4's core, on a machine that only QEMU has.
ARM64 = Machine(
    debian_arch="arm64",
    kernel_package="linux-image-cloud-arm64",
    wheel_arch="aarch64",
    emulator="qemu-system-aarch64",
    board="virt",
    cpu="cortex-a72",
    console="ttyAMA0",
    with_project=False,
)
