"""Which processor a binary is built for, by its first bytes."""

from __future__ import annotations

HEADER_BYTES = 20
MAGIC = b"\x7fELF"
"""How every ELF file begins."""
_BIG_ENDIAN = 2
_MACHINES = {
    3: "386",
    8: "mips",
    21: "ppc64le",
    22: "s390x",
    40: "arm",
    62: "amd64",
    183: "arm64",
    243: "riscv64",
}
"""e_machine, in the words of container images (the ELF specification; GOARCH)."""


def architecture(head: bytes) -> str | None:
    """The processor an ELF file is for, from its first 20 bytes; None if it is no ELF file."""
    if len(head) < HEADER_BYTES or not head.startswith(MAGIC):
        return None
    machine = int.from_bytes(head[18:20], "big" if head[5] == _BIG_ENDIAN else "little")
    return _MACHINES.get(machine, f"machine {machine}")
