"""`fogctl plan boards`: what each rate needs, down to boards and watts, as table, JSON and page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fogctl.cli.output import Format, OutputOption, emit, table
from fogctl.errors import FAILED, FogError

if TYPE_CHECKING:
    from fogctl.config.boards import Board


def boards(
    where: Annotated[
        Path,
        typer.Argument(
            help="Folder of fogctl plan explore, or a CSV with task_slots, memory_mb, mst.",
            show_default=False,
        ),
    ],
    rate: Annotated[
        str, typer.Option(help="Events per second to sustain, one or more: 2000,2.5e4", show_default=False)
    ],
    board: Annotated[
        list[str] | None,
        typer.Option("--board", help="A board of fogctl board list; repeat to compare. [default: rpi4-4g]"),
    ] = None,
    memory_mb: Annotated[
        str | None,
        typer.Option("--memory-mb", help="Heaps to plan for: 512; all measured if not given."),
    ] = None,
    slot_speed: Annotated[str, typer.Option(help="A slot as measured, in cores of a Raspberry Pi 4.")] = "1",
    headroom: Annotated[str, typer.Option(help="Ask the model for this much more.")] = "10%",
    confidence: Annotated[str, typer.Option(help="Of the intervals.")] = "90%",
    max_slots: Annotated[int, typer.Option(min=1, help="Look no further than this.")] = 5000,
    page: Annotated[
        Path | None, typer.Option("--page", help="Write it as a page: FILE.html", show_default=False)
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Say what each rate needs: slots, tasks of each stage, memory, boards to buy, watts.

    From what `fogctl plan explore` has measured, also of one that is not finished. Intervals cover every
    family of curves the data cannot rule out. The page holds everything and loads nothing.
    Exit code 1: a rate is not reached within --max-slots.

    \b
    Examples:
      fogctl plan boards q5 --rate 5000,20000 --board rpi4-4g --board rpi5-8g --page q5.html
      fogctl plan boards observations.csv --rate 2.5e6 --memory-mb 2048 -o json
    """
    from fogctl.cli.plan import fraction, number_of, numbers
    from fogctl.planner.capacity_plan import HEADS, Question, model_of, plan, shown
    from fogctl.planner.kept import read

    rates = tuple(sorted(set(numbers("--rate", rate))))
    spare, sure = fraction("--headroom", headroom), fraction("--confidence", confidence)
    speed = number_of("--slot-speed", slot_speed)
    chosen = _boards(board or ["rpi4-4g"])
    known = read(where)
    sizes = known.memory_sizes_mb
    wanted = sizes if memory_mb is None else tuple(numbers("--memory-mb", memory_mb))
    if known.stages and (unknown := [size for size in wanted if known.profile(size) is None]):
        raise FogError(
            f"{unknown[0]:g} MB was not measured",
            key="--memory-mb",
            hint=f"measured: {', '.join(f'{size:g}' for size in sizes)}",
        )
    model = model_of(known)
    try:
        found = plan(known, model, Question(rates, chosen, wanted, speed, spare, sure, max_slots))
    except ValueError as error:
        raise FogError(str(error).removesuffix(".")) from None
    if page is not None:
        from fogctl.planner.page import page as whole_page
        from fogctl.planner.picture import draw_capacity

        figures = {
            f"Throughput over slots with {size:g} MB": draw_capacity(model, rates, size, spare, sure)
            for size in wanted
        }
        _write(page, whole_page(found, figures))
    rows = [tuple(shown(row, max_slots).values()) for row in found["rows"]]
    emit(
        output,
        found,
        table(None, tuple(HEADS.values()), rows),
        found["verdict"],
        *(f"- {note}" for note in found["notes"]),
        *([] if page is None else [f"wrote {page}"]),
    )
    if any(row["slots"] is None for row in found["rows"]):
        raise typer.Exit(FAILED)


def _boards(names: list[str]) -> tuple[Board, ...]:
    from fogctl.config import boards as profiles

    known = profiles.load_all()
    return tuple(profiles.find(name, known) for name in dict.fromkeys(names))


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FogError(f"cannot be written: {error.strerror}", file=file, exit_code=FAILED) from None
