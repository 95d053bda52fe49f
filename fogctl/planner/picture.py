"""A capacity model as a picture: what was measured, what each family makes of it, and how far they part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from fogmodels.capacity import FAMILIES, CapacityModel

from fogctl.errors import FAILED, FogError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Told apart by colour-blind readers and in print by their dashes.
STYLES = {"linear": ("#0072B2", "-"), "sqrt": ("#E69F00", "--"), "log": ("#009E73", "-.")}


def draw_capacity(
    model: CapacityModel, rates: Sequence[float], memory_mb: float | None, headroom: float, confidence: float
) -> Figure:
    """Throughput over task slots on logarithmic axes, out to where the rates asked for are reached."""
    from matplotlib.figure import Figure

    wanted = [rate * (1 + headroom) for rate in rates]
    measured = [row.task_slots for row in model.observations]
    answers = [
        model.slots_for(rate, memory_mb, headroom=headroom, family=name)
        for name in model.plausible
        for rate in rates
    ]
    reach = max([2 * max(measured), *(1.5 * slots for slots in answers if slots)])
    slots = np.geomspace(min(measured), reach, 200)
    memory = memory_mb if memory_mb is not None else model.observations[0].memory_mb

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    bounds = [model.interval(float(count), memory_mb, confidence) for count in slots]
    axes.fill_between(
        slots,
        [bound.low for bound in bounds],
        [bound.high for bound in bounds],
        color="0.88",
        label=f"{confidence:.0%} interval, plausible families",
    )
    for name in FAMILIES:
        colour, dashes = STYLES[name]
        note = f"leave-one-out error {model.errors[name]:.3g}"
        note += "" if name in model.plausible else ", ruled out"
        axes.plot(
            slots,
            np.maximum(model.regressions[name].mst(slots, memory), 0),
            color=colour,
            linestyle=dashes,
            linewidth=2 if name == model.family else 1.2,
            alpha=1 if name in model.plausible else 0.4,
            label=f"{name}: {note}",
        )
    for each in wanted:
        axes.axhline(each, color="0.3", linewidth=0.8, linestyle=":")
        axes.text(slots[0], each, f"{each:,.10g} asked for", fontsize=8, verticalalignment="bottom")
    for here, fill, label in ((True, "black", "measured"), (False, "white", "measured, other memory")):
        dots = [(row.task_slots, row.mst) for row in model.observations if (row.memory_mb == memory) is here]
        if dots:
            axes.plot(*zip(*dots, strict=True), "o", color="black", mfc=fill, markersize=4, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    positive = [row.mst for row in model.observations if row.mst > 0]
    axes.set_ylim(0.5 * min(positive, default=min(wanted)), 3 * max([*wanted, *positive]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,.10g}")
    axes.set_xlabel("task slots")
    axes.set_ylabel("maximum sustainable throughput")
    asked = ", ".join(f"{rate:,.10g}/s" for rate in rates)
    axes.set_title(f"Slots for {asked} with {headroom:.0%} headroom, {memory:g} MB", loc="left", fontsize=10)
    axes.legend(fontsize=8, loc="lower right")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def require_drawable(file: Path) -> None:
    """FogError if no picture could be written there: asked before anything is measured for it."""
    from matplotlib.figure import Figure

    if file.suffix[1:].lower() not in Figure().canvas.get_supported_filetypes():
        raise FogError(
            f"cannot draw {file.suffix or 'a file without ending'}",
            file=file,
            hint="end the name in .svg or .png",
        )
    if not file.parent.is_dir():
        raise FogError("there is no such folder", file=file.parent, hint="make it first")


def save(figure: Figure, file: Path) -> None:
    """Write the picture; the format is the file's ending. The same picture gives the same SVG."""
    import matplotlib as mpl

    require_drawable(file)
    fixed = {"Date": None} if file.suffix.lower() == ".svg" else None
    try:
        with mpl.rc_context({"svg.hashsalt": "fogctl", "svg.fonttype": "none"}):
            figure.savefig(file, metadata=fixed)
    except OSError as error:
        raise FogError(f"cannot be written: {error.strerror}", file=file, exit_code=FAILED) from None
