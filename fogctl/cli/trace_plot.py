"""The picture of a fit: moments and autocorrelation of a trace against its arrival process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fogmodels.arrivals import MAP, autocorrelation
from numpy.typing import NDArray


def draw_fit(file: Path, times: NDArray[np.float64], process: MAP, title: str) -> None:
    """Write the picture; its format follows the file's suffix."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    moments, correlation = figure.subplots(1, 2)
    orders = np.arange(1, 5)
    scaled = times / times.mean()
    seen = [float((scaled**k).mean()) for k in orders]
    fitted = [process.moment(int(k)) / process.mean**k for k in orders]
    moments.bar(orders - 0.2, seen, 0.4, label="trace")
    moments.bar(orders + 0.2, fitted, 0.4, label="fit")
    moments.set(
        yscale="log", xticks=orders, xlabel="order k", ylabel="E[X^k] / E[X]^k", title=f"{title}: moments"
    )
    moments.legend()
    last = int(min(1000, max(2, times.size // 10)))
    lags = np.unique(np.round(np.geomspace(1, last, 60)).astype(int))
    correlation.plot(lags, autocorrelation(times, lags), ".", label="trace")
    correlation.plot(lags, process.acf(lags.tolist()), label=f"fit, {process.states} states")
    correlation.axhline(0, color="grey", linewidth=0.6)
    correlation.set(xscale="log", xlabel="lag (arrivals)", ylabel="autocorrelation", title="autocorrelation")
    correlation.legend()
    figure.savefig(file)
