"""`fogctl bench`: how the need for resources grows with the load, by experiments that are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.errors import FogError

if TYPE_CHECKING:
    from fogctl.bench.bench_file import BenchmarkFile
    from fogctl.bench.load import Case
    from fogctl.bench.search import Outcome, Subject

HELP = """Scalability benchmarks: resource demand of a load, load capacity of resources.

\b
A first answer in seconds, on a simulated engine:
  fogctl bench run simulated --plot demand.svg
\b
On a virtual testbed with three edge nodes that is up, in some 15 minutes:
  fogctl bench run uc2 --dry-run
  sudo fogctl bench run uc2 --plot uc2.svg
"""

app = typer.Typer(help=HELP, no_args_is_help=True)
JOURNAL = "experiments.jsonl"


@app.command()
def run(
    what: Annotated[
        str,
        typer.Argument(
            help="An execution.yaml, or one that ships: simulated, uc1 to uc4, ospbench.", show_default=False
        ),
    ],
    metric: Annotated[
        str | None,
        typer.Option(metavar="demand|capacity", help="Instead of the file's.", show_default=False),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Folder for the experiments; bench-NAME if not given.", show_default=False),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw it: FILE.svg, .png, .pdf", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take; run nothing.")] = False,
    output: OutputOption = Format.table,
) -> None:
    """Find the least resources for each load, or the greatest load of each amount of resources.

    benchmark.yaml says what is measured and when a load counts as sustained, execution.yaml at which loads
    and how often. Every experiment is kept as it is made: call it again to go on where it stopped.
    Exit 3: a load could not be sent, or nothing was sustained at all; what was made is kept.

    \b
    Examples:
      fogctl bench run simulated --plot demand.svg
      fogctl bench run uc3 --dry-run
      sudo fogctl bench run uc3 --plot uc3.svg           (a testbed with three edge nodes that is up)
      sudo fogctl bench run uc3 --metric capacity
      sudo fogctl bench run mine/execution.yaml --to results/mine -o json
    """
    from fogctl.bench.bench_file import Metric
    from fogctl.bench.load import asking, load
    from fogctl.bench.search import run as search
    from fogctl.planner.journal import Journal
    from fogctl.planner.picture import require_drawable

    case = load(what)
    name = case.benchmark.name
    if metric is not None:
        if metric not in {each.value for each in Metric}:
            raise FogError(f"there is no metric {metric}", key="--metric", hint=f"one of {', '.join(Metric)}")
        if Metric(metric) is not case.execution.metric:
            case, name = asking(case, Metric(metric)), f"{name}-{metric}"
    if plot is not None:
        require_drawable(plot)
    folder = to or Path(f"bench-{name}")
    if dry_run:
        emit(output, *_forecast(case, folder))
        return
    console = stderr()

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    subject = _subject(case, say)
    say(_forecast(case, folder)[1])
    outcome = search(case, subject, Journal(folder / JOURNAL), say=say)
    _tell(case.benchmark, outcome, plot, output)


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="What --to named.", show_default=False)],
    plot: Annotated[
        Path | None, typer.Option(help="Draw it: FILE.svg, .png, .pdf", show_default=False)
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Show what a benchmark found, from the experiments it kept alone.

    \b
    Example:
      fogctl bench show bench-simulated --plot demand.svg
    """
    from fogctl.bench.load import kept
    from fogctl.bench.search import NoSubject
    from fogctl.bench.search import run as search
    from fogctl.planner.journal import Journal

    journal = Journal(folder / JOURNAL)
    case = kept(journal)
    _tell(case.benchmark, search(case, NoSubject(journal), journal), plot, output)


def _subject(case: Case, say: Callable[[str], None]) -> Subject:
    system, execution = case.benchmark.system, case.execution
    if system.simulated is not None:
        from fogctl.bench.simulated import SimulatedSubject

        return SimulatedSubject(system.simulated, case.benchmark.load, execution.seed)
    from fogctl.bench.live import LiveSubject
    from fogctl.cli.app import running_apps

    assert system.live is not None
    beside = [case.folder / part if part and (case.folder / part).exists() else part
              for part in (system.live.testbed, system.live.app)]  # fmt: skip
    testbed, app_folder = (None if part is None else str(part) for part in beside)
    return LiveSubject.of(
        system.live,
        case.benchmark.load,
        execution.seed,
        int(max(execution.resources)),
        max(execution.loads),
        running_apps(testbed),
        say,
        app_folder,
    )


def _forecast(case: Case, folder: Path) -> tuple[Any, ...]:
    """What it would take at least and at most, before anything is known."""
    from fogctl.bench.search import bounds

    benchmark, execution = case.benchmark, case.execution
    least, most = bounds(execution)
    minutes = (execution.warm_up + execution.duration) / 60
    data = {
        "benchmark": benchmark.name,
        "folder": str(folder),
        "experiments": {"least": least, "most": most},
        "minutes": {"least": least * minutes, "most": most * minutes},
    }
    unit = "min of simulated time" if benchmark.system.simulated is not None else "min"
    text = (
        f"{benchmark.name}: {least} to {most} experiments of {minutes:.3g} min, "
        f"{least * minutes:,.0f} to {most * minutes:,.0f} {unit} in all; kept in {folder}/{JOURNAL}"
    )
    return data, text


def _tell(benchmark: BenchmarkFile, outcome: Outcome, plot: Path | None, output: Format) -> None:
    from fogctl.bench.bench_file import Metric
    from fogctl.bench.picture import UNITS, draw
    from fogctl.bench.search import require_answer
    from fogctl.planner.picture import save

    if plot is not None:
        save(draw(benchmark, outcome), plot)
    demand = outcome.metric is Metric.demand
    load, resource = f"load ({UNITS[benchmark.load.by]})", benchmark.resource
    asked, answer = (load, resource) if demand else (resource, load)
    beyond = "more than was tried" if demand else "less than was tried"
    slope = outcome.slope
    rows = [
        (
            f"{at:g}",
            beyond if found is None else f"{found:g}",
            "" if slope is None else f"{slope * at:.3g}",
        )
        for at, found in outcome.answers.items()
    ]
    full = outcome.needed["full"]
    strategies = [(name, count, f"{1 - count / full:.0%}") for name, count in outcome.needed.items()]
    data = {
        "benchmark": benchmark.name,
        "metric": outcome.metric.value,
        "answers": [{"at": at, "answer": found} for at, found in outcome.answers.items()],
        "linear_bound_slope": slope,
        "experiments": len(outcome.experiments),
        "needed": dict(outcome.needed),
    }
    emit(
        output,
        data,
        table(None, (asked, answer, "linear bound"), rows),
        table(None, ("strategy", "experiments for these answers", "saved"), strategies),
        f"{len(outcome.experiments)} experiments were made",
    )
    require_answer(outcome)
