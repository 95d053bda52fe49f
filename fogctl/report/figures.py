"""The figures that belong to a whole run: replicas of all policies, latencies, response times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fogctl.experiment.series import StageSeries
from fogctl.report import drawing
from fogctl.report.drawing import BLUE, CYCLE, INK, ORANGE, VERMILION, Drawing


def overview(runs: Mapping[str, Mapping[str, StageSeries]], duration_s: float) -> Drawing:
    """Replicas against the ideal, one small panel a policy: who follows the load and who does not."""
    columns = 2 if len(runs) > 1 else 1
    rows = -(-len(runs) // columns)
    figure = drawing.new_figure(9.6, 0.6 + 1.55 * rows)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    unit = 60.0 if duration_s > 300 else 1.0
    for axes, (label, stages) in zip(grid.flat, runs.items(), strict=False):
        seen = list(stages.values())
        at_s = seen[0].at_s
        have = sum(
            (s.replicas[: at_s.size] for s in seen if s.replicas.size == at_s.size), np.zeros(at_s.size)
        )
        t, n = drawing.stepped(at_s, have)
        axes.step(t / unit, n, where="post", color=BLUE, linewidth=1.6, label="replicas")
        if all(s.ideal is not None and s.ideal.size == at_s.size for s in seen):
            ideal = sum((s.ideal for s in seen if s.ideal is not None), np.zeros(at_s.size))
            t, want = drawing.stepped(at_s, ideal)
            axes.step(
                t / unit, want, where="post", color=INK, linewidth=0.9, linestyle=(0, (2, 1.5)), label="ideal"
            )
            coarse = drawing.thinned(at_s, have, ideal)
            axes.fill_between(
                coarse[0] / unit,
                coarse[1],
                coarse[2],
                where=coarse[1] < coarse[2],
                step="post",
                color=VERMILION,
                alpha=0.4,
                linewidth=0,
            )
            axes.fill_between(
                coarse[0] / unit,
                coarse[1],
                coarse[2],
                where=coarse[1] > coarse[2],
                step="post",
                color=ORANGE,
                alpha=0.3,
                linewidth=0,
                hatch="\\\\\\",
                edgecolor="#9a6a00",
            )
        axes.set_title(label, fontsize=9, loc="left", color=INK, fontweight="bold")
        axes.yaxis.get_major_locator().set_params(integer=True)
        drawing.tidy(axes)
    grid[0][0].set_ylim(0, 1.05 * grid[0][0].get_ylim()[1])
    for axes in grid.flat[len(runs) :]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("minutes" if unit == 60 else "seconds", fontsize=9)
    grid[0][0].legend(loc="upper left", fontsize=8, frameon=False, ncols=2)
    return Drawing(
        "overview",
        "Replicas against the ideal, all policies",
        "For each policy the number of replicas over time and the dashed ideal curve; dark areas are too "
        "few, striped ones too many.",
        figure,
    )


def heat_map(network: Mapping[str, Any]) -> Drawing | None:
    """Round trips between all nodes as asked and as measured, and how far they are apart."""
    nodes = list(network.get("nodes") or [])
    if not nodes:
        return None
    asked = np.array(network["asked_ms"], dtype=float)
    measured = network.get("measured_ms")
    tables = [("asked, ms", asked, "Blues")]
    error = None
    if measured is not None:
        seen = np.array([[np.nan if v is None else v for v in row] for row in measured], dtype=float)
        error = seen - asked
        tables += [("measured, ms", seen, "Blues"), ("measured − asked, ms", error, "Greys")]
    few = len(nodes) <= 14
    figure = drawing.new_figure(3.3 * len(tables) + 0.2, 3.6)
    for axes, (title, values, colours) in zip(
        figure.subplots(1, len(tables), squeeze=False)[0], tables, strict=True
    ):
        shown = np.abs(values) if values is error else values
        top = float(np.nanmax(shown)) if np.isfinite(shown).any() else 1.0
        axes.imshow(shown, cmap=colours, vmin=0, vmax=max(top, 1e-9) * 1.15, aspect="equal")
        axes.set_title(title, fontsize=9, color=INK)
        axes.set_xticks(range(len(nodes)), nodes, rotation=90, fontsize=7) if few else axes.set_xticks([])
        axes.set_yticks(range(len(nodes)), nodes, fontsize=7) if few else axes.set_yticks([])
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
        if few:
            for row in range(len(nodes)):
                for column in range(len(nodes)):
                    value = values[row, column]
                    if row == column or not np.isfinite(value):
                        continue
                    dark = shown[row, column] > 0.6 * top
                    text = f"{value:.1f}" if values is error else f"{value:.0f}"
                    axes.text(
                        column,
                        row,
                        text,
                        ha="center",
                        va="center",
                        fontsize=5.5,
                        color="white" if dark else INK,
                    )
    worst = "" if error is None else f" The largest difference is {np.nanmax(np.abs(error)):.2f} ms."
    return Drawing(
        "latencies",
        "Latencies asked and measured",
        f"Round-trip times between {len(nodes)} nodes, from 0 to {asked.max():.0f} ms.{worst}",
        figure,
    )


def response_times(curves: Sequence[Mapping[str, Any]]) -> Drawing | None:
    """The distribution of response times, a curve a policy, with the targets as vertical lines."""
    if not curves:
        return None
    figure = drawing.new_figure(9.6, 3.6)
    axes = figure.subplots()
    for curve, (colour, dashes) in zip(curves, CYCLE * 9, strict=False):
        counts = np.array(curve["count"], dtype=float)
        share = np.cumsum(counts) / counts.sum() if counts.sum() else counts
        axes.step(
            curve["upper_s"],
            share,
            where="post",
            color=colour,
            linestyle=dashes,
            linewidth=1.6,
            label=curve["label"],
        )
    for target in sorted({float(t) for curve in curves for t in curve["targets_s"]}):
        axes.axvline(target, color=INK, linewidth=0.9, linestyle=":")
        axes.text(
            target, 1.02, f"{target:g} s", fontsize=8, ha="center", transform=axes.get_xaxis_transform()
        )
    axes.axhline(0.95, color="#9ca3af", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.0)
    axes.set_xlabel("response time, s", fontsize=9)
    axes.set_ylabel("share of records", fontsize=9)
    drawing.tidy(axes)
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    return Drawing(
        "responses",
        "Response times",
        "Cumulative distribution of response times for each policy; dotted lines are the targets, the grey "
        "line is 95 %.",
        figure,
    )
