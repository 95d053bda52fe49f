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
from fogctl.testbed.model import Kind

if TYPE_CHECKING:
    from fogctl.runtime.fault_record import Fault
    from fogctl.runtime.ground import Ground
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

    On a cluster a killed node loses every pod of the testbed and gets none; its board keeps its power.
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
    from fogctl.runtime.breakers import breaker_of

    ground = _ground(testbed, dry_run)
    breaker = breaker_of(ground)
    target, fault = breaker.killing(what, _seconds(lasting))
    if not dry_run:
        breaker.kill(target, fault)
    after = _restored_by(fault) if fault else "it is started again at once"
    _tell(output, ground, dry_run, [breaker.describe(target)], after)


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
    from fogctl.runtime.breakers import breaker_of

    ground = _ground(testbed, dry_run)
    breaker = breaker_of(ground)
    planned = breaker.cutting(a, b, _seconds(lasting))
    if not dry_run:
        breaker.cut(planned)
    described = [f"{fault.target[0]}–{fault.target[1]}: lose every packet, both ways" for fault in planned]
    whole = f"fogctl fault restore {a}" if b is None else None
    _tell(output, ground, dry_run, described, _restored_by(planned[0], whole))


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
    from fogctl.runtime.breakers import breaker_of

    ground = _ground(testbed, dry_run)
    breaker = breaker_of(ground)
    fault = breaker.slowing(node, _parsed("--cpu", cpu, SHARE.parse), _seconds(lasting))
    if not dry_run:
        breaker.slow(fault)
    cores, share = ground.testbed.require(node).cpu_cores, fault.now["share"]
    said = f"node {node}: {share:.0%} of its quota"
    if cores is not None:
        said += f", {share * cores:.3f} instead of {cores:.3f} cores"
    _tell(output, ground, dry_run, [said], _restored_by(fault))


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
    from fogctl.runtime.breakers import breaker_of

    ground = _ground(testbed, dry_run)
    breaker = breaker_of(ground)
    dead_line = what in (None, [], ["delay-line"]) and _delay_line_is_missing(ground)
    try:
        found = breaker.restoring(what or [])
    except FogError:
        if not dead_line:
            raise
        found = []
    if not dry_run:
        for fault in found:
            breaker.restore(fault)
        if dead_line and _delay_line_is_missing(ground):
            _start_delay_line(ground)
    described = [f"restore {fault.name}: {fault.describe()} no longer" for fault in found]
    if dead_line and not any(fault.kind.value == "delay-line" for fault in found):
        described.append("start the delay line, which did not run")
    _tell(output, ground, dry_run, described, None)


@app.command("list")
def list_faults(testbed: WhichOption = None, output: OutputOption = Format.table) -> None:
    """List the faults that are active, and what the supervisor cannot start.

    \b
    Examples:
      sudo fogctl fault list
      sudo fogctl fault list -o json
    """
    from fogctl.runtime import fault_record

    ground = _ground(testbed)
    active = fault_record.read(ground.folder)
    troubles = _troubles(ground)
    data = {
        "testbed": ground.testbed.name,
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


def _ground(testbed: str | None, dry_run: bool = False) -> Ground:
    from fogctl.runtime.grounds import ground_of

    ground = ground_of(which(testbed).name)
    ground.attend()
    if not dry_run and ground.testbed.kind is Kind.virtual:
        from fogctl.runtime import supervised

        supervised.wake(_emulated(ground))  # it ends faults in time, whether anything else runs or not
    return ground


def _troubles(ground: Ground) -> list[str]:
    """What cannot be started: told by the supervisor, or by the cluster."""
    from fogctl.runtime import fault_record, supervisor_report

    if ground.testbed.kind is Kind.k3s:
        return ground.notes()[len(fault_record.read(ground.folder)) :]

    return supervisor_report.troubles(_emulated(ground))


def _delay_line_is_missing(ground: Ground) -> bool:
    from fogctl.runtime import faults

    return ground.testbed.kind is Kind.virtual and faults.delay_line_is_missing(_emulated(ground))


def _start_delay_line(ground: Ground) -> None:
    from fogctl.runtime import faults

    faults.start_delay_line(_emulated(ground))


def _emulated(ground: Ground) -> Running:
    from fogctl.testbed.running import Running

    return Running.load(ground.testbed.name, ground.folder.parent)


def _tell(output: Format, ground: Ground, dry_run: bool, described: Sequence[str], after: str | None) -> None:
    data = {"testbed": ground.testbed.name, "dry_run": dry_run, "did": list(described), "after": after}
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
