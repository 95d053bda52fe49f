"""A benchmark's outcome as a picture: demand over load, or capacity over resources, with the linear bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fogctl.bench.bench_file import BenchmarkFile, LoadType, Metric
from fogctl.bench.search import Outcome, medians

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNITS = {LoadType.rate: "records/s", LoadType.keys: "keys"}


def draw(benchmark: BenchmarkFile, outcome: Outcome) -> Figure:
    """Every experiment as a dot, the metric as steps, and the line no linear scaling can beat."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    demand = outcome.metric is Metric.demand
    for sustained, colour, mark, label in (
        (True, "#0072B2", "o", "sustained"),
        (False, "#D55E00", "x", "not sustained"),
    ):
        dots = [key for key, held in medians(outcome.experiments).items() if held is sustained]
        if dots:
            loads, amounts = zip(*dots, strict=True)
            x, y = (loads, amounts) if demand else (amounts, loads)
            axes.scatter(x, y, c=colour, marker=mark, s=26, label=label, zorder=3)
    known = [(at, answer) for at, answer in outcome.answers.items() if answer is not None]
    if known:
        name = "resource demand" if demand else "load capacity"
        axes.plot(*zip(*known, strict=True), color="0.2", drawstyle="steps-post", label=name)
    if outcome.slope is not None:
        end = max(at for at, _ in known)
        axes.plot([0, end], [0, outcome.slope * end], ":", color="0.5", label="linear bound")
    load, resource = f"load ({UNITS[benchmark.load.by]})", benchmark.resource
    axes.set_xlabel(load if demand else resource)
    axes.set_ylabel(resource if demand else load)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_title(benchmark.name, loc="left", fontsize=10)
    axes.legend(fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure
