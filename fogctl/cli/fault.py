"""`fogctl fault`: parts of a running testbed killed, cut off or slowed down on purpose, and restored."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogctl.cli.output import Format, OutputOption, emit, table
from fogctl.cli.testbed import DryRunOption, WhichOption, which
from fogctl.config.units import INSTANT, SHARE
from fogctl.errors import FogError

if TYPE_CHECKING:
    from fogctl.runtime.fault_record import Fault
    from fogctl.testbed.running import Running

app = typer.Typer(
    help="Faults on purpose: nodes, processes and links killed, cut, slowed down, and restored.",
    no_args_is_help=True,
)

ForOption = Annotated[
    str | None, typer.Option("--for", help="Restore it by itself after this long: 30s.", show_default=False)
]


@app.command()
def kill(
    what: Annotated[
        list[str],
        typer.Argument(
            help="NODE, or one of: node NODE, executor NODE, driver APP.STAGE, "
            "master APP.STAGE, broker, bridge, delay-line.",
            metavar="WHAT [WHERE]",
        ),
    ],
    lasting: ForOption = None,
    dry_run: DryRunOption = False,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Take the power from a node, or kill -9 a process.

    A node stays down until it is restored. A process is started again at once by the testbed's supervisor,
    unless --for keeps it down. A node called like a kind of process is meant by: node NAME.

    \b
    Examples:
      sudo fogctl fault kill pi1
      sudo fogctl fault kill pi1 --for 30s
      sudo fogctl fault kill broker
      sudo fogctl fault kill executor pi2
      sudo fogctl fault kill driver taxi.nearest
      sudo fogctl fault kill delay-line --for 5s
    """
    from fogctl.runtime import faults

    running = _running(testbed, dry_run)
    target, fault = faults.killing(running, what, _seconds(lasting))
    if not dry_run:
        faults.kill(running, target, fault)
    after = _restored_by(fault) if fault else "the supervisor starts it again"
    _tell(output, running, dry_run, [target.describe()], after)


@app.command()
def cut(
    a: Annotated[str, typer.Argument(help="One node.")],
    b: Annotated[
        str | None, typer.Argument(help="The other node; without it, every link of the first.")
    ] = None,
    lasting: ForOption = None,
    dry_run: DryRunOption = False,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Lose every packet between two nodes, both ways; the management network stays free.

    \b
    Examples:
      sudo fogctl fault cut pi1 broker
      sudo fogctl fault cut pi1 cloud --for 30s
      sudo fogctl fault cut pi1
    """
    from fogctl.runtime import faults

    running = _running(testbed, dry_run)
    planned = faults.cutting(running, a, b, _seconds(lasting))
    if not dry_run:
        faults.cut(running, planned)
    described = [f"{fault.target[0]}–{fault.target[1]}: lose every packet, both ways" for fault in planned]
    whole = f"fogctl fault restore {a}" if b is None else None
    _tell(output, running, dry_run, described, _restored_by(planned[0], whole))


@app.command()
def slow(
    node: Annotated[str, typer.Argument(help="The node.")],
    cpu: Annotated[str, typer.Option(help="The share of its own CPU quota that is left to it: 20%.")],
    lasting: ForOption = None,
    dry_run: DryRunOption = False,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Leave a node only a share of its CPU quota, as a hot Pi does to itself.

    \b
    Examples:
      sudo fogctl fault slow pi1 --cpu 20%
      sudo fogctl fault slow pi1 --cpu 50% --for 2min
    """
    from fogctl.runtime import faults

    running = _running(testbed, dry_run)
    fault = faults.slowing(running, node, _parsed("--cpu", cpu, SHARE.parse), _seconds(lasting))
    if not dry_run:
        faults.slow(running, fault)
    cores = running.node(node).cpu_cores or 0.0
    share = fault.now["share"]
    said = f"node {node}: {share:.0%} of its quota, {share * cores:.3f} instead of {cores:.3f} cores"
    _tell(output, running, dry_run, [said], _restored_by(fault))


@app.command()
def restore(
    what: Annotated[
        list[str] | None,
        typer.Argument(help="What to restore, as `fault list` names it; without it, everything."),
    ] = None,
    dry_run: DryRunOption = False,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Put things right: a node has power again, a link its own path, a slow node its quota.

    \b
    Examples:
      sudo fogctl fault restore
      sudo fogctl fault restore pi1
      sudo fogctl fault restore pi1 broker
      sudo fogctl fault restore delay-line
    """
    from fogctl.runtime import faults

    running = _running(testbed, dry_run)
    dead_line = what in (None, [], ["delay-line"]) and faults.delay_line_is_missing(running)
    try:
        found = faults.restoring(running, what or [])
    except FogError:
        if not dead_line:
            raise
        found = []
    if not dry_run:
        for fault in found:
            running = faults.restore(running, fault)
        if dead_line and faults.delay_line_is_missing(running):
            faults.start_delay_line(running)
    described = [f"restore {fault.name}: {fault.describe()} no longer" for fault in found]
    if dead_line and not any(fault.kind.value == "delay-line" for fault in found):
        described.append("start the delay line, which did not run")
    _tell(output, running, dry_run, described, None)


@app.command("list")
def list_faults(testbed: WhichOption = None, output: OutputOption = Format.table) -> None:
    """List the faults that are active, and what the supervisor cannot start.

    \b
    Examples:
      sudo fogctl fault list
      sudo fogctl fault list -o json
    """
    from fogctl.runtime import fault_record, supervisor_report

    running = _running(testbed)
    active = fault_record.read(running.state.folder)
    troubles = supervisor_report.troubles(running)
    data = {
        "testbed": running.testbed.name,
        "faults": [
            {
                "kind": fault.kind.value,
                "name": fault.name,
                "says": fault.describe(),
                "at_s": fault.at_s,
                "until_s": fault.until_s,
            }
            for fault in active
        ],
        "troubles": troubles,
    }
    rows = [
        (fault.name, fault.describe(), _clock(fault.at_s), _clock(fault.until_s) if fault.until_s else "–")
        for fault in active
    ]
    lines: list[Any] = [
        table("active faults", ("name", "what", "since", "until"), rows) if rows else "no fault is active"
    ]
    emit(output, data, *lines, *troubles)


def _running(testbed: str | None, dry_run: bool = False) -> Running:
    from fogctl.runtime import supervised
    from fogctl.testbed.running import Running
    from fogctl.testbed.virtual import require_root

    running = Running.load(which(testbed).name)
    require_root()
    if not dry_run:
        supervised.wake(running)
    return running


def _tell(
    output: Format, running: Running, dry_run: bool, described: Sequence[str], after: str | None
) -> None:
    data = {"testbed": running.testbed.name, "dry_run": dry_run, "did": list(described), "after": after}
    emit(output, data, *described, *([after] if after and not dry_run else []))


def _restored_by(fault: Fault, command: str | None = None) -> str:
    if fault.until_s is not None:
        return f"until {_clock(fault.until_s)}, then it is restored"
    return f"until: {command or f'fogctl fault restore {fault.name}'}"


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    seconds = _parsed("--for", text, INSTANT.parse)
    if seconds <= 0:
        raise FogError("a fault lasts longer than 0 s", key="--for")
    return seconds


def _parsed(option: str, text: str, parse: Callable[[object], float]) -> float:
    try:
        return parse(text)
    except ValueError as error:
        raise FogError(str(error), key=option) from None


def _clock(at_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_s))
