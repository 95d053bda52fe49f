"""`fogctl plan measure` and `explore`: what an app sustains on nodes, by runs on a testbed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.errors import FAILED, FogError

if TYPE_CHECKING:
    from fogctl.planner.estimator import Estimate, Phases
    from fogctl.planner.live_lab import LiveLab

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
    testbed: Which = None,
    output: OutputOption = Format.table,
) -> None:
    """Measure the highest rate that an app sustains on these nodes, by halving.

    The app is deployed for this on all these nodes, and removed afterwards. A rate is sustained if the lag
    shows no upward trend and at least 99 % of it is processed. Exit 3 if the injector cannot send that much.

    \b
    Example:
      sudo fogctl plan measure nexmark-q1 --nodes pi1,pi2 --first-rate 2000
    """
    import tempfile

    from fogctl.planner.estimator import estimate

    phases = _phases(warm_up, cool_down, ramp_up, observe, sensitivity, trials)
    with tempfile.TemporaryDirectory(prefix="fog-plan-") as folder:
        lab = _lab(app, nodes, keys, options, testbed, Path(folder))
        if len(lab.stages) > 1:
            raise FogError(
                f"{app} has {len(lab.stages)} stages", hint="fogctl plan explore shares nodes out among them"
            )
        with lab.deployed({lab.stages[0]: len(lab.nodes)}, None) as live:
            found = estimate(live, first_rate, phases, say=lab.say)
    _tell(app, found, output)


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
    most: Annotated[int, typer.Option(min=4, max=100, help="Measure at most so many budgets.")] = 20,
    testbed: Which = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it will cost; measure nothing.")
    ] = False,
    output: OutputOption = Format.table,
) -> None:
    """Measure an app with several budgets of slots, chosen by what they teach, for `fogctl plan slots`.

    Corners first, then where a model would gain most, until it gains no more. Each budget is shared out among
    the stages so that the input can be fastest. Writes observations.csv; called again, it goes on.

    \b
    Examples:
      fogctl plan explore nexmark-q5 --slots 1,2,3 --memory 256,512 --first-rate 2000 --to q5 --dry-run
      sudo fogctl plan explore nexmark-q5 --slots 1,2,3 --memory 256,512 --first-rate 2000 --to q5
      fogctl plan slots q5/observations.csv --rate 20000 --memory-mb 512 --plot q5.svg
    """
    from fogmodels.capacity import SearchSpace, StopRule

    from fogctl.planner.explorer import cost
    from fogctl.planner.explorer import explore as search
    from fogctl.planner.journal import Journal

    phases = _phases(warm_up, cool_down, ramp_up, observe, sensitivity, trials)
    try:
        space = SearchSpace(
            tuple(int(n) for n in _numbers("--slots", slots)), tuple(_numbers("--memory", memory))
        )
        stop = StopRule(most=most)
    except ValueError as error:
        raise FogError(str(error).removesuffix(".")) from None
    price = cost(space, phases, stop)
    forecast = (
        f"{price.least_runs} to {price.most_runs} runs, "
        f"{price.least_s / 60:,.0f} to {price.most_s / 60:,.0f} min, on up to {price.slots} nodes"
    )
    if dry_run:
        emit(output, dataclasses.asdict(price), forecast)
        return
    lab = _lab(app, nodes, keys, options, testbed, to / "apps")
    lab.say(f"this takes {forecast}")
    asked = {"app": app, "options": options or [], "keys": keys, "nodes": list(lab.nodes)}
    found = search(
        lab,
        space,
        first_rate,
        Journal(to / "trials.jsonl"),
        asked=asked,
        phases=phases,
        stop=stop,
        say=lab.say,
    )
    rows = [(each.task_slots, f"{each.memory_mb:g}", f"{each.mst:.6g}") for each in found.measured]
    text = "task_slots,memory_mb,mst\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows)
    try:
        (to / "observations.csv").write_text(text, encoding="utf-8")
        profiles = [dataclasses.asdict(each) for each in found.profiles]
        (to / "profiles.json").write_text(json.dumps(profiles, indent=1), encoding="utf-8")
    except OSError as error:
        raise FogError(f"cannot be written: {error.strerror}", file=to, exit_code=FAILED) from None
    emit(
        output,
        dataclasses.asdict(found),
        table(None, ("slots", "memory MB", "sustained /s"), rows),
        f"next: fogctl plan slots {to}/observations.csv --rate RATE",
    )


def _phases(
    warm_up: float, cool_down: float, ramp_up: float, observe: float, sensitivity: float, trials: int
) -> Phases:
    from fogctl.planner.estimator import Phases

    return Phases(warm_up, cool_down, ramp_up, observe, sensitivity, trials)


def _lab(
    app: str, nodes: str | None, keys: int, options: list[str] | None, testbed: str | None, folder: Path
) -> LiveLab:
    from fogctl.bench.data import values
    from fogctl.bench.live import by_arrival
    from fogctl.cli.app import running_apps
    from fogctl.planner.live_lab import LiveLab, require_absent, usable_nodes
    from fogctl.runtime.app import load
    from fogctl.runtime.app_options import with_options

    console = stderr()
    loaded = with_options(by_arrival(load(app)), options or ())
    data = values(loaded, keys, seed=1)
    found = running_apps(testbed)
    require_absent(found, loaded)
    chosen = usable_nodes(found, [name.strip() for name in nodes.split(",")] if nodes else [])
    return LiveLab(
        found, loaded, chosen, data, folder, lambda text: console.print(text, highlight=False, soft_wrap=True)
    )


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise FogError(
            f'"{text}" is not a list of numbers', key=option, hint="write for example 1,2,3"
        ) from None


def _tell(app: str, found: Estimate, output: Format) -> None:
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
    data: dict[str, Any] = {"app": app, **dataclasses.asdict(found), "error": found.error}
    emit(
        output,
        data,
        table(None, ("rate /s", "processed /s", "sustained", "why"), rows),
        f"{app} sustains {found.mst:,.4g} records/s; {above}",
    )
    if not found.mst:
        raise FogError("no rate was sustained", hint="give a lower --first-rate", exit_code=FAILED)
