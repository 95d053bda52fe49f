"""Reading and writing a latency matrix as a square CSV of round-trip times."""

from __future__ import annotations

import csv
import math
from pathlib import Path as FilePath
from typing import IO, Any

from fognetem.matrix import LatencyMatrix, Path


def read(file: FilePath | str | IO[str]) -> LatencyMatrix:
    """The matrix in the file: header row and first column name the nodes, cells are `80` or `80ms`.

    One half of the matrix may be left empty; where both halves are given they must agree.
    """
    if isinstance(file, FilePath | str):
        name = str(file)
        try:
            with FilePath(file).open(newline="", encoding="utf-8-sig") as opened:
                rows = list(csv.reader(opened, skipinitialspace=True))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{name}: cannot be read as CSV: {error}") from None
    else:
        name = str(getattr(file, "name", "matrix"))
        try:
            rows = list(csv.reader(file, skipinitialspace=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{name}: cannot be read as CSV: {error}") from None
    rows = [[cell.strip() for cell in row] for row in rows]
    rows = [row for row in rows if any(row) and not row[0].startswith("#")]
    try:
        return _matrix(rows)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _matrix(rows: list[list[str]]) -> LatencyMatrix:
    if not rows:
        raise ValueError("the file is empty; the first row must name the nodes")
    nodes = tuple(rows[0][1:])
    if not nodes:
        raise ValueError("the first row names no node (first cell empty, then one node per column)")
    LatencyMatrix(nodes)  # duplicate or empty names are refused before any cell is looked at
    cells: dict[tuple[str, str], float | None] = {}
    seen: set[str] = set()
    for row in rows[1:]:
        node = row[0]
        if node not in nodes:
            raise ValueError(f'row "{node}" is not a column (columns: {", ".join(nodes)})')
        if node in seen:
            raise ValueError(f'row "{node}" is given twice')
        seen.add(node)
        if len(row) != len(nodes) + 1:
            raise ValueError(f'row "{node}" has {len(row) - 1} values, but there are {len(nodes)} columns')
        for column, cell in zip(nodes, row[1:], strict=True):
            cells[node, column] = _cell(node, column, cell)
    if missing := [node for node in nodes if node not in seen]:
        raise ValueError(f'the row of node "{missing[0]}" is missing')
    paths: list[tuple[str, str, Path]] = []
    for i, a in enumerate(nodes):
        if cells[a, a]:
            raise ValueError(f'row "{a}", column "{a}": a node\'s RTT to itself must be 0 or empty')
        for b in nodes[i + 1 :]:
            there, back = cells[a, b], cells[b, a]
            if there is not None and back is not None and not math.isclose(there, back, abs_tol=1e-9):
                raise ValueError(
                    f'asymmetric: row "{a}", column "{b}" says {there:g} ms, '
                    f'row "{b}", column "{a}" says {back:g} ms'
                )
            rtt_ms = there if there is not None else back
            if rtt_ms is None:
                raise ValueError(
                    f'row "{a}", column "{b}" is empty, and so is its mirror; write 0 for no delay'
                )
            try:
                paths.append((a, b, Path(rtt_ms=rtt_ms)))
            except ValueError as error:
                raise ValueError(f'row "{a}", column "{b}": {error}') from None
    return LatencyMatrix(nodes, tuple(paths))


def _cell(row: str, column: str, text: str) -> float | None:
    if not text:
        return None
    digits = text[:-2].strip() if text.lower().endswith("ms") else text
    try:
        value = float(digits)
    except ValueError:
        raise ValueError(
            f'row "{row}", column "{column}": "{text}" is not a time in ms (like 80 or 80ms)'
        ) from None
    if not math.isfinite(value) or value < 0:
        raise ValueError(
            f'row "{row}", column "{column}": an RTT must be finite and not negative, not {text}'
        )
    return value


def write(matrix: LatencyMatrix, file: FilePath | str | IO[str]) -> None:
    """Write the RTTs; `read` gives them back exactly."""
    if isinstance(file, FilePath | str):
        with FilePath(file).open("w", newline="", encoding="utf-8") as opened:
            return write(matrix, opened)
    out: Any = csv.writer(file, lineterminator="\n")
    out.writerow(["", *matrix.nodes])
    for a in matrix.nodes:
        out.writerow([a, *(_text(matrix.rtt_ms(a, b)) for b in matrix.nodes)])
    return None


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
