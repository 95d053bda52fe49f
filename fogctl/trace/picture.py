"""A picture of a trace: its rate over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fogctl.errors import FAILED, FogError
from fogctl.trace.describe import per_minute
from fogctl.trace.rides import Rides


def draw_rate(rides: Rides, path: Path) -> None:
    """Rides a second, minute by minute, over the hours of the trace."""
    from matplotlib.figure import Figure

    counts = per_minute(rides.pickup_s())
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots()
    axes.step(np.arange(counts.size) / 60, counts / 60, where="post", linewidth=0.8, color="#1f4e79")
    axes.set(
        xlabel="hours since the first ride", ylabel="rides/s", ylim=(0, None), title=f"{len(rides):,} rides"
    )
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise FogError(f"cannot be drawn: {error}", file=path, exit_code=FAILED) from error
