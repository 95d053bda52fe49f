"""Reading arrival times from CSV, npz, npy or plain text, with one sentence for what is wrong."""

from __future__ import annotations

import csv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fogmodels.arrivals import from_timestamps
from numpy.typing import NDArray

from fogctl.cli.trace import Kind
from fogctl.errors import FogError

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Inter-arrival times, and what they were made from."""

    times: Vector
    kind: Kind


def read_times(file: Path, column: str | None, kind: Kind) -> Times:
    """Inter-arrival times of a file, in the file's unit."""
    if not file.is_file():
        raise FogError("no such file", file=file)
    suffix = file.suffix.lower()
    try:
        values = _from_arrays(file, column) if suffix in (".npz", ".npy") else _from_text(file, column)
    except (OSError, UnicodeDecodeError, EOFError, zipfile.BadZipFile) as error:
        raise FogError(f"cannot be read: {error}", file=file) from error
    if values.size < 2:
        raise FogError("holds fewer than two numbers", file=file)
    if not np.isfinite(values).all():
        raise FogError(f"value {int(np.argmin(np.isfinite(values))) + 1} is not finite", file=file)
    sorted_up = bool((np.diff(values) >= 0).all())
    if kind is Kind.auto:
        kind = Kind.timestamps if sorted_up and values[-1] > values[0] else Kind.iats
    if kind is Kind.iats:
        if (values < 0).any():
            hint = "timestamps must be sorted; inter-arrival times must not be negative"
            raise FogError(f"value {int(np.argmax(values < 0)) + 1} is negative", file=file, hint=hint)
        return Times(values, kind)
    try:
        return Times(from_timestamps(values), kind)
    except ValueError as error:
        raise FogError(str(error), file=file, hint="sort them, or say --kind iats") from error


def _from_arrays(file: Path, column: str | None) -> Vector:
    try:
        loaded = np.load(file, allow_pickle=False)
    except ValueError as error:
        raise FogError("is not a numpy file of plain numbers", file=file) from error
    if isinstance(loaded, np.ndarray):
        chosen = loaded
    else:
        with loaded:
            names = list(loaded.files)
            name = column if column is not None else (names[0] if len(names) == 1 else None)
            if name is None or name not in names:
                raise FogError(
                    "has no such array" if column is not None else "holds several arrays",
                    file=file,
                    key=column,
                    hint=f"--column one of: {', '.join(names)}",
                )
            chosen = loaded[name]
    if chosen.ndim != 1 or chosen.dtype.kind not in "iuf":
        raise FogError(f"needs a vector of numbers, not {chosen.dtype} of shape {chosen.shape}", file=file)
    return chosen.astype(float)


def _from_text(file: Path, column: str | None) -> Vector:
    text = file.read_text(encoding="utf-8-sig")
    lines = [
        (n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"
    ]
    if not lines:
        raise FogError("is empty", file=file)
    first = lines[0][1]
    separator = next((mark for mark in (",", ";", "\t") if mark in first), None)
    rows = [
        (n, next(csv.reader([line], delimiter=separator)) if separator else line.split()) for n, line in lines
    ]
    index, header = _column(file, rows[0][1], column)
    values = []
    for n, cells in rows[1:] if header else rows:
        try:
            values.append(float(cells[index]))
        except IndexError:
            raise FogError(f"has only {len(cells)} columns", file=file, line=n) from None
        except ValueError:
            raise FogError(f"{cells[index]!r} is not a number", file=file, line=n) from None
    return np.array(values)


def _column(file: Path, first: list[str], column: str | None) -> tuple[int, bool]:
    """Which column to read, and whether the first row is a header."""
    cells = [cell.strip() for cell in first]
    header = not all(_is_number(cell) for cell in cells)
    if column is None:
        if len(cells) > 1:
            choice = ", ".join(cells) if header else f"1 to {len(cells)}"
            raise FogError(f"has {len(cells)} columns", file=file, hint=f"--column one of: {choice}")
        return 0, header
    if header and column in cells:
        return cells.index(column), True
    if column.isdigit() and 1 <= int(column) <= len(cells):
        return int(column) - 1, header
    choice = ", ".join(cells) if header else f"1 to {len(cells)}"
    raise FogError("has no such column", file=file, key=column, hint=f"--column one of: {choice}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
