"""How every figure is drawn: colours and dashes that survive print and colour blindness, SVG and PNG out."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fogctl.errors import FAILED, FogError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Vector = NDArray[np.float64]

# Okabe and Ito's colours, each with dashes of its own: told apart without colour as well.
INK = "#1b1f24"
GREY = "#6b7280"
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
)
CYCLE: tuple[tuple[str, Any], ...] = (
    (BLUE, "-"),
    (VERMILION, (0, (5, 1.5))),
    (GREEN, (0, (1, 1))),
    (PURPLE, (0, (6, 1.5, 1, 1.5))),
    (ORANGE, (0, (3, 1, 1, 1, 1, 1))),
    (SKY, (0, (8, 2))),
    (INK, (0, (2, 2))),
)
MOST_POINTS = 300
# What matplotlib calls its parts; nothing refers to these ids, and two figures on a page share them.
_OWN_IDS = re.compile(
    r' id="(?:figure|axes|patch|line2d|matplotlib|text|xtick|ytick|legend|QuadMesh|AxesImage'
    r'|(?:FillBetweenPoly|Poly|Line|Path)Collection)[\w.]*"'
)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure with what a reader who cannot see it, or points at it, needs."""

    name: str
    title: str
    description: str
    figure: Figure
    probe: dict[str, Any] = field(default_factory=dict)
    """What pointing shows: the panels' place, the times, and the series' values."""
    marks: tuple[tuple[str, str], ...] = ()
    """Elements by their id, with the text that pointing at them shows."""

    def svg(self) -> str:
        """The figure as an SVG element, with title and description, no fonts and no dates."""
        stream = io.StringIO()
        with _settings():
            self.figure.savefig(stream, format="svg", metadata={"Date": None})
        text = stream.getvalue()
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        # Scales with the page; the ids of several figures on one page must differ.
        text = re.sub(r'\b(width|height)="[\d.]+pt"', "", text, count=2)
        text = _OWN_IDS.sub("", text)
        text = _compact(text)
        opened = text.index(">") + 1
        head = text[: opened - 1] + f' role="img" aria-labelledby="{self.name}-title {self.name}-desc">'
        named = (
            f'<title id="{self.name}-title">{html.escape(self.title)}</title>'
            f'<desc id="{self.name}-desc">{html.escape(self.description)}</desc>'
        )
        body = text[opened:]
        for mark, said in self.marks:
            body = body.replace(
                f'<g id="{mark}">',
                f'<g id="{mark}" class="mark" tabindex="0"><title>{html.escape(said)}</title>',
            )
        return head + named + body

    def save(self, folder: Path) -> list[Path]:
        """The figure as NAME.svg and NAME.png in a folder."""
        made = [folder / f"{self.name}.svg", folder / f"{self.name}.png"]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            made[0].write_text('<?xml version="1.0" encoding="utf-8"?>\n' + self.svg(), encoding="utf-8")
            with _settings():
                self.figure.savefig(made[1], dpi=160)
        except OSError as error:
            raise FogError(f"cannot be written: {error.strerror}", file=folder, exit_code=FAILED) from None
        return made


def new_figure(width: float, height: float, margins: Mapping[str, float] | None = None) -> Figure:
    """An empty figure that belongs to no window; with fixed margins, or those that its labels need."""
    from matplotlib.figure import Figure

    if margins is None:
        return Figure(figsize=(width, height), layout="constrained")
    figure = Figure(figsize=(width, height))
    figure.subplots_adjust(**margins)
    return figure


def _settings() -> Any:
    from matplotlib import rc_context

    return rc_context({"svg.fonttype": "none", "svg.hashsalt": "fogctl", "font.family": "sans-serif"})


def _compact(text: str) -> str:
    """Numbers with one decimal (of a point) and no space around tags: half the size, the same picture."""
    text = re.sub(r"(\d+\.\d)\d+", r"\1", text)
    return re.sub(r">\s+<", "><", text)


def tidy(axes: Any) -> None:
    """Light grid, no box, small ticks."""
    axes.grid(True, axis="y", color="#e5e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#9ca3af")
    axes.tick_params(labelsize=8, colors=INK, length=3)


def thinned(at_s: Vector, *columns: Vector, most: int = MOST_POINTS) -> tuple[Vector, ...]:
    """The series in at most so many buckets: the first time of each and the mean of its values."""
    if at_s.size <= most:
        return (at_s, *columns)
    edges = np.linspace(0, at_s.size, most + 1).astype(int)
    counts = np.diff(edges)
    return (at_s[edges[:-1]], *(np.add.reduceat(column, edges[:-1]) / counts for column in columns))


def stepped(at_s: Vector, values: Vector) -> tuple[Vector, Vector]:
    """Only the instants at which a step function changes, and the last one: exact, and small."""
    if at_s.size < 3:
        return at_s, values
    keep = np.concatenate([[True], np.diff(values) != 0])
    keep[-1] = True
    return at_s[keep], values[keep]


def spans(at_s: Vector, flag: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """The stretches of time in which a flag is set."""
    padded = np.concatenate([[False], flag, [False]])
    starts = np.flatnonzero(~padded[:-1] & padded[1:])
    ends = np.flatnonzero(padded[:-1] & ~padded[1:])
    last = at_s.size - 1
    return [
        (float(at_s[a]), float(at_s[min(int(b), last)]))
        for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def panels(figure: Figure) -> list[list[float]]:
    """Where each panel of a figure with fixed margins is, as fractions: left, top, width, height."""
    return [
        [round(float(value), 5) for value in (box.x0, 1 - box.y1, box.width, box.height)]
        for box in (axes.get_position() for axes in figure.axes)
    ]
