"""A capacity plan as one HTML page: what each rate needs, the picture, and what was measured."""

from __future__ import annotations

import html
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fogctl.planner.explorer import Measured
from fogctl.planner.purchase import Purchase

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .75rem;border-bottom:1px solid #ccc;"
    "text-align:right}th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}"
)


def page(
    title: str,
    board: str,
    purchases: Sequence[Purchase],
    measured: Sequence[Measured],
    verdict: str,
    figure: Figure,
) -> str:
    """The whole page; nothing is loaded from elsewhere."""
    wants = ("rate /s", "memory MB", "slots", "interval", "tasks of each stage", f"{board}", "watts")
    seen = ("slots", "memory MB", "sustained /s", "error", "tasks of each stage")
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>"
        f"<h2>What each rate needs</h2>{_table(wants, map(_purchase, purchases))}"
        f"<p>{html.escape(verdict)}</p>{_svg(figure)}"
        f"<h2>What was measured</h2>{_table(seen, map(_measured, measured))}</html>\n"
    )


def _purchase(each: Purchase) -> Sequence[str]:
    slots, boards = (("more than was looked at" if n is None else f"{n}") for n in (each.slots, each.boards))
    low, high = ("?" if n is None else f"{n}" for n in (each.low, each.high))
    watts = "" if each.watts is None else f"{each.watts:.0f}"
    asked = (f"{each.rate:,.10g}", f"{each.memory_mb:g}")
    return (*asked, slots, f"{low} to {high}", _tasks(each.tasks), boards, watts)


def _measured(each: Measured) -> Sequence[str]:
    error = "" if each.error is None else f"+{each.error:.0%}"
    return (
        f"{each.task_slots}", f"{each.memory_mb:g}", f"{each.mst:,.4g}", error, _tasks(each.tasks),
    )  # fmt: skip


def _tasks(tasks: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in tasks.items())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [
        "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
        for tag, cells in [("th", head), *(("td", row) for row in rows)]
    ]
    return f"<table>{''.join(lines)}</table>"


def _svg(figure: Figure) -> str:
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "fogctl", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]
