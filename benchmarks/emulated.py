"""What the benchmarks that bring testbeds up share: root, an idle host, cleaning up after themselves."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping

from benchmarks.report import Part, collect
from benchmarks.row import Row

NEEDS_ROOT = 3
_IDLE_LOAD = 0.5


def without_root(script: str) -> bool:
    """Whether this cannot run here, which is then said."""
    if sys.platform == "linux" and os.geteuid() == 0:
        return False
    print(f"benchmarks/{script} needs root on Linux: it makes network namespaces", file=sys.stderr)
    return True


def idle_remarks() -> tuple[str, ...]:
    """A sentence for the reader if the host has other things to do."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if load <= _IDLE_LOAD:
        return ()
    return (f"this host was not idle before the run: {load:.1f} runnable processes a core",)


def measure(
    parts: Mapping[str, Callable[[], Iterable[Row]]], remove_left: Callable[[], None]
) -> tuple[Part, ...]:
    """Measure each part; what an interrupted one left standing is taken down, also after an ordinary kill."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return tuple(collect(name, rows) for name, rows in parts.items())
    finally:
        # A signal may strike in the very moment a testbed is being made or removed.
        remove_left()


def _terminated(*_: object) -> None:
    """Unwind once, as Ctrl-C does; a second kill must not interrupt the cleaning."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)
