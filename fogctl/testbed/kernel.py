"""The few Linux system calls Python lacks: namespaces and mounts. Nothing here knows what a testbed is."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

NEW_MOUNTS = 0x00020000
NEW_HOSTNAME = 0x04000000
NEW_NETWORK = 0x40000000

BIND = 0x1000
RECURSIVE = 0x4000
SLAVE = 1 << 19
SHARED = 1 << 20
DETACH = 2


def _call(name: str, *arguments: object) -> None:
    """Call a C library function that answers 0, or raise OSError with what went wrong."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def unshare(what: int) -> None:
    """Give the calling thread new namespaces of the given kinds."""
    _call("unshare", what)


def enter(namespace: int, kind: int = NEW_NETWORK) -> None:
    """Move the calling thread into the namespace of an open file descriptor."""
    _call("setns", namespace, kind)


def mount(source: str, target: str, filesystem: str = "none", flags: int = 0) -> None:
    """mount(2) without data."""
    _call(
        "mount",
        source.encode(),
        target.encode(),
        filesystem.encode(),
        ctypes.c_ulong(flags),
        ctypes.c_void_p(),
    )


def unmount(target: str, flags: int = 0) -> None:
    """umount2(2)."""
    _call("umount2", target.encode(), flags)


@contextmanager
def network_kept() -> Iterator[None]:
    """Whatever network namespace the body enters, the thread leaves it again afterwards."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        enter(own)
        os.close(own)


def mount_points(mountinfo: str) -> set[str]:
    """Every mount point in the text of /proc/self/mountinfo."""
    return {unescape(line.split(" ")[4]) for line in mountinfo.splitlines() if line.count(" ") > 4}


def unescape(field: str) -> str:
    """A mountinfo field with its octal escapes (blank, tab, newline, backslash) resolved."""
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        field = field.replace("\\" + code, character)
    return field
