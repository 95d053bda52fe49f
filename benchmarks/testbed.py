"""Every figure of the emulated testbed in one run: nodes, latencies, throughput, live changes, CPU shares.

    sudo python benchmarks/testbed.py [--quick] [--only PART ...] [--backend kernel|userspace] [--nodes N ...]
                                      [-o json] [--markdown FILE]

All traffic stays inside network namespaces that it makes and removes. The exit code is 1 if a part fails or
a target is missed, 2 for bad usage, 3 without root. Killed with -9 in the middle, `fogctl down --all` cleans.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# `benchmarks` is importable whatever folder this is started from; its own modules must not shadow others.
sys.path[0:1] = [str(ROOT)]

from fognetem.choose import kernel_trouble, userspace_trouble  # noqa: E402

from benchmarks.emulated import NEEDS_ROOT, idle_remarks, measure, without_root  # noqa: E402
from benchmarks.report import Report, machine, publish  # noqa: E402
from benchmarks.row import Row  # noqa: E402
from benchmarks.testbed_rows import changes, nodes, packets, rtt, shares, tcp  # noqa: E402
from benchmarks.testbed_rows.bed import Settings, remove_left  # noqa: E402

PARTS: dict[str, Callable[[Settings], Iterator[Row]]] = {
    "nodes": nodes.rows,
    "rtt": rtt.rows,
    "tcp": tcp.rows,
    "packets": packets.rows,
    "changes": changes.rows,
    "shares": shares.rows,
}
BACKENDS: dict[str, Callable[[], str | None]] = {"kernel": kernel_trouble, "userspace": userspace_trouble}
SIZES, QUICK_SIZES = (10, 50, 100), (10,)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, clean up, and say by the exit code whether everything ran and met its target."""
    chosen = _parser().parse_args(arguments)
    if without_root("testbed.py"):
        return NEEDS_ROOT
    backends = [chosen.backend] if chosen.backend else list(BACKENDS)
    troubles = {backend: BACKENDS[backend]() for backend in backends}
    working = tuple(backend for backend, trouble in troubles.items() if trouble is None)
    if not working:
        for backend, trouble in troubles.items():
            print(f"the {backend} backend does not work here: {trouble}", file=sys.stderr)
        return 3
    remarks = tuple(
        f"no figures of the {backend} backend: {trouble}" for backend, trouble in troubles.items() if trouble
    )
    remarks += idle_remarks()
    sizes = tuple(chosen.nodes or (QUICK_SIZES if chosen.quick else SIZES))
    settings = Settings(chosen.quick, working, sizes)
    facts = machine(("pyroute2",))
    wanted = {name: functools.partial(PARTS[name], settings) for name in chosen.only or PARTS}
    parts = measure(wanted, remove_left)
    report = Report(parts, facts, remarks)
    publish(report, "testbed", chosen.output, chosen.markdown)
    return report.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Figures of the emulated testbed beside their targets.")
    add = parser.add_argument
    add("--quick", action="store_true", help="a glance in under a minute; too short for real figures")
    add("--only", action="append", choices=list(PARTS), metavar="PART", help=", ".join(PARTS))
    add("--backend", choices=list(BACKENDS), help="only this latency backend  [default: all that work]")
    add(
        "--nodes",
        action="append",
        type=_size,
        metavar="N",
        help="bring up so many  [default: 10, 50 and 100]",
    )
    add("-o", "--output", choices=("table", "json"), default="table")
    add("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown (between markers)")
    return parser


def _size(text: str) -> int:
    size = int(text)
    if not 2 <= size <= 1000:
        raise argparse.ArgumentTypeError(f"from 2 to 1000 nodes, not {size}")
    return size


if __name__ == "__main__":
    sys.exit(main())
