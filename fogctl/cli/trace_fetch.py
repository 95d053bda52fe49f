"""`fogctl trace fetch`: New York's public taxi records, a month at a time."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from fogctl.cli.output import Format, OutputOption, emit, stderr
from fogctl.trace.fetch import Taxis


def fetch(
    month: Annotated[str, typer.Argument(help="Which month: 2010-05.")],
    to: Annotated[
        Path | None, typer.Option(help="Where to keep it; here, under its own name, if nothing is said.")
    ] = None,
    taxis: Annotated[Taxis, typer.Option("--type", help="Which taxis.")] = Taxis.yellow,
    root: Annotated[
        str | None,
        typer.Option("--from", help="Another place with TLC's files.", envvar="FOGCTL_TLC_ROOT"),
    ] = None,
    zones: Annotated[
        bool, typer.Option("--zones", help="Fetch it even if its rides have no coordinates.")
    ] = False,
    output: OutputOption = Format.table,
) -> None:
    """Fetch a month of New York's taxi rides. What breaks off goes on where it stopped; needs the internet.

    \b
    Examples:
      fogctl trace fetch 2010-05
      fogctl trace fetch 2009-12 --to december.parquet
    """
    from fogctl.trace import fetch as fetching

    url = fetching.url_of(month, taxis, root)
    file = to or Path(url.rpartition("/")[2])
    columns = (TextColumn(file.name), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr(), transient=True) as bar:
        task = bar.add_task("", total=None)
        done = fetching.fetch(
            url, file, zones=zones, on_progress=lambda have, of: bar.update(task, completed=have, total=of)
        )
    what = f"fetched {file}" if done.received else f"{file} is there already"
    size = f"{done.rides:,} rides, {done.bytes / 1e6:.1f} MB"
    then = f"next: fogctl trace info {file}" if done.coordinates else "without coordinates: not for replay"
    emit(output, dataclasses.asdict(done), f"{what}: {size}; {then}")
