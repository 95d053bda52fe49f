"""`fogctl trace make`, `info` and `replay`: taxi rides made, described and sent on schedule."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.errors import FAILED, FogError

if TYPE_CHECKING:
    from fogctl.runtime.ground import Ground
    from fogctl.runtime.sent_numbers import SentNumbers
    from fogctl.trace.clean import Cleaned

INTERRUPTED = 130
"""The exit code of a command that was ended by Ctrl-C."""

TraceArgument = Annotated[
    Path, typer.Argument(help="A trace: ours, TLC's or the 2013 ride format; CSV or Parquet.")
]


def make(
    file: Annotated[Path, typer.Argument(help="Where to write it; .csv or .parquet.")],
    days: Annotated[float, typer.Option(help="How many days.")] = 2.0,
    rides: Annotated[float, typer.Option(help="Rides a day.")] = 500_000,
    start: Annotated[str, typer.Option(help="When it begins.")] = "2013-05-01T00:00:00",
    dirt: Annotated[float, typer.Option(help="Share of rides that are spoiled, 0 to 1.")] = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed makes the same rides.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    output: OutputOption = Format.table,
) -> None:
    """Make a taxi trace: New York's daily shape, plausible coordinates, dirt on request.

    \b
    Examples:
      fogctl trace make rides.parquet
      fogctl trace make morning.csv --days 0.125 --start 2013-05-01T07:00:00 --dirt 0.05
    """
    from fogctl.trace import MakeOptions, write
    from fogctl.trace import make as make_rides

    if file.exists() and not force:
        raise FogError("is there already", file=file, hint="--force overwrites it")
    try:
        options = MakeOptions(seed, days, rides, start, dirt)
        made = make_rides(options)
    except ValueError as error:
        raise FogError(str(error)) from error
    write(made, file)
    emit(
        output,
        {"file": str(file), "rides": len(made), **dataclasses.asdict(options)},
        f"wrote {file}: {len(made):,} rides; next: fogctl trace info {file}",
    )


def info(
    file: TraceArgument,
    plot: Annotated[Path | None, typer.Option(help="Draw the rate over time (SVG or PNG).")] = None,
    output: OutputOption = Format.table,
) -> None:
    """Describe a trace: rates, gaps, burstiness, and what cleaning removes.

    \b
    Examples:
      fogctl trace info rides.parquet
      fogctl trace info rides.parquet --plot rate.svg -o json
    """
    from fogctl.trace.describe import describe

    found = cleaned(file)
    try:
        seen = describe(found.rides)
    except ValueError as error:
        raise FogError(str(error), file=file) from error
    if plot is not None:
        from fogctl.trace.picture import draw_rate

        draw_rate(found.rides, plot)
    figures = dataclasses.asdict(seen)
    rows = [
        (name.replace("_", " "), f"{v:,.4g}" if isinstance(v, float) else v) for name, v in figures.items()
    ]
    removed = [(f"removed: {reason}", number) for reason, number in found.removed.items() if number]
    emit(
        output,
        {"file": str(file), **figures, "removed": found.removed, "moved": found.moved},
        table(str(file), ("what", "value"), [*rows, *removed, ("out of order, sorted in", found.moved)]),
    )


def replay(
    file: TraceArgument,
    app: Annotated[str, typer.Option(help="The deployed app to send to.")],
    stream: Annotated[str | None, typer.Option(help="Its input stream, if it has several.")] = None,
    speed: Annotated[float, typer.Option(help="Seconds of the trace in each second.")] = 10.0,
    copies: Annotated[int, typer.Option(help="How often each record is sent.")] = 1,
    limit: Annotated[int | None, typer.Option(help="Send the first so many rides only.")] = None,
    testbed: Annotated[
        str | None, typer.Option("--testbed", "-t", help="A testbed's file, or the name of one that is up.")
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Send a trace to a deployed app, each record numbered and on schedule. Exit 1 if it could not keep up.

    \b
    Examples:
      sudo fogctl trace replay rides.parquet --app taxi --speed 10 --copies 3
      sudo fogctl trace replay rides.csv --app taxi --limit 1000
    """
    from fogctl.trace.kafka_sink import KafkaSink
    from fogctl.trace.replay import Pace, copied, promptly
    from fogctl.trace.replay import replay as send

    goal = destination(testbed, app, stream)
    rides = cleaned(file).rides
    try:
        pace = Pace(speed, copies)
    except ValueError as error:
        raise FogError(str(error)) from error
    count = len(rides) if limit is None else min(limit, len(rides))
    if count < 1:
        raise FogError("has no ride to send", file=file)
    due_s = pace.due_s(rides.pickup_s()[:count])
    first = goal.numbers.reserve(due_s.size)
    columns = (
        TextColumn("replaying"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    with goal.ground.kafka() as connection:
        sink = KafkaSink(connection, goal.topic, goal.numbers, first, first + due_s.size)
    sent = 0

    def handed_over(records: int) -> None:
        nonlocal sent
        sent = records
        bar.update(task, completed=records)
        bar.refresh()

    with Progress(*columns, console=stderr(), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=due_s.size)
        try:
            with promptly(due_s):
                values = copied(rides.values(0, count), copies)
                done = send(values, due_s, sink, first_number=first, on_progress=handed_over)
        except KeyboardInterrupt:
            raise FogError(
                f"interrupted after about {sent:,} of {due_s.size:,} records",
                hint="what was sent counts in the audit, the rest does not",
                exit_code=INTERRUPTED,
            ) from None
        finally:
            sink.close()
    emit(
        output,
        {**dataclasses.asdict(done), "kept_up": done.kept_up, "topic": goal.topic},
        f"sent {done.records:,} records to {goal.topic} in {done.duration_s:.1f} s; schedule error p50 "
        f"{done.error_ms_p50:.2f} ms, p99 {done.error_ms_p99:.2f} ms, largest {done.error_ms_max:.1f} ms",
    )
    if not done.kept_up:
        raise FogError(
            f"the replay could not keep up: {done.late_s:.1f} s behind at the end",
            hint="a lower --speed, or fewer --copies",
            exit_code=FAILED,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Destination:
    """Where records for an app go, and the journal of their numbers."""

    ground: Ground
    topic: str
    numbers: SentNumbers


def destination(testbed: str | None, app: str, stream: str | None) -> Destination:
    """The topic of a deployed app's input stream; FogError if there is none."""
    from fogctl.cli.testbed import which
    from fogctl.runtime import app as apps
    from fogctl.runtime.grounds import ground_of
    from fogctl.runtime.kafka import require_topic
    from fogctl.runtime.operate import Apps

    ground = ground_of(which(testbed).name)
    ground.attend()
    deployed = Apps(ground)
    loaded = apps.load(deployed.get(app).app_file)
    topic = loaded.topic(_stream(loaded.sources, stream))
    require_topic(ground.kafka(), topic)
    return Destination(ground, topic, deployed.sent_numbers(app))


def cleaned(file: Path) -> Cleaned:
    """The rides of a file in order of time, without duplicates and invalid rows."""
    from fogctl.trace import clean, read

    return clean(read(file))


def _stream(known: tuple[str, ...], asked: str | None) -> str:
    if asked is None and len(known) == 1:
        return known[0]
    if asked in known:
        return str(asked)
    raise FogError(
        f"the app has no input stream {asked}" if asked else "the app has several input streams",
        key="--stream",
        hint=f"one of: {', '.join(known)}",
    )
