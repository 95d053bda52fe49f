"""`fogctl app`: streaming apps deployed to nodes, scaled, watched and removed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogctl.cli.app_place import (
    PlaceOption,
    ProfileOption,
    ReplicasOption,
    SeedOption,
    SlotsOption,
    deploy_placed,
    loaded_apps,
    profile_window_s,
    wished,
)
from fogctl.cli.app_view import profile_table, stage_details, stages_table
from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.cli.testbed import DryRunOption, WhichOption, which
from fogctl.errors import FAILED, FogError

if TYPE_CHECKING:
    from fogctl.runtime.deployment import Change
    from fogctl.runtime.operate import Apps

app = typer.Typer(
    help="Streaming apps on the nodes: deployed, scaled, watched, removed.", no_args_is_help=True
)


@app.command("list")
def list_apps(testbed: WhichOption = None, output: OutputOption = Format.table) -> None:
    """List the apps that come with fogctl and those that are deployed.

    \b
    Example:
      fogctl app list
    """
    from fogctl.runtime import app as apps

    deployed = {found.app: found for found in running_apps(testbed).deployments()} if _is_up(testbed) else {}
    rows = []
    for name, file in apps.shipped_apps().items():
        loaded = apps.load(file)
        stages = ", ".join(
            f"{stage.name} ({'+'.join(stage.inputs)} → {stage.output})" for stage in loaded.stages
        )
        where = deployed.get(name)
        nodes = "; ".join(",".join(stage.nodes) for stage in where.stages) if where else ""
        rows.append({"app": name, "stages": stages, "inputs": list(loaded.sources), "deployed": nodes})
    cells = [(row["app"], row["stages"], ", ".join(row["inputs"]), row["deployed"]) for row in rows]
    emit(output, rows, table(None, ("app", "stages", "inputs", "deployed on"), cells))


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The app's name.")],
    folder: Annotated[Path | None, typer.Option(help="Where to make it.  [default: ./NAME]")] = None,
) -> None:
    """Make a runnable app with its test: app.yaml, app.py, test_app.py.

    \b
    Example:
      fogctl app new heat && pytest heat
    """
    from fogctl.runtime.new_app import new_app

    made = new_app(folder or Path(name), name)
    typer.echo(f"made {', '.join(map(str, made))}; next: fogctl app deploy {folder or name} --on NODE,…")


@app.command()
def deploy(
    what: Annotated[
        list[str],
        typer.Argument(help="A shipped app's name, or a folder with an app.yaml; several with --place."),
    ],
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on", help="Nodes for every stage (pi1,pi3), or for one (nearest=pi1,pi3); repeatable."
        ),
    ] = None,
    place: PlaceOption = None,
    replicas: ReplicasOption = None,
    profile_files: ProfileOption = None,
    seed: SeedOption = None,
    slots: SlotsOption = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="STAGE.OPTION=VALUE",
            help="An option instead of app.yaml's (nearest.work=5000); repeatable.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Run an app on exactly these nodes, or on those that a strategy chooses; starts the broker if need be.

    With --place several apps are placed together, in one plan; --replicas and --set then name APP.STAGE.

    \b
    Examples:
      sudo fogctl app deploy taxi --on pi1,pi3
      sudo fogctl app deploy taxi3 --place auto --replicas measure=2 --profile taxi3.json
      sudo fogctl app deploy taxi3 nexmark-q5 --place auto --slots 2
      fogctl app deploy taxi3 --place auto --dry-run      (a testbed that is not up: without root)
      sudo fogctl app deploy taxi3 --on parse=pi1 --on measure=pi2,pi3 --on choose=pi4
      sudo fogctl app deploy taxi --on pi1 --set nearest.work=5000
    """
    every = loaded_apps(what, options or ())
    wish = wished(place, on, replicas, profile_files, seed, slots, every)
    if wish is not None:
        deploy_placed(every, wish, testbed, output, dry_run=dry_run)
        return
    (loaded,) = every
    nodes = _nodes_by_stage(on or (), [stage.name for stage in loaded.stages])
    found = running_apps(testbed)
    if dry_run:
        _, steps = found.plan(loaded, nodes)
        _would(output, steps)
        return
    began = time.monotonic()
    steps = found.deploy(loaded, nodes, _say)
    _done(output, steps, f"{loaded.name} runs", began)


@app.command()
def status(
    name: Annotated[str, typer.Argument(help="A deployed app.")],
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Show what each stage of an app does. Exit 1 if one does not run.

    \b
    Example:
      sudo fogctl app status taxi
    """
    found = running_apps(testbed)
    notes = found.ground.notes()
    data = {**found.status(name), "notes": notes}
    details = [*stage_details(data["stages"]), *(f"note: {note}" for note in notes)]
    emit(output, data, stages_table(name, data["stages"]), *details)
    for stage in data["stages"]:
        if stage["error"]:
            raise FogError(f"stage {stage['stage']}: {stage['error']}", exit_code=FAILED)
    if any(stage["state"] != "running" for stage in data["stages"]):
        raise typer.Exit(FAILED)


@app.command()
def profile(
    name: Annotated[str, typer.Argument(help="A deployed app, while records are sent to it.")],
    lasting: Annotated[str, typer.Option("--for", help="How long to look: 30s, 2min.")] = "30s",
    to: Annotated[Path | None, typer.Option(help="Save it there, for deploy --place.")] = None,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Measure what a record costs in each stage: CPU, state and output bytes. Kept for the agent.

    Exit 2 if the app is not deployed, 3 if a stage processed nothing meanwhile.

    \b
    Example:
      sudo fogctl app profile taxi3 --for 30s --to taxi3.json
    """
    from fogctl.placement.kept import keep
    from fogctl.placement.measure import measure
    from fogctl.placement.profile import write_profile

    window_s = profile_window_s(lasting)
    if to is not None and not to.absolute().parent.is_dir():
        raise FogError("the folder for it does not exist", file=to, key="--to")
    found = running_apps(testbed)
    with stderr().status("") as line:
        made = measure(found, name, window_s, lambda s: line.update(f"measuring: {s:.0f} of {window_s:g} s"))
    keep(found.ground.folder, made)
    if to is not None:
        write_profile(made, to)
    more = (
        [f"saved as {to}; next: fogctl app deploy {name} --place auto --profile {to} --dry-run"] if to else []
    )
    emit(output, made.model_dump(mode="json"), profile_table(made), *more)


@app.command()
def scale(
    name: Annotated[str, typer.Argument(help="A deployed app.")],
    stage: Annotated[str, typer.Argument(help="One of its stages.")],
    nodes: Annotated[str, typer.Option(help="The nodes it shall run on: pi1,pi2.")],
    dry_run: DryRunOption = False,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Have a running stage use exactly these nodes; others are added first, then the rest decommissioned.

    \b
    Example:
      sudo fogctl app scale taxi nearest --nodes pi1,pi2,pi3
    """
    began = time.monotonic()
    steps = running_apps(testbed).scale(name, stage, _names(nodes), _say, dry_run=dry_run)
    if dry_run:
        _would(output, steps)
        return
    _done(output, steps, f"{name}.{stage} runs on {nodes}", began)


@app.command()
def share(
    name: Annotated[str, typer.Argument(help="A deployed app.")],
    stage: Annotated[str, typer.Argument(help="One of its stages.")],
    amount: Annotated[str, typer.Argument(help="Share of a node's CPU: 60%.")],
    nodes: Annotated[str | None, typer.Option(help="Only on these nodes.")] = None,
    dry_run: DryRunOption = False,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Give a stage's replicas this share of their nodes, at once and without a pause.

    \b
    Example:
      sudo fogctl app share taxi nearest 60%
    """
    from fogctl.config.units import SHARE

    try:
        fraction = SHARE.parse(amount)
    except ValueError as error:
        raise FogError(str(error), key="amount") from error
    began = time.monotonic()
    chosen = _names(nodes) if nodes else None
    steps = running_apps(testbed).share(name, stage, fraction, chosen, dry_run=dry_run)
    if dry_run:
        _would(output, steps)
        return
    _done(output, steps, f"{name}.{stage} has {fraction:.0%}", began)


@app.command()
def logs(
    name: Annotated[str, typer.Argument(help="A deployed app.")],
    part: Annotated[str | None, typer.Argument(help="nearest.driver, nearest.executor.pi1, …")] = None,
    lines: Annotated[int, typer.Option("-n", help="How many lines from the end.")] = 40,
    testbed: WhichOption = None,
) -> None:
    """Show the end of a process's log; without a part, list the logs.

    \b
    Examples:
      sudo fogctl app logs taxi
      sudo fogctl app logs taxi nearest.driver -n 100
    """
    known = running_apps(testbed).ground.logs(name)
    if part is None:
        for each, log in known.items():
            size = "" if log.size_bytes is None else f"{log.size_bytes} bytes"
            typer.echo(f"{each}\t{size}\t{log.where}")
        return
    if part not in known:
        raise FogError(f"{name} has no log {part}", hint=f"it has: {', '.join(known) or 'none'}")
    for line in known[part].tail(lines):
        typer.echo(line)


@app.command()
def rm(
    name: Annotated[str, typer.Argument(help="A deployed app.")],
    keep_state: Annotated[bool, typer.Option("--keep-state", help="Keep topics and checkpoints.")] = False,
    dry_run: DryRunOption = False,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Stop an app and remove what it left, its state too unless that is kept.

    State that was kept is removed by the same command, when the app is gone already.

    \b
    Examples:
      sudo fogctl app rm taxi --dry-run
      sudo fogctl app rm taxi --keep-state
    """
    began = time.monotonic()
    steps = running_apps(testbed).remove(name, keep_state=keep_state, say=_say, dry_run=dry_run)
    if dry_run:
        _would(output, steps, () if keep_state else (f"remove the topics and checkpoints of {name}",))
        return
    gone = f"{name} is gone" + ("; its state is kept" if keep_state else "")
    took = round(time.monotonic() - began, 3)
    emit(output, {"changes": [step.describe() for step in steps], "seconds": took}, gone)


def running_apps(testbed: str | None) -> Apps:
    """The apps on the testbed that is meant; FogError if it is not up."""
    from fogctl.runtime.grounds import ground_of
    from fogctl.runtime.operate import Apps

    ground = ground_of(which(testbed).name)
    ground.attend()
    return Apps(ground)


def _is_up(testbed: str | None) -> bool:
    try:
        return which(testbed).exists
    except FogError:
        return False


def _nodes_by_stage(given: Sequence[str], stages: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in given:
        stage, equals, nodes = text.rpartition("=")
        if equals and stage not in stages:
            raise FogError(
                f"the app has no stage {stage}", key="--on", hint=f"its stages: {', '.join(stages)}"
            )
        for name in [stage] if equals else stages:
            found.setdefault(name, []).extend(node.strip() for node in nodes.split(",") if node.strip())
    if lacking := [stage for stage in stages if not found.get(stage)]:
        raise FogError(f"no nodes for {', '.join(lacking)}", key="--on", hint=f"--on {lacking[0]}=NODE,…")
    return found


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _would(output: Format, steps: Sequence[Change], more: Sequence[str] = ()) -> None:
    """What a dry run says."""
    lines = [*(step.describe() for step in steps), *more]
    emit(output, {"changes": lines, "dry_run": True}, *(lines or ["nothing to change: it is so already"]))


def _say(line: str) -> None:
    stderr().print(line, markup=False, highlight=False)


def _done(
    output: Format,
    steps: Sequence[Change],
    sentence: str,
    began: float,
    more: Mapping[str, Any] | None = None,
) -> None:
    took = time.monotonic() - began
    said = (
        f"{sentence}; {len(steps)} changes in {took:.1f} s"
        if steps
        else f"{sentence} already: nothing to change"
    )
    data = {"changes": [step.describe() for step in steps], "seconds": round(took, 3), **(more or {})}
    emit(output, data, said)
