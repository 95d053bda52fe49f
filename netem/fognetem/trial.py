"""Tries a backend in a network namespace that vanishes with the process; prints why it does not work.

Run as `python -m fognetem.trial kernel|userspace`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

from fognetem.errors import NetemError
from fognetem.host import LocalHost
from fognetem.kernel import ShapeInterface
from fognetem.lead import calibrate
from fognetem.linux import new_network_namespace
from fognetem.path import Path
from fognetem.userspace import plain


def try_kernel() -> str | None:
    """Build a small tree with every feature on loopback and read it back."""
    _load("sch_netem", "sch_htb", "cls_u32")
    new_network_namespace()
    step = ShapeInterface("", "lo", ((1, "127.0.0.1", plain(Path(80, 8, 0.01, 1e6))),))
    host = LocalHost()
    try:
        step.apply(host)
        if not step.present(host):
            return "netem was accepted but is not there when read back"
    except NetemError as error:
        return str(error)
    except Exception as error:
        code = getattr(error, "code", None)
        if code is None:
            raise
        missing = code == 2
        return "this kernel has no sch_netem" if missing else f"the kernel refused netem: {os.strerror(code)}"
    return None


def try_userspace() -> str | None:
    """Send packets through a queue and back out."""
    _load("nfnetlink_queue", "xt_NFQUEUE")
    try:
        calibrate()
    except NetemError as error:
        return str(error)
    return None


def _load(*modules: str) -> None:
    """Load kernel modules; harmless where they are built in or absent, for the trial is what decides."""
    for module in modules:
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(["modprobe", "-q", module], capture_output=True, check=False)


def main(backend: str) -> int:
    """Print the trouble, if any."""
    try:
        trouble = try_kernel() if backend == "kernel" else try_userspace()
    except FileNotFoundError as error:
        trouble = f"{error.filename} is missing"
    except PermissionError as error:
        trouble = f"{error.strerror or error} (this needs root)"
    if trouble:
        print(trouble)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
