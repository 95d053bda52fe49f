"""`fogctl plan measure` and `explore`: what an app sustains on nodes, by runs on a testbed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogctl.cli.output import Format, OutputOption, emit, table
from fogctl.cli.plan_place import place_of, require_measurable
from fogctl.errors import REFUSED, FogError

if TYPE_CHECKING:
    from fogctl.planner.estimator import Estimate, Phases

TRIALS = "trials.jsonl"

AppArgument = Annotated[
    str, typer.Argument(help="An app that ships, or a folder with an app.yaml.", show_default=False)
]
FirstRate = Annotated[
    float,
    typer.Option(
        min=0.001, help="Records a second that are too much: the warm-up sends them.", show_default=False
    ),
]
Nodes = Annotated[
    str | None, typer.Option(help="Edge nodes to use, pi1,pi2; all if not given.", show_default=False)
]
Keys = Annotated[int, typer.Option(min=1, help="Keys in the data, where the app's generator has them.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another option for a stage: STAGE.OPTION=VALUE; repeatable."),
]
Which = Annotated[
    str | None, typer.Option("--testbed", help="A testbed.yaml, or the name of one that is up.")
]
WarmUp = Annotated[float, typer.Option(min=1, help="Seconds of overload before anything is measured.")]
CoolDown = Annotated[float, typer.Option(min=1, help="Seconds of little load before each rate.")]
RampUp = Annotated[float, typer.Option(min=1, help="Seconds of each rate before it is looked at.")]
Observe = Annotated[float, typer.Option(min=10, help="Seconds for which each rate is looked at.")]
Sensitivity = Annotated[float, typer.Option(min=0.001, max=0.5, help="Stop when rates differ by less.")]
Trials = Annotated[int, typer.Option(min=1, max=50, help="Try at most so many rates.")]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it will cost; measure nothing.")]
Injectors = Annotated[int, typer.Option(min=1, max=64, help="Processes that send records.")]


def measure(
    app: AppArgument,
    first_rate: FirstRate,
    nodes: Nodes = None,
    keys: Keys = 100,
    options: Options = None,
    warm_up: WarmUp = 60.0,
    cool_down: CoolDown = 10.0,
    ramp_up: RampUp = 30.0,
    observe: Observe = 120.0,
    sensitivity: Sensitivity = 0.05,
    trials: Trials = 8,
    injectors: Injectors = 1,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Folder to keep trials in; again: go on, or repeat.", show_default=False),
    ] = None,
    testbed: Which = None,
    dry_run: DryRun = False,
    output: OutputOption = Format.table,
) -> None:
    """Measure the highest rate that an app sustains on these nodes, by halving.

    The app is deployed for this on all these nodes, and removed afterwards. A rate is sustained if the lag
    shows no upward trend and at least 99 % of it is processed. Exit 3 if the injector cannot send that much.
    With --to every trial is kept: called again it goes on, or measures once more and tells the spread.
    The app `simulated` is an engine in numbers: it needs no testbed and no root.

    \b
    Examples:
      fogctl plan measure simulated --first-rate 2000
      fogctl plan measure nexmark-q1 --first-rate 2000 --dry-run
      sudo fogctl plan measure nexmark-q1 --nodes pi1,pi2 --first-rate 2000 --to q1
    """
    import tempfile

    from fogctl.planner.estimator import estimate
    from fogctl.planner.journal import Journal
    from fogctl.planner.repeats import Repeats

    _finite("--first-rate", first_rate)
    phases = _phases(warm_up, cool_down, ramp_up, observe, sensitivity, trials)
    least_s = phases.warm_up_s + min(2, phases.most_trials) * phases.trial_s
    forecast = f"one estimate, {least_s / 60:,.0f} to {phases.most_s / 60:,.0f} min, deploying apart"
    if dry_run:
        require_measurable(app, keys, options)
        emit(output, {"least_s": least_s, "most_s": phases.most_s}, forecast)
        return
    with tempfile.TemporaryDirectory(prefix="fog-plan-") as folder:
        place = place_of(app, nodes, keys, options, testbed, Path(folder), injectors)
        stages = place.lab.stages
        if len(stages) > 1 and place.nodes:
            raise FogError(
                f"{app} has {len(stages)} stages", hint="fogctl plan explore shares nodes out among them"
            )
        repeats = None
        if to is not None:
            asked = place.asked | {"phases": dataclasses.asdict(phases), "first_rate": first_rate}
            repeats = Repeats.open(Journal(to / TRIALS), asked)
        place.say(forecast if place.nodes else f"{forecast}; but time is simulated")
        with _keeping(to and to / TRIALS), place.whole(len(repeats.finished) if repeats else 0) as live:
            found = estimate(
                live,
                first_rate,
                phases,
                known=repeats.known if repeats else (),
                on_trial=repeats.note if repeats else lambda _: None,
                say=place.say,
            )
        all_found = repeats.finish(found) if repeats else (found.mst,)
    _tell(app, found, all_found, output)


def explore(
    app: AppArgument,
    slots: Annotated[str, typer.Option(help="Budgets to choose from: 1,2,3", show_default=False)],
    memory: Annotated[str, typer.Option(help="Heaps to choose from, in MiB: 256,512", show_default=False)],
    first_rate: FirstRate,
    to: Annotated[Path, typer.Option("--to", help="Folder for what is measured.", show_default=False)],
    nodes: Nodes = None,
    keys: Keys = 100,
    options: Options = None,
    warm_up: WarmUp = 60.0,
    cool_down: CoolDown = 10.0,
    ramp_up: RampUp = 30.0,
    observe: Observe = 120.0,
    sensitivity: Sensitivity = 0.05,
    trials: Trials = 8,
    injectors: Injectors = 1,
    most: Annotated[int, typer.Option(min=4, max=100, help="Measure at most so many budgets.")] = 20,
    testbed: Which = None,
    dry_run: DryRun = False,
    output: OutputOption = Format.table,
) -> None:
    """Measure an app with several budgets of slots, chosen by what they teach, for `fogctl plan boards`.

    Corners first, then where a model would gain most, until it gains no more. Each budget is shared out among
    the stages so that the input can be fastest. Every trial is kept, and after each budget exploration.json
    and observations.csv are written; called again, it goes on. The app `simulated` needs no testbed.

    \b
    Examples:
      fogctl plan explore simulated --slots 2,4,6,9 --memory 256,512 --first-rate 3000 --to try
      fogctl plan explore nexmark-q5 --slots 1,2,3 --memory 256,512 --first-rate 2000 --to q5 --dry-run
      sudo fogctl plan explore nexmark-q5 --slots 1,2,3 --memory 256,512 --first-rate 2000 --to q5
      fogctl plan boards q5 --rate 5000,20000 --board rpi4-4g --page q5.html
    """
    from fogmodels.capacity import SearchSpace, StopRule

    from fogctl.planner import kept
    from fogctl.planner.explorer import Exploration, cost
    from fogctl.planner.explorer import explore as search
    from fogctl.planner.journal import Journal

    _finite("--first-rate", first_rate)
    phases = _phases(warm_up, cool_down, ramp_up, observe, sensitivity, trials)
    try:
        space = SearchSpace(tuple(_whole("--slots", slots)), tuple(_numbers("--memory", memory)))
        stop = StopRule(most=most)
    except ValueError as error:
        raise FogError(str(error).removesuffix(".")) from None
    price = cost(space, phases, stop)
    # A rule of thumb: deploying, and waiting for backlogs, comes on top.
    forecast = (
        f"{' to '.join(map(str, dict.fromkeys((price.least_runs, price.most_runs))))} runs, "
        f"{price.least_s / 60:,.0f} to {price.most_s / 60:,.0f} min, on up to {price.slots} nodes"
    )
    if dry_run:
        require_measurable(app, keys, options)
        emit(output, dataclasses.asdict(price), forecast)
        return
    place = place_of(app, nodes, keys, options, testbed, to / "apps", injectors)
    if place.nodes and space.task_slots[-1] > len(place.nodes):
        raise FogError(
            f"{space.task_slots[-1]} slots need as many nodes, and there are {len(place.nodes)}",
            key="--slots",
            hint="give fewer, or a testbed with more nodes",
        )
    place.say(f"this takes {forecast}" + ("" if place.nodes else "; but time and nodes are simulated"))

    def keep(so_far: Exploration, finished: bool = False) -> None:
        kept.write(to, kept.Kept.of(app, place.slot, place.lab.stages, so_far, finished))

    with _keeping(to / TRIALS):
        found = search(
            place.lab,
            space,
            first_rate,
            Journal(to / TRIALS),
            asked=place.asked,
            phases=phases,
            stop=stop,
            on_measured=keep,
            say=place.say,
        )
    keep(found, finished=True)
    rows = [
        (each.task_slots, f"{each.memory_mb:g}", f"{each.mst:.6g}", _spent(each.tasks))
        for each in found.measured
    ]
    emit(
        output,
        dataclasses.asdict(found),
        table(None, ("slots", "memory MB", "sustained /s", "tasks of each stage"), rows),
        f"next: fogctl plan boards {to} --rate RATE --board BOARD --page {to}/plan.html",
    )


def _spent(tasks: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in tasks.items())


def _phases(
    warm_up: float, cool_down: float, ramp_up: float, observe: float, sensitivity: float, trials: int
) -> Phases:
    from fogctl.planner.estimator import Phases

    try:
        return Phases(warm_up, cool_down, ramp_up, observe, sensitivity, trials)
    except ValueError as error:
        raise FogError(str(error).removesuffix(".")) from None


@contextmanager
def _keeping(file: Path | None) -> Iterator[None]:
    """Says of a failure in between where what was measured before is."""
    try:
        yield
    except FogError as error:
        where = "give --to to keep trials" if file is None else f"measured so far is kept in {file}"
        raise FogError(
            error.message,
            file=error.file,
            line=error.line,
            key=error.key,
            hint="; ".join(part for part in (error.hint, where) if part),
            exit_code=error.exit_code,
        ) from None


def _finite(option: str, value: float) -> None:
    if not math.isfinite(value):
        raise FogError(f"must be a finite number, not {value}", key=option)


def _whole(option: str, text: str) -> list[int]:
    numbers = _numbers(option, text)
    if any(not number.is_integer() for number in numbers):
        raise FogError(f'"{text}" are not whole numbers', key=option, hint="write for example 1,2,3")
    return [int(number) for number in numbers]


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise FogError(
            f'"{text}" is not a list of numbers', key=option, hint="write for example 1,2,3"
        ) from None


def _tell(app: str, found: Estimate, all_found: Sequence[float], output: Format) -> None:
    from fogctl.planner.repeats import spread

    rows = [
        (
            f"{each.rate_per_s:,.4g}",
            f"{each.achieved_per_s:,.4g}",
            "yes" if each.sustained else "no",
            each.reason,
        )
        for each in found.trials
    ]
    above = "nothing was too much" if found.upper is None else f"{found.upper:,.4g}/s was too much"
    apart = spread(all_found)
    data: dict[str, Any] = {"app": app, **dataclasses.asdict(found), "error": found.error}
    data |= {"estimates": list(all_found), "spread": apart}
    data["stages"] = [
        dataclasses.asdict(stage) | {"true_rate_per_s": stage.true_rate_per_s} for stage in found.stages
    ]
    stages = [
        (
            stage.name,
            stage.tasks,
            f"{stage.rate_per_s:,.4g}",
            f"{stage.busyness:.0%}",
            f"{stage.true_rate_per_s:,.4g}",
        )
        for stage in found.stages
    ]
    said = [f"{app} sustains {found.mst:,.4g} records/s; {above}"]
    if apart is not None:
        each = ", ".join(f"{one:,.4g}" for one in all_found)
        said.append(f"{len(all_found)} estimates: {each}; greatest less least is {apart:.1%} of their median")
    shown = [table(None, ("rate /s", "processed /s", "sustained", "why"), rows)]
    if stages:
        heads = ("stage", "tasks", "takes in /s", "busy", "a task always busy /s")
        shown.append(table(None, heads, stages))
    emit(output, data, *shown, *said)
    if not found.mst:
        raise FogError("no rate was sustained", hint="give a lower --first-rate", exit_code=REFUSED)
