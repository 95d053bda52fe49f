"""How commands talk: a table for people, JSON for programs, progress on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


class Format(StrEnum):
    """What `-o` accepts."""

    table = "table"
    json = "json"


OutputOption = Annotated[
    Format, typer.Option("-o", "--output", help="table for people, json for programs", show_default=True)
]


def stdout() -> Console:
    """A console for results; wide enough not to fold when piped."""
    console = Console()
    return console if console.is_terminal else Console(width=160, soft_wrap=True)


def stderr() -> Console:
    """A console for progress and errors, so that standard output stays clean."""
    return Console(stderr=True)


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A rich table from plain rows."""
    made = Table(*columns, title=title, title_justify="left")
    for row in rows:
        made.add_row(*("" if cell is None else str(cell) for cell in row))
    return made


def emit(output: Format, data: Any, *renderables: Any) -> None:
    """Print `data` as JSON, or the renderables for people."""
    if output is Format.json:
        typer.echo(json.dumps(data, indent=2, default=str, allow_nan=False))
        return
    console = stdout()
    for renderable in renderables:
        console.print(renderable)
