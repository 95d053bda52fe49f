"""`fogctl plan`: how many tasks for each operator, and how many slots for a rate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogctl.cli import plan_boards, plan_live
from fogctl.cli.output import Format, OutputOption, emit, table
from fogctl.errors import FAILED, FogError

# The models need scipy and pictures matplotlib: commands import them when they run, not before.
if TYPE_CHECKING:
    from fogmodels.capacity import CapacityModel

    from fogctl.planner.operators import Operator

HELP = """Capacity planning: what is sustained, parallelism under a budget, slots for a rate.

\b
A first answer in a minute, on a simulated engine:
  fogctl plan explore simulated --slots 2,4,6,9 --memory 256,512 \\
      --first-rate 3000 --to try
  fogctl plan boards try --rate 2000,20000 \\
      --board rpi4-4g --board rpi5-8g --page plan.html
\b
On a virtual testbed that is up, in some 10 minutes:
  sudo fogctl plan measure nexmark-q1 --nodes pi1 --first-rate 2000 \\
      --warm-up 30 --ramp-up 15 --observe 60 --trials 5
"""

app = typer.Typer(help=HELP, no_args_is_help=True)
app.command()(plan_live.measure)
app.command()(plan_live.explore)
app.command()(plan_boards.boards)


@app.command()
def parallelism(
    file: Annotated[
        Path | None, typer.Argument(help="YAML or JSON with operators and a budget.", show_default=False)
    ] = None,
    operator: Annotated[
        list[str] | None,
        typer.Option("--operator", metavar="NAME:TRUE_RATE:RATIO", help="An operator; repeat for each."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="Tasks in all; overrides the file's.", show_default=False)
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Share a budget of tasks among operators so that the source can run as fast as possible.

    TRUE_RATE is what one task processes per second when it is always busy (rate / busyness); RATIO is the
    operator's input rate over the source's rate. The answer is exact; of equally fast answers it is the one
    with the fewest tasks.

    \b
    Examples:
      fogctl plan parallelism --operator parse:1200:1 --operator join:300:0.4 --budget 16
      fogctl plan parallelism job.yaml -o json

    \b
    job.yaml:
      budget: 16
      operators:
        - {name: parse, true_rate: 1200, ratio: 1}
        - {name: join, rate: 150, busyness: 0.5, ratio: 0.4}
    """
    from fogmodels.capacity import best_parallelism

    operators, tasks = _job(file, operator or [])
    tasks = budget if budget is not None else tasks
    if tasks is None:
        raise FogError("the budget is missing", file=file, key="budget", hint="give --budget, for example 16")
    names = [each.name for each in operators]
    try:
        best = best_parallelism(
            [each.task_rate for each in operators], [each.ratio for each in operators], tasks
        )
    except ValueError as error:
        raise FogError(_sentence(error), file=file) from None
    lines = []
    for each, count in zip(operators, best.tasks, strict=True):
        load = best.source_rate * each.ratio / (count * each.task_rate) if each.ratio else 0.0
        lines.append({"operator": each.name, "tasks": count, "busyness": load, "true_rate": each.task_rate})
    data = {
        "source_rate": best.source_rate,
        "tasks": dict(zip(names, best.tasks, strict=True)),
        "total": best.total,
        "budget": tasks,
        "operators": lines,
    }
    shown = table(
        None,
        ("operator", "tasks", "busy at that rate", "rate of a task"),
        [
            (line["operator"], line["tasks"], f"{line['busyness']:.1%}", f"{line['true_rate']:,.10g}")
            for line in lines
        ],
    )
    spare = tasks - best.total
    note = f"source rate {best.source_rate:,.10g}/s with {best.total} of {tasks} tasks"
    if spare:
        note += f"; {spare} more would not raise it"
    emit(output, data, shown, note)


def _job(file: Path | None, texts: list[str]) -> tuple[list[Operator], int | None]:
    from fogctl.planner.operators import operator_from, read_job

    if file is not None and texts:
        raise FogError("give the operators in the file or by --operator, not both", key="--operator")
    if file is not None:
        job = read_job(file)
        return job.operators, job.budget
    if not texts:
        raise FogError("no operators given", hint="name a file, or use --operator NAME:TRUE_RATE:RATIO")
    operators = [operator_from(text) for text in texts]
    names = [each.name for each in operators]
    for name in names:
        if names.count(name) > 1:
            raise FogError(f'two operators are called "{name}"', key="--operator", hint="rename one")
    return operators, None


@app.command()
def slots(
    file: Annotated[Path, typer.Argument(help="CSV with task_slots, memory_mb, mst.", show_default=False)],
    rate: Annotated[
        str, typer.Option(help="Events per second to sustain, for example 2.5e6.", show_default=False)
    ],
    memory_mb: Annotated[
        float | None,
        typer.Option(
            "--memory-mb", help="Memory to plan for; needed if it varies in the file.", show_default=False
        ),
    ] = None,
    headroom: Annotated[str, typer.Option(help="Ask the model for this much more.")] = "10%",
    confidence: Annotated[str, typer.Option(help="Of the interval.")] = "90%",
    family: Annotated[
        str, typer.Option(help="linear, sqrt, log, or auto: least leave-one-out error.")
    ] = "auto",
    max_slots: Annotated[int, typer.Option(help="Look no further than this.")] = 5000,
    plot: Annotated[
        Path | None, typer.Option(help="Draw it: FILE.svg, .png, .pdf", show_default=False)
    ] = None,
    slots_column: Annotated[str, typer.Option(help="Name of the column with task slots.")] = "task_slots",
    memory_column: Annotated[str, typer.Option(help="Name of the column with memory.")] = "memory_mb",
    mst_column: Annotated[str, typer.Option(help="Name of the column with throughputs.")] = "mst",
    output: OutputOption = Format.table,
) -> None:
    """Say how many task slots a rate needs, from throughputs measured at small scale.

    Three regressions (linear, sqrt, log) are compared by leave-one-out error. Far beyond the measurements
    the family decides the answer, so the interval covers every family the data cannot rule out.
    Exit code 1: the rate is not reached within --max-slots.

    \b
    Examples:
      fogctl plan slots observations.csv --rate 40000 --memory-mb 2048
      fogctl plan slots observations.csv --rate 40000 --memory-mb 2048 --plot slots.svg
      fogctl plan slots grid.csv --rate 2.5e6 --memory-column memory_mb_per_tm --mst-column mst_ev_s -o json
    """
    from fogmodels.capacity import FAMILIES, Family, fit_capacity

    from fogctl.planner.observations import Columns, read_observations

    wanted = number_of("--rate", rate)
    spare = fraction("--headroom", headroom)
    sure = fraction("--confidence", confidence)
    observations = read_observations(file, Columns(slots_column, memory_column, mst_column))
    if family not in ("auto", *FAMILIES):
        raise FogError(
            f'"{family}" is not possible', key="--family", hint=f"possible: auto, {', '.join(FAMILIES)}"
        )
    chosen: Family | None = next((name for name in FAMILIES if name == family), None)
    try:
        model = fit_capacity(observations, chosen)
    except ValueError as error:
        raise FogError(_sentence(error), file=file) from None
    sizes = sorted({row.memory_mb for row in observations})
    if memory_mb is None and len(sizes) > 1:
        several = ", ".join(f"{size:g}" for size in sizes[:6])
        raise FogError(
            "is missing, and memory varies in the file", key="--memory-mb", hint=f"measured: {several}"
        )
    try:
        data = _answer(model, wanted, memory_mb, spare, sure, max_slots)
    except ValueError as error:
        raise FogError(_sentence(error)) from None
    if plot is not None:
        from fogctl.planner.picture import draw_capacity, save

        save(draw_capacity(model, [wanted], memory_mb, spare, sure), plot)
    emit(output, data, *_shown(data))
    if data["slots"] is None:
        raise typer.Exit(FAILED)


def _answer(
    model: CapacityModel,
    rate: float,
    memory_mb: float | None,
    headroom: float,
    confidence: float,
    max_slots: int,
) -> dict[str, Any]:
    from fogmodels.capacity import FAMILIES

    interval = model.slots_interval(
        rate, memory_mb, headroom=headroom, confidence=confidence, max_slots=max_slots
    )
    families = [
        {
            "family": name,
            "slots": model.slots_for(rate, memory_mb, headroom=headroom, max_slots=max_slots, family=name),
            "loo_error": model.errors[name],
            "plausible": name in model.plausible,
            "coefficients": {
                "memory": model.regressions[name].a,
                "slots": model.regressions[name].b,
                "intercept": model.regressions[name].c,
            },
        }
        for name in FAMILIES
    ]
    return {
        "rate": rate,
        "headroom": headroom,
        "memory_mb": memory_mb if memory_mb is not None else model.observations[0].memory_mb,
        "family": model.family,
        "slots": model.slots_for(rate, memory_mb, headroom=headroom, max_slots=max_slots),
        "interval": {"low": interval.low, "high": interval.high, "confidence": confidence},
        "max_slots": max_slots,
        "families": families,
        "decided": model.decided,
        "verdict": model.verdict,
        "observations": len(model.observations),
    }


def _shown(data: dict[str, Any]) -> list[Any]:
    most = data["max_slots"]
    beyond = f"> {most}"
    lines = [
        (
            f"{line['family']}{' (chosen)' if line['family'] == data['family'] else ''}",
            beyond if line["slots"] is None else line["slots"],
            f"{line['loo_error']:,.4g}",
            "yes" if line["plausible"] else "ruled out",
        )
        for line in data["families"]
    ]
    low, high = (
        beyond if bound is None else bound for bound in (data["interval"]["low"], data["interval"]["high"])
    )
    asked = f"{data['rate']:,.10g}/s + {data['headroom']:.0%} with {data['memory_mb']:g} MB"
    answer = f"more than {most} slots" if data["slots"] is None else f"{data['slots']} slots"
    return [
        table(None, ("family", "slots", "leave-one-out error", "plausible"), lines),
        f"{asked}: {answer} ({data['interval']['confidence']:.0%} interval {low} to {high})",
        data["verdict"],
    ]


def numbers(option: str, text: str) -> list[float]:
    """One or more numbers above 0, with commas between."""
    return [number_of(option, part) for part in text.split(",")]


def number_of(option: str, text: str) -> float:
    """A number above 0."""
    from fogctl.planner.operators import number

    try:
        value = number(text)
    except ValueError as error:
        raise FogError(str(error), key=option, hint="write a number such as 2.5e6") from None
    if value <= 0:
        raise FogError("must be above 0", key=option)
    return value


def fraction(option: str, text: str) -> float:
    """`10%` or `0.1`."""
    from fogctl.planner.operators import number

    digits, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        value = number(digits)
    except ValueError:
        raise FogError(f'"{text}" is not a share', key=option, hint="write 10% or 0.1") from None
    if not percent and value >= 1 and option == "--headroom":
        raise FogError(
            f'"{text}" would be {value:.0%}', key=option, hint=f"write {value:g}% if that is meant"
        )
    return value / 100 if percent else value


def _sentence(error: ValueError) -> str:
    return str(error).removesuffix(".")
