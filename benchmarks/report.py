"""What every benchmark run shares: running its parts, the machine they ran on, and the tables they become."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.row import Row

COLUMNS = ("part", "what", "ours", "unit", "target", "met", "peer", "ratio", "note")


@dataclass(frozen=True, slots=True)
class Part:
    """One part's rows, or the reason why there are none (or not all)."""

    name: str
    rows: tuple[Row, ...]
    cpu_s: float
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run: its parts, the machine, and sentences a reader needs beside the figures."""

    parts: tuple[Part, ...]
    facts: dict[str, str]
    remarks: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 if a part failed or a target was missed."""
        failed = any(part.failure for part in self.parts)
        missed = any(row.met is False for part in self.parts for row in part.rows)
        return 1 if failed or missed else 0


def available(folder: Path, expected: Sequence[str]) -> list[str]:
    """The expected parts, then any others that have a module."""
    there = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    return [*expected, *sorted(there - set(expected))]


def measure(name: str, folder: Path) -> Part:
    """Run the part in a module of that name, which offers `rows()`."""
    file = folder / f"{name}.py"
    if not file.is_file():
        return Part(name, (), 0.0, f"no such module: {file.name}")

    def rows() -> Iterable[Row]:
        spec = importlib.util.spec_from_file_location(f"{folder.name}_{name}", file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        found: Iterable[Row] = module.rows()
        return found

    return collect(name, rows)


def collect(name: str, rows: Callable[[], Iterable[Row]]) -> Part:
    """Run one part, keeping what it had measured if it fails half-way."""
    kept: list[Row] = []
    started = time.process_time()
    try:
        with contextlib.ExitStack() as stack:
            found = rows()
            if isinstance(found, Generator):
                # What a part holds is let go now, not when the collector finds it, should we be interrupted.
                stack.callback(found.close)
            for row in found:
                kept.append(row)
                print(f"{name}: {row.what}: {figure(row.ours)} {row.unit}", file=sys.stderr, flush=True)
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error  # told in other words by what was interrupted
        traceback.print_exc()
        return Part(name, tuple(kept), time.process_time() - started, f"{type(error).__name__}: {error}")
    cpu_s = time.process_time() - started
    return Part(name, tuple(kept), cpu_s, "" if kept else "rows() gave nothing")


def machine(packages: Sequence[str] = ()) -> dict[str, str]:
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
    for package in packages:
        facts[package] = importlib.metadata.version(package)
    facts["date"] = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return facts


def cells(part: str, row: Row) -> tuple[str, ...]:
    """A row as text, in the order of COLUMNS."""
    met = {True: "yes", False: "NO", None: ""}[row.met]
    bound = "" if row.target is None else ("≥ " if row.more_is_better else "≤ ") + figure(row.target)
    peer = "" if row.peer is None else f"{figure(row.peer)} {row.peer_name}".strip()
    ratio = "" if row.ratio is None else f"{figure(row.ratio)}×"
    return (part, row.what, figure(row.ours), row.unit, bound, met, peer, ratio, row.note)


def figure(value: float) -> str:
    """A number as people read it."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value)}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def as_text(report: Report) -> str:
    """Columns aligned, those empty in every row left out; what failed, the remarks and the machine below."""
    table = [cells(part.name, row) for part in report.parts for row in part.rows]
    kept = [i for i in range(len(COLUMNS)) if any(line[i] for line in table)]
    lines = [[COLUMNS[i] for i in kept], *([line[i] for i in kept] for line in table)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(kept))]
    text = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    text += [f"FAILED {part.name}: {part.failure}" for part in report.parts if part.failure]
    text += report.remarks
    text.append("machine: " + ", ".join(f"{key} {value}" for key, value in report.facts.items()))
    return "\n".join(text)


def as_markdown(report: Report) -> str:
    """The same as a Markdown table with the machine and the remarks below it."""
    escaped = [
        [cell.replace("|", "\\|") for cell in cells(part.name, row)]
        for part in report.parts
        for row in part.rows
    ]
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(line) + " |" for line in escaped]
    lines += [
        f"| {part.name} | **failed**: {part.failure} |" + " |" * (len(COLUMNS) - 2)
        for part in report.parts
        if part.failure
    ]
    lines += ["", "Machine: " + ", ".join(f"{key} {value}" for key, value in report.facts.items()) + "."]
    for remark in report.remarks:
        lines += ["", remark[:1].upper() + remark[1:] + "."]
    return "\n".join(lines) + "\n"


def as_data(report: Report) -> dict[str, Any]:
    """The same for programs."""
    rows = [
        {
            "part": part.name,
            **{field.name: getattr(row, field.name) for field in fields(row)},
            "met": row.met,
            "ratio": row.ratio,
        }
        for part in report.parts
        for row in part.rows
    ]
    return {
        "rows": rows,
        "failures": {part.name: part.failure for part in report.parts if part.failure},
        "cpu_s": {part.name: round(part.cpu_s, 3) for part in report.parts},
        "remarks": list(report.remarks),
        "machine": report.facts,
    }


def from_data(data: dict[str, Any]) -> Report:
    """The inverse of `as_data`: a run on another machine, to be shown here."""
    names = [field.name for field in fields(Row)]
    parts = tuple(
        Part(
            name,
            tuple(Row(**{key: row[key] for key in names}) for row in data["rows"] if row["part"] == name),
            cpu_s,
            data["failures"].get(name, ""),
        )
        for name, cpu_s in data["cpu_s"].items()
    )
    return Report(parts, data["machine"], tuple(data["remarks"]))


def publish(report: Report, section: str, output: str, markdown: Path | None) -> None:
    """Print the report, and write it as Markdown too if a file is given.

    A file that holds `<!-- begin SECTION -->` and `<!-- end SECTION -->` gets the table between them; any
    other becomes the table.
    """
    if markdown is not None:
        before = markdown.read_text(encoding="utf-8") if markdown.is_file() else ""
        markdown.write_text(placed(as_markdown(report), section, before), encoding="utf-8")
    print(json.dumps(as_data(report), indent=2) if output == "json" else as_text(report))


def placed(table: str, section: str, text: str) -> str:
    """The text with the table between the section's markers; the table alone if there are none."""
    begin, end = f"<!-- begin {section} -->", f"<!-- end {section} -->"
    if begin not in text or end not in text:
        return table
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{table}\n{end}{after}"
