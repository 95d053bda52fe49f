"""A heat map of latencies for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Set

from rich.table import Table
from rich.text import Text

Pair = tuple[str, str]
_COLOURS = (
    (5, "white on dark_green"),
    (25, "white on green4"),
    (75, "black on gold3"),
    (150, "black on dark_orange3"),
    (1e12, "white on dark_red"),
)
MOST_NODES = 24
"""More nodes do not fit a terminal."""


def heat_map(
    title: str,
    nodes: tuple[str, ...],
    asked: Mapping[Pair, float],
    measured: Mapping[Pair, float | None] | None = None,
    wrong: Set[Pair] = frozenset(),
) -> Table | str:
    """One cell a pair, coloured by its RTT: above the diagonal what was asked, below it what was measured.

    Pairs that are wrong are marked with an exclamation mark, so that the map reads without colours too.
    """
    if len(nodes) > MOST_NODES:
        return f"{title}: {len(nodes)} nodes are too many for a terminal (--plot draws them)"
    made = Table("", *nodes, title=title, title_justify="left", padding=(0, 0), show_lines=False)
    for row, a in enumerate(nodes):
        cells = [Text(a)]
        for column, b in enumerate(nodes):
            if a == b:
                cells.append(Text("·", justify="center"))
                continue
            pair = (a, b) if row < column else (b, a)
            value = asked[pair] if measured is None or row < column else measured.get(pair)
            shown = "×" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}"
            mark = "!" if pair in wrong else ""
            cells.append(Text(f"{shown}{mark}".rjust(5), style=_colour(value)))
        made.add_row(*cells)
    return made


def _colour(value: float | None) -> str:
    if value is None:
        return "on grey23"
    return next(colour for limit, colour in _COLOURS if value <= limit)
