"""Campaigns: many live measurements, each on the disk when it is made, gone on with where they stopped.

    sudo python benchmarks/NAME.py measure --to FILE.jsonl [--only PART ...] [--minutes N] [--dry-run]
    python benchmarks/NAME.py show FILE.jsonl [--plot FILE.svg] [--markdown FILE.md] [-o json]

`show` needs the file alone, and says of what is missing that it is not measured yet.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.emulated import NEEDS_ROOT, idle_remarks, without_root
from fogctl.bench.data import values
from fogctl.config import testbed as testbed_file
from fogctl.errors import FogError
from fogctl.planner.journal import Journal
from fogctl.runtime import app as app_files
from fogctl.runtime.operate import Apps
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.state import StateFolder, state_dir
from fogctl.testbed.virtual import Virtual, take_down

Key = dict[str, Any]
"""What names one measurement, besides its part."""
Line = dict[str, Any]
"""A measurement as the file has it: `part`, the key, and what was measured."""
BEDS = Path(__file__).resolve().parent / "beds"
MISSING = "not measured yet"


class TimeUpError(Exception):
    """The time that was given is over; what is measured is kept."""


@dataclass(slots=True)
class Notes:
    """Where measurements are written as they are made, and what is there already."""

    journal: Journal
    lines: list[Line]
    total_s: float = 0.0
    """What is still to do, as planned."""
    until: float = float("inf")
    _began: float = field(default_factory=time.monotonic)
    _planned_s: float = 0.0
    _last: float = field(default_factory=time.monotonic)

    def find(self, part: str, key: Mapping[str, Any]) -> Line | None:
        """That measurement, if it was made."""
        asked = {"part": part, **key}
        return next((line for line in self.lines if asked.items() <= line.items()), None)

    def add(self, part: str, key: Key, found: Mapping[str, Any], planned_s: float) -> Line:
        """Keep one, say how much is left, and stop if the time is up."""
        now = time.monotonic()
        at = datetime.now(UTC).isoformat(timespec="seconds")
        line = {"part": part, **key, **found, "at": at, "took_s": round(now - self._last, 1)}
        self.journal.add(line)
        self.lines.append(line)
        self._last = now
        self._planned_s += planned_s
        # What took longer than planned so far will go on to.
        pace = (now - self._began) / self._planned_s if self._planned_s else 1.0
        left = max(0.0, self.total_s - self._planned_s) * pace
        named = " ".join(str(value) for value in key.values())
        told(f"{part} {named}: kept; about {left / 60:.0f} min left")
        if now > self.until:
            raise TimeUpError
        return line


@dataclass(frozen=True, slots=True)
class Part:
    """Some measurements that share a testbed."""

    name: str
    keys: tuple[Key, ...]
    """In the order they are made."""
    each_s: float
    """About how long one takes."""
    set_up_s: float
    run: Callable[[Sequence[Key], Notes], None]
    """Makes those that are not made yet, and notes each."""
    after: tuple[str, ...] = ()
    """Parts that must be measured before."""

    def left(self, notes: Notes) -> list[Key]:
        """What is still to do."""
        return [key for key in self.keys if notes.find(self.name, key) is None]

    def planned_s(self, notes: Notes) -> float:
        """How long that will take."""
        left = self.left(notes)
        return self.set_up_s + self.each_s * len(left) if left else 0.0


def measure(
    parts: Sequence[Part],
    file: Path,
    asked: Mapping[str, Any],
    chosen: argparse.Namespace,
    script: str,
    *,
    emulates: bool = True,
) -> int:
    """Measure what the file lacks of the chosen parts; or, in a dry run, say what that takes.

    What `emulates` nodes needs root.
    """
    wanted = [part for part in parts if not chosen.only or part.name in chosen.only]
    if chosen.dry_run:
        journal = Journal(file)
        _forecast(wanted, Notes(journal, journal.open_for(asked) if file.exists() else []), emulates)
        return 0
    if emulates and without_root(script):
        return NEEDS_ROOT
    journal = Journal(file)
    notes = Notes(journal, journal.open_for(asked), until=time.monotonic() + 60 * chosen.minutes)
    notes.total_s = sum(part.planned_s(notes) for part in wanted)
    for remark in idle_remarks():
        told(remark)
    signal.signal(signal.SIGTERM, _terminated)
    failed = False
    for part in wanted:
        lacking = [name for name in part.after if any(p.name == name and p.left(notes) for p in parts)]
        if not part.left(notes):
            continue
        if lacking:
            told(f"{part.name} needs {', '.join(lacking)} first")
            failed = True
            continue
        told(f"{part.name}: {len(part.left(notes))} of {len(part.keys)} to measure")
        try:
            part.run(part.left(notes), notes)
        except TimeUpError:
            told("the time is up; call it again to go on")
            return 0
        except FogError as error:
            told(f"{part.name} stopped: {error}")
            failed = True
    return 1 if failed else 0


def _forecast(parts: Sequence[Part], notes: Notes, emulates: bool) -> None:
    whole = 0.0
    for part in parts:
        seconds = part.planned_s(notes)
        whole += seconds
        print(
            f"{part.name}: {len(part.left(notes))} of {len(part.keys)} measurements, {seconds / 60:.0f} min"
        )
    where = "on emulated nodes of this host; needs root" if emulates else "in one JVM; needs no root"
    print(f"in all about {whole / 60:.0f} min, {where}")


def told(text: str) -> None:
    """Say what goes on."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


@functools.cache
def data_of(name: str) -> tuple[bytes, ...]:
    """Values for the input of an app that ships, made once."""
    return tuple(values(app_files.load(name), 100, seed=1))


@contextlib.contextmanager
def bed_up(name: str) -> Iterator[Apps]:
    """One of the testbeds in beds/, with what an earlier, killed run left of it removed."""
    testbed = testbed_file.load(BEDS / f"{name}.yaml")
    state = StateFolder.of(testbed.name, state_dir())
    if state.exists:
        told(f"taking down what is left of {testbed.name}")
        take_down(state, LinuxHost())
    virtual = Virtual(testbed)
    try:
        virtual.up()
        yield Apps.on(virtual.running)
    finally:
        take_down(state, LinuxHost())


def parser(
    about: str,
    parts: Sequence[str],
    more: Callable[[argparse.ArgumentParser], object] = lambda _: None,
) -> argparse.ArgumentParser:
    """The command line that all campaigns share; `more` adds what one has of its own to `measure`."""
    made = argparse.ArgumentParser(description=about)
    commands = made.add_subparsers(dest="command", required=True)
    run = commands.add_parser("measure", help="measure what the file lacks")
    run.add_argument("--to", type=Path, required=True, metavar="FILE", help="where measurements are kept")
    run.add_argument("--only", action="append", choices=list(parts), metavar="PART", help=", ".join(parts))
    run.add_argument("--minutes", type=float, default=600.0, help="stop after about so many")
    run.add_argument("--dry-run", action="store_true", help="say what it will take; measure nothing")
    more(run)
    look = commands.add_parser("show", help="tables and plot of what was measured")
    look.add_argument("file", type=Path)
    look.add_argument("-o", "--output", choices=("table", "json"), default="table")
    look.add_argument("--plot", type=Path, metavar="FILE", help="draw it: .svg, .png")
    look.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables between its markers")
    return made


def _terminated(*_: object) -> None:
    """Unwind once, as Ctrl-C does; a second kill must not interrupt the cleaning."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def read(file: Path) -> list[Line]:
    """The measurements of a file."""
    return Journal(file).read()[1]
