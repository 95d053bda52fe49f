"""`fogctl up`, `down`, `status`, `exec` and `doctor`: a testbed's life on this host, or on a cluster."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from fogctl.cli import kinds
from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.cli.testbed_view import escaped, status_view
from fogctl.errors import BAD_INPUT, FAILED, REFUSED, FogError, NoAnswerError
from fogctl.testbed import state
from fogctl.testbed.model import Kind, Testbed

if TYPE_CHECKING:
    from fogctl.testbed.build import Progress

app = typer.Typer(help="A testbed's life on this host.")

DEFAULT_FILE = Path("testbed.yaml")
SHOW_PROGRESS_AFTER_S = 2.0

FileOption = Annotated[
    Path | None,
    typer.Option("--testbed", "-t", help="The testbed's file.  [default: testbed.yaml]", show_default=False),
]
WhichOption = Annotated[
    str | None,
    typer.Option(
        "--testbed",
        "-t",
        help="A testbed's file, or the name of one that is up.  [default: testbed.yaml, or the only one up]",
        show_default=False,
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Change nothing; print the exact steps.")]


@app.command()
def up(
    testbed: FileOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.table,
) -> None:
    """Bring a testbed up, or mend one that is half-built; what is there already stays as it is.

    \b
    Examples:
      sudo fogctl up
      sudo fogctl up --testbed city.yaml
      sudo fogctl up --dry-run
      fogctl up --testbed lab.yaml       kind k3s: a cluster, no root needed
    """
    if (modelled := model(None if testbed is None else str(testbed))) is not None:
        nodes = [node.name for node in modelled.nodes]
        data = {"testbed": modelled.name, "dry_run": dry_run, "nodes": nodes, "latency": "modelled"}
        said = f"testbed {modelled.name} is a model (kind: sim): {len(nodes)} nodes, nothing to bring up"
        emit(
            output,
            {**data, "removed": [], "made": [], "steps": 0},
            escaped(said),
            escaped("next: fogctl status, fogctl net show, fogctl experiment run smoke --kind sim"),
        )
        return
    wanted = _load(testbed or DEFAULT_FILE)
    kind = kinds.kind_of(wanted, state.writable_state_dir())
    if dry_run:
        changes = kind.changes()
    else:
        with progress("bringing up") as show:
            changes = kind.up(show)
        if (trouble := kinds.trouble(kind)) is not None:
            stderr().print(f"note: {trouble}", markup=False)
    removed = [step.describe() for step in changes.removed]
    made = [step.describe() for step in changes.made]
    data = {
        "testbed": wanted.name,
        "dry_run": dry_run,
        "nodes": [node.name for node in wanted.nodes],
        "latency": changes.latency,
        "removed": removed,
        "made": made,
        "steps": changes.whole,
    }
    if dry_run:
        lines = [*(f"remove {what}" for what in removed), *(f"make {what}" for what in made)]
        emit(output, data, *map(escaped, lines or ["nothing to do: everything is there"]))
        return
    if not made and not removed:
        said = f"testbed {wanted.name} is up already: {len(wanted.nodes)} nodes, nothing to mend"
    else:
        parts = f"made {len(made)} of {changes.whole} parts" + (
            f", removed {len(removed)}" if removed else ""
        )
        said = f"testbed {wanted.name} is up: {len(wanted.nodes)} nodes; {parts}; {changes.latency}"
    emit(
        output,
        data,
        escaped(said),
        escaped(
            "next: fogctl status, fogctl doctor, fogctl app deploy taxi, fogctl down"
            if wanted.kind is Kind.k3s
            else "next: fogctl net verify, fogctl exec NODE -- COMMAND, fogctl down"
        ),
    )


@app.command()
def down(
    name: Annotated[
        str | None, typer.Argument(help="The name of a testbed that is up.", show_default=False)
    ] = None,
    testbed: WhichOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Every testbed on this host.")] = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="For real boards: afterwards give them back as they were.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --reset: do not ask.")] = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.table,
) -> None:
    """Take a testbed down and leave host or cluster as it was, also after fogctl was killed half-way.

    \b
    Examples:
      sudo fogctl down
      sudo fogctl down city
      sudo fogctl down --all
      sudo fogctl down --dry-run
      fogctl down lab --reset            real boards: then take k3s and the rest off them too
    """
    if everything and (name or testbed or reset):
        raise FogError("--all takes every testbed, so none can be named or reset", key="--all")
    parent = state.state_dir()
    folders = state.remembered(parent) if everything else [which(name or testbed, models=True)]
    boards = None
    if reset:
        from fogctl.cli import pi_reset

        boards = pi_reset.agreed(folders[0], name or testbed, yes=yes, dry_run=dry_run)
    done: list[dict[str, Any]] = []
    failures: list[FogError] = []
    for folder in folders:
        if dry_run:
            done.append({"testbed": folder.name, "dry_run": True, "removed": kinds.recorded(folder)})
            continue
        try:
            with progress(f"taking down {folder.name}") as show:
                removed = kinds.take_down(folder, show)
        except FogError as error:
            if boards is not None and isinstance(error, NoAnswerError):
                # A cluster that is away goes with its boards.
                stderr().print(f"note: {error}", markup=False, highlight=False, soft_wrap=True)
                done.append({"testbed": folder.name, "dry_run": False, "removed": []})
                continue
            if not everything:
                raise
            failures.append(error)
        else:
            done.append({"testbed": folder.name, "dry_run": False, "removed": removed})
    lines: list[Any] = []
    for entry in done:
        if dry_run:
            told = [f"remove {what}" for what in entry["removed"]]
            lines += map(escaped, told or [f"{entry['testbed']}: nothing to remove"])
        elif entry["removed"]:
            lines.append(f"testbed {entry['testbed']} is down: {len(entry['removed'])} parts removed")
        else:
            lines.append(f"testbed {entry['testbed']} was not up: nothing to remove")
    if boards is not None:
        outcome, view = pi_reset.give_back(boards, folders[0], dry_run=dry_run)
        done[0]["reset"] = outcome
        lines += view
    emit(output, done if everything else done[0], *(lines or ["no testbed is up"]))
    if boards is not None:
        pi_reset.stop_if_failed(done[0]["reset"]["failures"])
    if failures:
        raise FogError("; ".join(map(str, failures)), exit_code=failures[0].exit_code)


@app.command()
def status(
    name: Annotated[
        str | None, typer.Argument(help="The name of a testbed that is up.", show_default=False)
    ] = None,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Show a testbed's nodes and what they use; say what is missing. Exit 1 if it is down or half-built.

    \b
    Examples:
      fogctl status
      fogctl status city -o json
    """
    if (modelled := model(name or testbed)) is not None:
        from fogctl.sim import bed

        shown = bed.status(modelled)
        emit(output, dataclasses.asdict(shown), *status_view(shown))
        return
    folder = which(name or testbed)
    if not folder.exists:
        others = ", ".join(other.name for other in state.remembered(folder.folder.parent)) or "none"
        raise FogError(f"testbed {folder.name} is not up", hint=f"up: {others}", exit_code=FAILED)
    found = kinds.kind_of(folder.load().testbed, folder.folder.parent).status()
    emit(output, dataclasses.asdict(found), *status_view(found))
    if found.state != "up":
        raise typer.Exit(FAILED)


@app.command("exec")
def execute(
    node: Annotated[str, typer.Argument(help="The node to run on.")],
    command: Annotated[list[str], typer.Argument(help="After --, the command and its arguments.")],
    testbed: WhichOption = None,
) -> None:
    """Run a command on a node: its network, names, CPU and memory. Signals and exit code pass through.

    \b
    Examples:
      sudo fogctl exec pi1 -- ping -c 3 pi2
      sudo fogctl exec pi1 -- bash
      sudo fogctl exec pi1 --testbed city -- python3 -m http.server
    """
    from fogctl.testbed.enter import become_or_exit
    from fogctl.testbed.running import Running
    from fogctl.testbed.virtual import require_root

    folder = which(testbed)
    if folder.kind is Kind.k3s:
        raise kinds.no_exec(folder, node)
    running = Running.load(folder.name)
    place = running.namespace(node), node, running.part_groups(node)
    require_root()
    sys.stdout.flush()
    become_or_exit(*place, command)


@app.command()
def doctor(
    fetch: Annotated[
        bool,
        typer.Option("--fetch", help="Only fetch the jars of Kafka and Spark's connector, ahead of time."),
    ] = False,
    output: OutputOption = Format.table,
) -> None:
    """Say what this machine offers for testbeds, what it lacks, what was left behind, and how to mend each.

    Of testbeds on a cluster it also proves what their account may and may not do there.

    \b
    Examples:
      sudo fogctl doctor
      fogctl doctor -o json
      sudo fogctl doctor --fetch
    """
    from fogctl.runtime import jar_supply
    from fogctl.testbed.doctor import Verdict, examine

    if fetch:
        with progress("fetching jars") as show:
            supply = jar_supply.fetch_all(show)
        said = (
            f"fetched {len(supply.fetched)} of {supply.jars} jars" if supply.fetched else "nothing to fetch"
        )
        emit(
            output,
            dataclasses.asdict(supply),
            escaped(f"{said}: all {supply.jars} are in {supply.cache}; no network is needed from now on"),
        )
        return
    findings = examine()
    findings.insert(-1, jar_supply.finding())
    findings += kinds.clusters()
    rows = [(finding.about, finding.verdict.value, finding.says, finding.fix) for finding in findings]
    emit(
        output,
        [dataclasses.asdict(finding) for finding in findings],
        table(None, ("what", "", "found", "how to mend it"), [tuple(map(escaped, row)) for row in rows]),
    )
    if any(finding.verdict is Verdict.problem for finding in findings):
        raise typer.Exit(FAILED)


def _load(file: Path) -> Testbed:
    """The testbed a file describes, if it can be brought up from this machine."""
    from fogctl.config import testbed

    wanted = testbed.load(file)
    if wanted.kind is Kind.virtual and sys.platform != "linux":
        raise FogError("virtual nodes need Linux", hint="use kind: sim here", exit_code=REFUSED)
    return wanted


def model(given: str | None) -> Testbed | None:
    """The testbed meant, if it is a file of kind sim; None if it is another, or no file at all."""
    file = DEFAULT_FILE if given is None else Path(given)
    if not file.is_file() or _said_in(file, "kind") != Kind.sim.value:
        return None
    from fogctl.config import testbed

    return testbed.load(file)


def which(given: str | None, *, models: bool = False) -> state.StateFolder:
    """The testbed meant: a file, the name of one that is up, ./testbed.yaml, or the only one up.

    A model is refused with what to do instead, unless `models`: most commands need nodes that exist.
    """
    parent = state.state_dir()
    if given is not None and not Path(given).exists() and state.NAME.fullmatch(given):
        return state.StateFolder.of(given, parent)
    remembered = state.remembered(parent)
    if given is None and not DEFAULT_FILE.exists():
        if len(remembered) == 1:
            return remembered[0]
        names = ", ".join(folder.name for folder in remembered)
        raise FogError(
            "there is no testbed.yaml here, and "
            + ("several testbeds are up" if names else "no testbed is up"),
            hint=f"name one of: {names}" if names else "fogctl init makes one",
        )
    file = Path(given) if given else DEFAULT_FILE
    name = _name_in(file)
    if not models and _said_in(file, "kind") == Kind.sim.value:
        from fogctl.sim import bed

        raise bed.no_machine(name)
    return state.StateFolder.of(name, parent)


def _name_in(file: Path) -> str:
    """The name a testbed file gives, even if the rest no longer fits: taking down must stay possible."""
    name = _said_in(file, "name")
    if not isinstance(name, str):
        raise FogError(
            "no name", file=file, key="name", hint="name the testbed: fogctl down NAME", exit_code=BAD_INPUT
        )
    return name


def _said_in(file: Path, key: str) -> object:
    """What a testbed file says under a key, whatever the rest says."""
    from fogctl.config import source

    data = source.read(file, "testbed").data
    return data.get(key) if isinstance(data, dict) else None


@contextmanager
def progress(title: str) -> Iterator[Progress]:
    """A bar on standard error for what takes longer than two seconds."""
    columns = (TextColumn(title), BarColumn(), TextColumn("{task.completed}/{task.total} {task.description}"))
    bar = Bar(*columns, console=stderr(), transient=True)
    task = bar.add_task("", total=None)
    started = time.monotonic()
    shown = False

    def show(done: int, total: int, doing: str) -> None:
        nonlocal shown
        if not shown and time.monotonic() - started > SHOW_PROGRESS_AFTER_S:
            bar.start()
            shown = True
        if shown:
            bar.update(task, completed=done, total=total, description=escaped(doing))

    try:
        yield show
    finally:
        if shown:
            bar.stop()
