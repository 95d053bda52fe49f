"""Every figure of the streaming runtime in one run: time to ready, memory, stalls, throughput, latency.

    sudo python benchmarks/runtime.py [--quick] [--only PART ...] [-o json] [--markdown FILE]

Real Kafka and Spark inside network namespaces that it makes and removes. The exit code is 1 if a part fails
or a target is missed, 2 for bad usage, 3 without root. Killed with -9 in the middle, `fogctl down --all`
cleans.
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

from benchmarks.emulated import NEEDS_ROOT, idle_remarks, measure, without_root  # noqa: E402
from benchmarks.report import Report, machine, publish  # noqa: E402
from benchmarks.row import Row  # noqa: E402
from benchmarks.runtime_rows import latency, mqtt, order, ready, stalls, throughput, tuning  # noqa: E402
from benchmarks.runtime_rows.bed import Settings, remove_left  # noqa: E402

PARTS: dict[str, Callable[[Settings], Iterator[Row]]] = {
    "ready": ready.rows,
    "stalls": stalls.rows,
    "throughput": throughput.rows,
    "order": order.rows,
    "tuning": tuning.rows,
    "latency": latency.rows,
    "bridge": mqtt.rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, clean up, and say by the exit code whether everything ran and met its target."""
    chosen = _parser().parse_args(arguments)
    if without_root("runtime.py"):
        return NEEDS_ROOT
    remarks = idle_remarks()
    if chosen.quick:
        remarks += ("a quick run: too short for real figures",)
    settings = Settings(chosen.quick)
    facts = machine(("pyspark", "kafka-python"))
    wanted = {name: functools.partial(PARTS[name], settings) for name in chosen.only or PARTS}
    parts = measure(wanted, remove_left)
    report = Report(parts, facts, remarks)
    publish(report, "runtime", chosen.output, chosen.markdown)
    return report.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Figures of the streaming runtime beside their targets.")
    add = parser.add_argument
    add("--quick", action="store_true", help="a glance; too short for real figures")
    add("--only", action="append", choices=list(PARTS), metavar="PART", help=", ".join(PARTS))
    add("-o", "--output", choices=("table", "json"), default="table")
    add("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown (between markers)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
