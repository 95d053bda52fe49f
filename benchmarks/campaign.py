"""Campaigns: many live measurements, each on the disk when it is made, gone on with where they stopped.

What is measured is a list of parts; `benchmarks.command` is the command line that all campaigns share.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.emulated import NEEDS_ROOT, without_root
from benchmarks.report import machine
from fogctl.bench.data import values
from fogctl.config import testbed as testbed_file
from fogctl.errors import ChangeInterruptedError, FogError, LoadInterruptedError
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
MACHINE = "machine"
"""The part of lines that say where and when it was measured."""


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
        self._last = now
        self._planned_s += planned_s
        # What took longer than planned so far will go on to.
        pace = (now - self._began) / self._planned_s if self._planned_s else 1.0
        left = max(0.0, self.total_s - self._planned_s) * pace
        named = " ".join(str(value) for value in key.values())
        told(f"{part} {named}: kept; about {left / 60:.0f} min left")
        self.keep(line)
        return line

    def keep(self, line: Line) -> None:
        """A line on the disk: a measurement, or a step of one; stops if the time is up."""
        self.journal.add(line)
        self.lines.append(line)
        if time.monotonic() > self.until:
            raise TimeUpError


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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be measured of a part."""

    part: Part
    keys: tuple[Key, ...]

    def left(self, notes: Notes) -> list[Key]:
        """Those of the keys that are not measured yet."""
        return [key for key in self.part.left(notes) if key in self.keys]

    def planned_s(self, notes: Notes) -> float:
        """How long that will take."""
        left = self.left(notes)
        return self.part.set_up_s + self.part.each_s * len(left) if left else 0.0


def selected(parts: Sequence[Part], only: Sequence[str] | None, notes: Notes) -> list[Wanted]:
    """The parts to measure, and before them what they need and is not measured yet.

    `only` names parts, or some of a part: PART:VALUE are the keys that hold the value. FogError if there are
    none.
    """
    chosen: dict[str, list[Key]] = {part.name: [] if only else list(part.keys) for part in parts}
    for each in only or ():
        name, _, value = each.partition(":")
        known = next((part.keys for part in parts if part.name == name), ())
        found = [key for key in known if not value or value in map(str, key.values())]
        if not found:
            names = ", ".join(part.name for part in parts)
            raise FogError(f"there is nothing to measure called {each}", key="--only", hint=f"parts: {names}")
        chosen[name] += [key for key in found if key not in chosen[name]]
    for part in reversed(parts):
        lacking = [key for key in chosen[part.name] if notes.find(part.name, key) is None]
        for name, key in _needed(part, lacking, parts, notes):
            chosen[name] += [key] if key not in chosen[name] else []
    ordered = ((part, [key for key in part.keys if key in chosen[part.name]]) for part in parts)
    return [Wanted(part, tuple(keys)) for part, keys in ordered if keys]


def _needed(
    part: Part, keys: Sequence[Key], parts: Sequence[Part], notes: Notes
) -> Iterator[tuple[str, Key]]:
    """What must be measured before these keys: of an earlier part, all that agrees in what both name."""
    for earlier in parts:
        if earlier.name in part.after:
            for key in earlier.left(notes):
                if any(all(key[name] == own[name] for name in key.keys() & own.keys()) for own in keys):
                    yield earlier.name, key


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
    journal = Journal(file)
    if chosen.dry_run:
        notes = Notes(journal, journal.open_for(asked) if file.exists() else [])
        print("\n".join(forecast(selected(parts, chosen.only, notes), notes, emulates)))
        return 0
    if emulates and without_root(script):
        return NEEDS_ROOT
    selected(parts, chosen.only, Notes(journal, []))  # what cannot be meant is told before a file is made
    notes = Notes(journal, journal.open_for(asked), until=time.monotonic() + 60 * chosen.minutes)
    wanted = selected(parts, chosen.only, notes)
    notes.total_s = sum(each.planned_s(notes) for each in wanted)
    if notes.total_s == 0:
        told("all of it is measured")
        return 0
    for line in forecast(wanted, notes, emulates):
        told(line)
    journal.add({"part": MACHINE, **machine(("pyspark", "kafka-python"))})
    signal.signal(signal.SIGTERM, _terminated)
    failed = False
    for each in wanted:
        lacking = dict.fromkeys(name for name, _ in _needed(each.part, each.left(notes), parts, notes))
        if lacking:
            told(f"{each.part.name} needs {', '.join(lacking)} first")
            failed = True
            continue
        try:
            failed |= not _finished(each, notes)
        except TimeUpError:
            told("the time is up; call it again to go on")
            return 0
    return 1 if failed else 0


def _finished(wanted: Wanted, notes: Notes) -> bool:
    """Whether all was measured. What fails is begun anew while it gets on, and once more when it does not."""
    patience = 1
    while left := wanted.left(notes):
        told(f"{wanted.part.name}: {len(left)} of {len(wanted.part.keys)} to measure")
        before = len(notes.lines)
        try:
            wanted.part.run(left, notes)
        except TimeUpError:
            raise
        except (LoadInterruptedError, ChangeInterruptedError):
            raise KeyboardInterrupt from None  # Ctrl-C, told in other words by what was interrupted
        except FogError as error:
            told(f"{wanted.part.name} stopped: {error}")
        except Exception as error:
            traceback.print_exc()
            told(f"{wanted.part.name} stopped: {type(error).__name__}: {error}")
        if len(notes.lines) == before:
            if not patience:
                return False
            patience -= 1
    return True


def forecast(wanted: Sequence[Wanted], notes: Notes, emulates: bool) -> Iterator[str]:
    """What is left to measure, a line a part, and how long that will take."""
    whole = 0.0
    for each in wanted:
        seconds, part = each.planned_s(notes), each.part
        whole += seconds
        yield f"{part.name}: {len(each.left(notes))} of {len(part.keys)} measurements, {seconds / 60:.0f} min"
    where = "on emulated nodes of this host; needs root" if emulates else "in one JVM; needs no root"
    yield f"in all about {whole / 60:.0f} min, {where}"


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
    return [line for line in Journal(file).read()[1] if line["part"] != MACHINE]


def where_measured(file: Path) -> str:
    """A sentence on the machine, and when it was busy with this; empty if nothing was measured."""
    calls = [line for line in Journal(file).read()[1] if line["part"] == MACHINE]
    if not calls:
        return ""
    facts = {
        name: "; ".join(dict.fromkeys(call[name] for call in calls)) for name in calls[-1] if name != "part"
    }
    return "Machine: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + "."
