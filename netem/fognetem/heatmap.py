"""A picture of asked against measured latencies, as an SVG file."""

from __future__ import annotations

from pathlib import Path as FilePath

from fognetem.matrix import LatencyMatrix
from fognetem.verify import Verification

_LABELLED = 16
"""Up to so many nodes, every cell shows its number."""


def write_svg(matrix: LatencyMatrix, verification: Verification, file: FilePath) -> None:
    """Two heat maps side by side: the RTTs asked for and the RTTs measured."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    nodes = matrix.nodes
    place = {node: number for number, node in enumerate(nodes)}
    asked = [[matrix.rtt_ms(a, b) for b in nodes] for a in nodes]
    measured = [[0.0 if a == b else float("nan") for b in nodes] for a in nodes]
    for (a, b), value in verification.measured().items():
        if value is not None:
            measured[place[a]][place[b]] = measured[place[b]][place[a]] = value
    largest = max(matrix.max_rtt_ms(), *(value for row in measured for value in row if value == value), 1.0)
    side = max(3.5, min(12.0, 0.45 * len(nodes) + 1.5))
    figure = Figure(figsize=(2 * side + 1, side), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots(1, 2)
    for axis, title, values in ((axes[0], "asked", asked), (axes[1], "measured", measured)):
        picture = axis.imshow(values, cmap="viridis", vmin=0, vmax=largest)
        axis.set_title(f"RTT {title} (ms)")
        axis.set_xticks(range(len(nodes)), nodes, rotation=90)
        axis.set_yticks(range(len(nodes)), nodes)
        if len(nodes) <= _LABELLED:
            for row, line in enumerate(values):
                for column, value in enumerate(line):
                    text = "×" if value != value else f"{value:.0f}"
                    shade = "black" if value == value and value > 0.6 * largest else "white"
                    axis.text(column, row, text, ha="center", va="center", fontsize=7, color=shade)
    figure.colorbar(picture, ax=axes, label="ms")
    figure.suptitle(verification.sentence(), fontsize=9)
    figure.savefig(file, format="svg")
