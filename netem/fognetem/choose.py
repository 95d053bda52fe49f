"""Which backend this host can run, found by trying each in a throw-away network namespace."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

from fognetem.backend import Backend, Kernel, UserSpace
from fognetem.endpoint import Endpoint
from fognetem.errors import NetemError
from fognetem.host import Host

WANTED = ("auto", "kernel", "userspace")


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend, its name, and a sentence that says why this one."""

    backend: Backend
    name: str
    why: str


def choose(
    endpoints: tuple[Endpoint, ...], run_dir: str, wanted: str = "auto", host: Host | None = None
) -> Choice:
    """The kernel's netem where it works, otherwise the delay line. NetemError if neither does."""
    if wanted not in WANTED:
        raise ValueError(f'there is no backend "{wanted}" (choose from: {", ".join(WANTED)})')
    kernel = userspace = None
    if wanted in ("auto", "kernel"):
        kernel = kernel_trouble(host)
        if kernel is None:
            why = "latencies are injected by the kernel (sch_netem), which this kernel offers"
            return Choice(Kernel(endpoints), "kernel", why)
        if wanted == "kernel":
            raise NetemError(f"the kernel backend does not work here: {kernel}")
    userspace = userspace_trouble(host)
    if userspace is None:
        reason = f"the kernel's sch_netem does not work here ({kernel})" if kernel else "it was asked for"
        why = f"latencies are injected in user space (NFQUEUE delay line): {reason}"
        return Choice(UserSpace(endpoints, run_dir), "userspace", why)
    if wanted == "userspace":
        raise NetemError(f"the user-space backend does not work here: {userspace}")
    raise NetemError(f"no way to inject latencies works here: kernel netem: {kernel}; NFQUEUE: {userspace}")


def kernel_trouble(host: Host | None = None) -> str | None:
    """Why the kernel backend does not work here; None if it does. Loads the module if there is one."""
    return _try("kernel", host)


def userspace_trouble(host: Host | None = None) -> str | None:
    """Why the user-space backend does not work here; None if it does."""
    return _try("userspace", host)


def _try(backend: str, host: Host | None) -> str | None:
    """Run the trial in a process of its own: what it makes vanishes with it."""
    if sys.platform != "linux":
        return "this is not Linux"
    argv = [sys.executable, "-m", "fognetem.trial", backend]
    if host is not None:
        try:
            said = host.run("", argv)
        except Exception as error:  # a host's own exception type: its sentence is the reason
            return str(error)
        return said.strip() or None
    if os.geteuid() != 0:
        return "this needs root"
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return (done.stdout.strip() or done.stderr.strip() or None) if done.returncode or done.stdout else None
