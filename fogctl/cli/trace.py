"""`fogctl trace`: traces made, described, replayed, and fitted by an arrival process."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fogctl.cli import trace_fetch, trace_inject, trace_rides
from fogctl.cli.output import Format, OutputOption

app = typer.Typer(help="Make, study and replay traces.", no_args_is_help=True)
for command in (
    trace_rides.make,
    trace_fetch.fetch,
    trace_rides.info,
    trace_rides.replay,
    trace_inject.inject,
):
    app.command()(command)


class Kind(StrEnum):
    """What the numbers in a file are."""

    auto = "auto"
    timestamps = "timestamps"
    iats = "iats"


class Unit(StrEnum):
    """What one unit of the file's numbers is."""

    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


@app.command("fit")
def fit(
    file: Annotated[Path, typer.Argument(help="CSV, npz, npy or text: timestamps or inter-arrival times.")],
    column: Annotated[
        str | None, typer.Option(help="Column of a CSV (name or number from 1), or array of an npz.")
    ] = None,
    kind: Annotated[
        Kind, typer.Option(help="What the numbers are; auto: sorted means timestamps.")
    ] = Kind.auto,
    unit: Annotated[Unit, typer.Option(help="Unit of the file's numbers.")] = Unit.s,
    service_mean: Annotated[
        float | None, typer.Option(help="Mean service time in seconds: predict response times.")
    ] = None,
    utilisation: Annotated[
        float | None, typer.Option(help="Instead: the utilisation to predict for, in (0, 1).")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw moments and autocorrelation, trace against fit.")
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Fit a Markovian arrival process (MAP) to a recorded trace.

    \b
    Example:
      fogctl trace fit arrivals.csv --column timestamp --unit ms --utilisation 0.8 --plot fit.svg
    """
    from fogctl.cli.trace_fit import report

    report(file, column, kind, unit, service_mean, utilisation, plot, output)
