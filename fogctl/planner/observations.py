"""Measured throughputs from a CSV file, each complaint with file, line and column."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fogmodels.capacity import Observation

from fogctl.config.problems import did_you_mean
from fogctl.config.units import quoted
from fogctl.errors import FogError

MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a cell may hold."""

    test: Callable[[float], bool]
    words: str


# In the order of Observation's fields.
ALLOWED = (
    Allowed(lambda value: value >= 1 and value.is_integer(), "a whole number of at least 1"),
    Allowed(lambda value: value > 0, "megabytes, above 0"),
    Allowed(lambda value: value >= 0, "events per second, at least 0"),
)


@dataclass(frozen=True, slots=True)
class Columns:
    """What the three columns are called in the file."""

    task_slots: str = "task_slots"
    memory_mb: str = "memory_mb"
    mst: str = "mst"

    def names(self) -> tuple[str, str, str]:
        """In the order of Observation's fields."""
        return self.task_slots, self.memory_mb, self.mst


def read_observations(file: Path, columns: Columns | None = None) -> list[Observation]:
    """The observations in the order of the file; other columns are left alone."""
    wanted = columns or Columns()
    reader = csv.reader(io.StringIO(_text(file)), strict=True)
    found: list[Observation] = []
    header: list[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                _check_header(file, header, wanted, reader.line_num)
            else:
                found.append(_observation(file, reader.line_num, header, cells, wanted))
    except csv.Error as error:
        raise FogError(
            f"is not valid CSV: {error}", file=file, line=reader.line_num, hint="check the quotes"
        ) from None
    if header is None:
        raise FogError("is empty", file=file, hint=f"the first line must be {','.join(wanted.names())}")
    if not found:
        raise FogError("has a header but no observations", file=file, hint="add one line per measurement")
    return found


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise FogError(f"is larger than {MAX_BYTES >> 20} MiB", file=file, hint="is it the right file?")
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise FogError("no such file", file=file, hint="check the name") from None
    except IsADirectoryError:
        raise FogError("is a folder", file=file, hint="name a CSV file") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FogError("is not UTF-8 text", file=file, line=line, hint="save it as UTF-8") from None
    except OSError as error:
        raise FogError(f"cannot be read: {error.strerror}", file=file) from None


def _check_header(file: Path, header: Sequence[str], wanted: Columns, line: int) -> None:
    for name in wanted.names():
        if header.count(name) > 1:
            raise FogError("the column is there twice", file=file, line=line, key=name, hint="remove one")
        if name in header:
            continue
        near = did_you_mean(name, header)
        if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
            hint = "separate columns by commas"
        elif near:
            hint = f"is it {quoted(near)}? then rename it, or name it with --{_option(name, wanted)}-column"
        else:
            hint = f"columns here: {', '.join(header)}"
        raise FogError("the column is missing", file=file, line=line, key=name, hint=hint)


def _option(name: str, wanted: Columns) -> str:
    return {wanted.task_slots: "slots", wanted.memory_mb: "memory", wanted.mst: "mst"}[name]


def _observation(
    file: Path, line: int, header: Sequence[str], cells: Sequence[str], wanted: Columns
) -> Observation:
    if len(cells) != len(header):
        raise FogError(
            f"has {len(cells)} cells but the header has {len(header)}",
            file=file,
            line=line,
            hint="check the commas",
        )
    values: list[float] = []
    for name, allowed in zip(wanted.names(), ALLOWED, strict=True):
        cell = cells[header.index(name)].strip()
        try:
            value = float(cell)
        except ValueError:
            said = f"{quoted(cell)} is not a number" if cell else "is empty"
            raise FogError(said, file=file, line=line, key=name, hint=f"write {allowed.words}") from None
        if not math.isfinite(value) or not allowed.test(value):
            said = f"{quoted(cell)} is not possible"
            raise FogError(said, file=file, line=line, key=name, hint=f"write {allowed.words}")
        values.append(value)
    return Observation(int(values[0]), values[1], values[2])
