"""The table of boards in docs/boards.md, made from the profiles: `python -m fogctl.config.board_table …`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from fogctl import data
from fogctl.config import boards as profiles
from fogctl.config.boards import Board
from fogctl.config.units import CLOCK, RATE, SIZE

BEGIN = "<!-- boards: made by python -m fogctl.config.board_table docs/boards.md -->"
END = "<!-- end of boards -->"
_HEAD = (
    "| name | board | cores | memory | network | idle / load | speed | in Pi 4 cores | memory cgroups |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def markdown(boards: Iterable[Board]) -> str:
    """The boards as a Markdown table."""
    return "\n".join([_HEAD, *(_row(board) for board in boards)])


def replaced(text: str, boards: Iterable[Board]) -> str:
    """`text` with what stands between the two markers made afresh."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the text has no table: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{markdown(boards)}\n{END}{after}"


def _row(board: Board) -> str:
    cells = (
        f"`{board.name}`",
        board.title,
        " + ".join(f"{part.count} × {part.core} {CLOCK.show(part.clock_hz)}" for part in board.cpu),
        SIZE.show(board.memory_bytes),
        RATE.show(board.nic_bit_s),
        f"{board.idle_watts:g} / {board.load_watts:g} W",
        f"{board.relative_speed:g}",
        f"{board.capacity:g}",
        " ".join(f"`{word}`" for word in board.kernel_cmdline) or "on by default",
    )
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    shipped = profiles.load_all([data.path("hardware")])
    target.write_text(replaced(target.read_text(encoding="utf-8"), shipped.values()), encoding="utf-8")
