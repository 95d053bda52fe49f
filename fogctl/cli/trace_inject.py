"""`fogctl trace inject`: a trace's records as fast as wanted, whatever their times; for capacity tests."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fogctl.cli.output import Format, OutputOption, emit, stderr
from fogctl.cli.trace_rides import TraceArgument, cleaned, destination
from fogctl.errors import FAILED, FogError
from fogctl.inject.senders import Library

DEFAULT_RECORDS = 1_000_000
DIFFERENT_VALUES = 100_000
"""So many rides are kept in memory and sent in turn."""


def inject(
    file: TraceArgument,
    app: Annotated[str, typer.Option(help="The deployed app to send to.")],
    stream: Annotated[str | None, typer.Option(help="Its input stream, if it has several.")] = None,
    rate: Annotated[
        str | None, typer.Option(help="Records a second: 20000/s; without it, as fast as it goes.")
    ] = None,
    duration: Annotated[str | None, typer.Option("--for", help="How long, with a rate: 30s.")] = None,
    records: Annotated[
        int | None, typer.Option(help=f"How many records; {DEFAULT_RECORDS:,} if nothing is said.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="Processes that send; 1, with kafka-python 2.")
    ] = None,
    library: Annotated[
        Library | None, typer.Option(help="Which client sends; librdkafka if it is installed.")
    ] = None,
    testbed: Annotated[
        str | None, typer.Option("--testbed", "-t", help="A testbed's file, or the name of one that is up.")
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Send a trace's rides flat out or at a rate, in turn and numbered, whatever their times in the trace.

    Says what was the limit, the broker or the injector. Exit 1 if the rate asked for was not held.

    \b
    Examples:
      sudo fogctl trace inject rides.parquet --app taxi --records 500000
      sudo fogctl trace inject rides.parquet --app taxi --rate 20000/s --for 30s
    """
    from fogctl.inject import Load
    from fogctl.inject import inject as flood
    from fogctl.inject.senders import best

    rate_per_s = None if rate is None else _rate(rate)
    chosen = library or best()
    count = _count(rate_per_s, duration, records)
    try:
        load = Load(count, rate_per_s, processes or (1 if chosen is Library.librdkafka else 2), chosen)
    except ValueError as error:
        raise FogError(str(error)) from error
    goal = destination(testbed, app, stream)
    rides = cleaned(file).rides
    values = list(islice(rides.values(0, min(len(rides), DIFFERENT_VALUES)), DIFFERENT_VALUES))
    if not values:
        raise FogError("has no ride to send", file=file)
    with _bar(count) as show, goal.ground.kafka() as connection:
        done = flood(load, values, connection, goal.topic, goal.numbers, show)
    limit = {
        None: "the rate was held",
        "broker": "the broker was the limit",
        "injector": "the injector was the limit",
    }
    emit(
        output,
        {**dataclasses.asdict(done), "kept_up": done.kept_up, "topic": goal.topic},
        f"sent {done.records:,} records to {goal.topic} in {done.wall_s:.1f} s: {done.records_per_s:,.0f}/s, "
        f"{done.cpu_us_per_record:.1f} µs of CPU each ({done.library}, {done.processes} processes); "
        f"{limit[done.limited_by]}",
    )
    if done.records < count:
        raise FogError(f"interrupted after {done.records:,} of {count:,} records", exit_code=130)
    if not done.kept_up:
        raise FogError(
            f"{rate} was not held: {done.records_per_s:,.0f}/s, {done.late_s:.1f} s behind at the end; "
            f"{limit[done.limited_by]}",
            hint="more --processes may help" if done.limited_by == "injector" else "ask for less",
            exit_code=FAILED,
        )


@contextlib.contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """Progress on standard error, drawn when told and not by a thread: processes are forked meanwhile."""
    columns = (
        TextColumn("injecting"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=stderr(), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=total)

        def show(sent: int) -> None:
            bar.update(task, completed=sent)
            bar.refresh()

        yield show


def _rate(text: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*s)?\s*", text)
    if found is None or float(found[1]) <= 0:
        raise FogError(f"{text!r} is no rate", key="--rate", hint="write for example 20000/s")
    return float(found[1])


def _count(rate_per_s: float | None, duration: str | None, records: int | None) -> int:
    """How many records are asked for; FogError if that is said twice or not at all."""
    from fogctl.config.units import INSTANT

    if duration is None:
        return DEFAULT_RECORDS if records is None else records
    if rate_per_s is None or records is not None:
        raise FogError(
            "says how many records only together with a rate, and without --records",
            key="--for",
            hint="--rate 20000/s --for 30s, or --records 500000",
        )
    try:
        return int(INSTANT.parse(duration) * rate_per_s)
    except ValueError as error:
        raise FogError(str(error), key="--for") from error
