"""A capacity plan as one HTML page: what each rate needs, the pictures, and what was measured."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fogctl.planner.capacity_plan import HEADS, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#000;"
    "background:#fff}table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}"
    "caption{text-align:left;font-weight:600;padding:.25rem 0}"
    "td,th{padding:.25rem .6rem;border-bottom:1px solid #999;text-align:right}"
    "th{border-bottom:2px solid #000}td.words,th.words{text-align:left}"
    "svg{max-width:100%;height:auto}figure{margin:1rem 0}.wide{overflow-x:auto}"
    "@media print{body{margin:0;max-width:none}figure,tr{break-inside:avoid}.wide{overflow:visible}}"
)
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_WORDS = ("tasks", "board")


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell shows, and the exact figure it shows, by its place in the plan's JSON."""

    text: str
    key: str | None = None
    value: Any = None
    words: bool = False


def page(plan: Mapping[str, Any], figures: Mapping[str, Figure]) -> str:
    """The whole page; nothing is loaded from elsewhere. `figures` are by what they show."""
    title = html.escape(f"Capacity plan of {plan['app']}")
    needs = _table(
        f"With {plan['headroom']:.0%} headroom; intervals of {plan['confidence']:.0%}",
        [Cell(head, words=name in _WORDS) for name, head in HEADS.items()],
        [_need(place, row, plan["max_slots"]) for place, row in enumerate(plan["rows"])],
    )
    seen = _table(
        f"{len(plan['measured'])} budgets, in the order they were measured",
        [
            Cell("slots"), Cell("memory MB"), Cell("sustained /s"), Cell("at most above"),
            Cell("tasks of each stage", words=True),
        ],
        [_seen(place, row) for place, row in enumerate(plan["measured"])],
    )  # fmt: skip
    drawn = "".join(
        f"<figure>{_svg(figure, f'p{place}-')}<figcaption>{html.escape(said)}</figcaption></figure>"
        for place, (said, figure) in enumerate(figures.items())
    )
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in plan["notes"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><h1>{title}</h1><h2>What each rate needs</h2>{needs}"
        f"<p>{html.escape(plan['verdict'])}</p><ul>{notes}</ul>{drawn}"
        f"<h2>What was measured</h2>{seen}</body></html>\n"
    )


def _need(place: int, row: Mapping[str, Any], max_slots: int) -> list[Cell]:
    exact = dict(row) | {
        "interval": [row["low"], row["high"]],
        "boards_interval": [row["boards_low"], row["boards_high"]],
    }
    return [
        Cell(text, f"rows.{place}.{name}", exact[name], name in _WORDS)
        for name, text in shown(dict(row), max_slots).items()
    ]


def _seen(place: int, row: Mapping[str, Any]) -> list[Cell]:
    tasks = ", ".join(f"{name} {count}" for name, count in row["tasks"].items())
    texts = {
        "task_slots": f"{row['task_slots']}",
        "memory_mb": f"{row['memory_mb']:g}",
        "mst": f"{row['mst']:,.4g}",
        "error": "" if row["error"] is None else f"+{row['error']:.0%}",
        "tasks": tasks or "not known",
    }
    return [Cell(text, f"measured.{place}.{name}", row[name], name in _WORDS) for name, text in texts.items()]


def _table(caption: str, head: Sequence[Cell], rows: Iterable[Sequence[Cell]]) -> str:
    lines = [f"<tr>{''.join(_cell('th', cell) for cell in head)}</tr>"]
    lines += [f"<tr>{''.join(_cell('td', cell) for cell in row)}</tr>" for row in rows]
    said = html.escape(caption)
    return f'<div class="wide"><table><caption>{said}</caption>{"".join(lines)}</table></div>'


def _cell(tag: str, cell: Cell) -> str:
    marks = ' class="words"' if cell.words else ""
    if cell.key is not None:
        value = html.escape(json.dumps(cell.value), quote=True)
        marks += f' data-key="{cell.key}" data-value="{value}"'
    return f"<{tag}{marks}>{html.escape(cell.text)}</{tag}>"


def _svg(figure: Figure, prefix: str) -> str:
    """The picture as part of the page; shapes it shares are named by the prefix, so that two do not mix."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": f"fogctl{prefix}", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata=_NO_METADATA)
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]
