"""Every figure of the models in one run: ours, the target, the peer's, and the ratio between them.

    python benchmarks/models.py [--only PART ...] [-o json] [--markdown FILE]

Each module in benchmarks/model_rows/ is one part and offers `rows()`, which yields `Row`s. A part that is
missing or fails is shown as a failure; the exit code is then 1, as when a target is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
# Parts import `benchmarks.row` whatever folder this is started from.
sys.path[0:1] = [str(HERE.parent)]

from benchmarks.report import Report, available, machine, measure, publish  # noqa: E402

# What a complete run shows; a part whose module is not there is a failure, not a silence.
PARTS = ("throughput", "queues", "placement", "capacity", "scalability", "elasticity")
# Importable name and what it is; run beside ours where they are installed.
PEERS = {"pulp": "PuLP", "ortools": "OR-tools", "line_solver": "LINE"}


def missing_peers() -> list[str]:
    """The peers that this environment cannot run."""
    return [name for module, name in PEERS.items() if importlib.util.find_spec(module) is None]


def main(arguments: Sequence[str] | None = None, folder: Path = HERE / "model_rows") -> int:
    """Measure, print, and say by the exit code whether everything ran and met its target."""
    parser = argparse.ArgumentParser(description="Figures of the models beside their targets and peers.")
    known = available(folder, PARTS)
    parser.add_argument("--only", action="append", choices=known, metavar="PART", help=", ".join(known))
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write the table as Markdown (between markers)"
    )
    chosen = parser.parse_args(arguments)

    facts, absent = machine(("numpy", "scipy")), missing_peers()
    remarks = (f"peers not installed here: {', '.join(absent)}",) if absent else ()
    parts = tuple(measure(name, folder) for name in chosen.only or known)
    report = Report(parts, facts, remarks)
    publish(report, "models", chosen.output, chosen.markdown)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
