"""Every figure of the models in one run: ours, the target, the peer's, and the ratio between them.

    python benchmarks/models.py [--only PART ...] [-o json] [--markdown FILE]

Each module in benchmarks/model_rows/ is one part and offers `rows()`, which yields `row.Row`s. A part that
is missing or fails is shown as a failure; the exit code is then 1, as when a target is missed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
# Parts import `row` (or `benchmarks.row`) whatever folder this is started from.
sys.path[:0] = [str(HERE), str(HERE.parent)]

from row import Row  # noqa: E402

# What a complete run shows; a part whose module is not there is a failure, not a silence.
PARTS = ("throughput", "arrivals", "queueing", "placement", "capacity", "scalability", "elasticity")
# Importable name and what it is; run beside ours where they are installed.
PEERS = {"pulp": "PuLP", "ortools": "OR-tools", "line_solver": "LINE"}
COLUMNS = ("part", "what", "ours", "unit", "target", "met", "peer", "ratio", "note")


@dataclass(frozen=True, slots=True)
class Part:
    """One part's rows, or the reason why there are none (or not all)."""

    name: str
    rows: tuple[Row, ...]
    cpu_s: float
    failure: str = ""


def available(folder: Path) -> list[str]:
    """The expected parts, then any others that have a module."""
    there = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    return [*PARTS, *sorted(there - set(PARTS))]


def measure(name: str, folder: Path) -> Part:
    """Run one part, keeping what it had measured if it fails half-way."""
    file = folder / f"{name}.py"
    if not file.is_file():
        return Part(name, (), 0.0, f"no such module: {file.name}")
    rows: list[Row] = []
    started = time.process_time()
    try:
        spec = importlib.util.spec_from_file_location(f"model_rows_{name}", file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        for row in module.rows():
            rows.append(row)
            print(f"{name}: {row.what}: {_figure(row.ours)} {row.unit}", file=sys.stderr)
    except Exception as error:
        traceback.print_exc()
        return Part(name, tuple(rows), time.process_time() - started, f"{type(error).__name__}: {error}")
    cpu_s = time.process_time() - started
    return Part(name, tuple(rows), cpu_s, "" if rows else "rows() gave nothing")


def machine() -> dict[str, str]:
    """What a reader needs to judge the figures."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [
            line for line in cpuinfo.read_text().splitlines() if line.startswith(("model name", "Model"))
        ]
        model = names[0].partition(":")[2].strip() if names else model
    memory = Path("/proc/meminfo")
    total = memory.read_text().split()[1] if memory.is_file() else "0"
    facts = {
        "cpu": model,
        "cores": str(os.cpu_count()),
        "memory": f"{int(total) / 2**20:.0f} GiB",
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for package in ("numpy", "scipy"):
        facts[package] = importlib.metadata.version(package)
    return facts


def missing_peers() -> list[str]:
    """The peers that this environment cannot run."""
    return [name for module, name in PEERS.items() if importlib.util.find_spec(module) is None]


def cells(part: str, row: Row) -> tuple[str, ...]:
    """A row as text, in the order of COLUMNS."""
    met = {True: "yes", False: "NO", None: ""}[row.met]
    bound = "" if row.target is None else ("≥ " if row.more_is_better else "≤ ") + _figure(row.target)
    peer = "" if row.peer is None else f"{_figure(row.peer)} {row.peer_name}".strip()
    ratio = "" if row.ratio is None else f"{_figure(row.ratio)}×"
    return (part, row.what, _figure(row.ours), row.unit, bound, met, peer, ratio, row.note)


def _figure(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value)}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def as_text(table: Sequence[Sequence[str]]) -> str:
    """Columns aligned; those empty in every row left out."""
    kept = [i for i in range(len(COLUMNS)) if any(line[i] for line in table)]
    lines = [[COLUMNS[i] for i in kept], *([line[i] for i in kept] for line in table)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(kept))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def as_markdown(parts: Iterable[Part], facts: dict[str, str], absent: Sequence[str]) -> str:
    """The same as a Markdown table with the machine below it."""
    escaped = [
        [cell.replace("|", "\\|") for cell in cells(part.name, row)] for part in parts for row in part.rows
    ]
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(line) + " |" for line in escaped]
    lines += [f"| {part.name} | **failed**: {part.failure} |" + " |" * 7 for part in parts if part.failure]
    lines += ["", "Machine: " + ", ".join(f"{key} {value}" for key, value in facts.items()) + "."]
    if absent:
        lines += ["", "Peers not installed here: " + ", ".join(absent) + "."]
    return "\n".join(lines) + "\n"


def as_data(parts: Iterable[Part], facts: dict[str, str], absent: Sequence[str]) -> dict[str, object]:
    """The same for programs."""
    rows = [
        {
            "part": part.name,
            "what": row.what,
            "ours": row.ours,
            "unit": row.unit,
            "target": row.target,
            "more_is_better": row.more_is_better,
            "met": row.met,
            "peer": row.peer,
            "peer_name": row.peer_name,
            "ratio": row.ratio,
            "note": row.note,
        }
        for part in parts
        for row in part.rows
    ]
    failures = {part.name: part.failure for part in parts if part.failure}
    cpu_s = {part.name: round(part.cpu_s, 3) for part in parts}
    return {
        "rows": rows,
        "failures": failures,
        "cpu_s": cpu_s,
        "missing_peers": list(absent),
        "machine": facts,
    }


def main(arguments: Sequence[str] | None = None, folder: Path = HERE / "model_rows") -> int:
    """Measure, print, and say by the exit code whether everything ran and met its target."""
    parser = argparse.ArgumentParser(description="Figures of the models beside their targets and peers.")
    known = available(folder)
    parser.add_argument("--only", action="append", choices=known, metavar="PART", help=", ".join(known))
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown")
    chosen = parser.parse_args(arguments)

    facts, absent = machine(), missing_peers()
    parts = [measure(name, folder) for name in chosen.only or known]
    if chosen.markdown:
        chosen.markdown.write_text(as_markdown(parts, facts, absent), encoding="utf-8")
    if chosen.output == "json":
        print(json.dumps(as_data(parts, facts, absent), indent=2))
    else:
        print(as_text([cells(part.name, row) for part in parts for row in part.rows]))
        for part in parts:
            if part.failure:
                print(f"FAILED {part.name}: {part.failure}")
        if absent:
            print(f"peers not installed here: {', '.join(absent)}")
        print("machine: " + ", ".join(f"{key} {value}" for key, value in facts.items()))
    failed = any(part.failure for part in parts)
    missed = any(row.met is False for part in parts for row in part.rows)
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
