"""`fogctl board`: what fogctl knows about kinds of machines."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fogctl.cli.output import Format, OutputOption, emit, table
from fogctl.config import boards as profiles
from fogctl.config.boards import Board
from fogctl.config.units import CLOCK, RATE, SIZE

app = typer.Typer(help="The kinds of machines a testbed can be made of.", no_args_is_help=True)


@app.command("list")
def list_boards(output: OutputOption = Format.table) -> None:
    """List all boards.

    \b
    Example:
      fogctl board list
    """
    known = list(profiles.load_all().values())
    columns = (
        "name",
        "board",
        "cores",
        "clock",
        "memory",
        "network",
        "idle W",
        "load W",
        "speed",
        "in Pi 4 cores",
    )
    rows = [
        (
            board.name,
            board.title,
            board.cores,
            CLOCK.show(board.clock_hz),
            SIZE.show(board.memory_bytes),
            RATE.show(board.nic_bit_s),
            f"{board.idle_watts:g}",
            f"{board.load_watts:g}",
            f"{board.relative_speed:g}",
            f"{board.capacity:g}",
        )
        for board in known
    ]
    note = "speed: of one core, a Raspberry Pi 4's being 1. Where figures come from: fogctl board show NAME"
    emit(output, [as_data(board) for board in known], table(None, columns, rows), note)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A board's name, as in testbed.yaml.", show_default=False)],
    output: OutputOption = Format.table,
) -> None:
    """Show one board: figures, where they come from, kernel settings, known traps.

    \b
    Example:
      fogctl board show rpi4-4g
    """
    board = profiles.find(name, profiles.load_all())
    rows: list[tuple[str, str]] = [("system on chip", f"{board.soc} ({board.arch})")]
    rows += [
        ("cores", f"{part.count} × {part.core}, {CLOCK.show(part.clock_hz)}, speed {part.relative_speed:g}")
        for part in board.cpu
    ]
    rows += [
        ("in Pi 4 cores", f"{board.capacity:g}"),
        ("memory", SIZE.show(board.memory_bytes)),
        ("network", f"{RATE.show(board.nic_bit_s)}, {board.nic_kind}"),
        ("power", f"{board.idle_watts:g} W idle, {board.load_watts:g} W all cores busy"),
        ("kernel command line", " ".join(board.kernel_cmdline) or "nothing needed for memory cgroups"),
    ]
    rows += [("trap", trap) for trap in board.traps]
    rows += [(f"source: {part.figure}", f"{part.kind}: {part.note}") for part in board.sources]
    emit(output, as_data(board), table(f"{board.name}: {board.title}", ("", ""), rows))


def as_data(board: Board) -> dict[str, Any]:
    """A board for JSON, units in the names."""
    return {
        "name": board.name,
        "title": board.title,
        "soc": board.soc,
        "arch": board.arch,
        "cores": board.cores,
        "clock_hz": board.clock_hz,
        "relative_speed": board.relative_speed,
        "pi4_cores": round(board.capacity, 6),
        "cpu": [
            {
                "count": part.count,
                "core": part.core,
                "clock_hz": part.clock_hz,
                "relative_speed": part.relative_speed,
            }
            for part in board.cpu
        ],
        "memory_bytes": board.memory_bytes,
        "nic_bit_s": board.nic_bit_s,
        "nic_kind": board.nic_kind,
        "idle_watts": board.idle_watts,
        "load_watts": board.load_watts,
        "kernel_cmdline": list(board.kernel_cmdline),
        "traps": list(board.traps),
        "sources": [{"figure": part.figure, "kind": part.kind, "note": part.note} for part in board.sources],
    }
