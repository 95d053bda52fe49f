"""The few Linux calls Python's standard library lacks: namespaces, real-time scheduling, locked memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from collections.abc import Iterator

CLONE_NEWNET = 0x40000000
NETNS_DIR = "/run/netns"
_MCL_CURRENT, _MCL_FUTURE = 1, 2
_PR_SET_TIMERSLACK = 29
REALTIME_PRIORITY = 50

libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def namespace_path(namespace: str) -> str:
    """The file that stands for a named network namespace; "" is the caller's own."""
    if not namespace:
        return "/proc/thread-self/ns/net"
    return namespace if namespace.startswith("/") else f"{NETNS_DIR}/{namespace}"


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Run the body's calls in that network namespace; sockets opened there stay in it for good."""
    if not namespace:
        yield
        return
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(namespace_path(namespace), os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(libc.setns(there, CLONE_NEWNET), f"entering network namespace {namespace}")
        finally:
            os.close(there)
        try:
            yield
        finally:
            _check(libc.setns(home, CLONE_NEWNET), "returning from a network namespace")
    finally:
        os.close(home)


def new_network_namespace() -> None:
    """Put the calling process into a fresh network namespace that vanishes with it."""
    _check(libc.unshare(CLONE_NEWNET), "making a network namespace")


def become_realtime(priority: int = REALTIME_PRIORITY) -> str | None:
    """Ask for SCHED_FIFO, locked memory and no collector pauses; the reason if real time was refused."""
    libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
    gc.collect()
    gc.freeze()
    gc.disable()
    # Locking may be refused where real time is not: the memory is small and in use anyhow.
    libc.mlockall(_MCL_CURRENT | _MCL_FUTURE)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        return f"SCHED_FIFO was refused ({error.strerror}); delays will be off while the host is busy"
    return None


@contextlib.contextmanager
def realtime(priority: int = REALTIME_PRIORITY) -> Iterator[str | None]:
    """SCHED_FIFO for the body only; yields the reason if it was refused."""
    before, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    refused: str | None = None
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        refused = f"SCHED_FIFO was refused ({error.strerror})"
    try:
        yield refused
    finally:
        if refused is None:
            os.sched_setscheduler(0, before, parameter)
