"""Fit a Markovian arrival process to a bursty window and compare its statistics with the window's.

python docs/examples/arrivals.py [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from fogmodels.arrivals import MAP, autocorrelation, fit_map, fit_maps
from numpy.typing import NDArray

# A stream that bursts (10/s for a second) and calms down (0.3/s for 50 s): what was "recorded".
BURSTS = MAP(D0=[[-11.0, 1.0], [0.02, -0.32]], D1=[[10.0, 0.0], [0.0, 0.3]])
LAGS = [1, 2, 5, 10, 20]


def main() -> None:
    """Record, fit, print, draw."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--plot", type=Path)
    plot = arguments.parse_args().plot

    window = BURSTS.sample(20_000, np.random.default_rng(7))
    fitted = fit_map(window)
    print(f"window: mean {window.mean():.3f} s, SCV {window.var() / window.mean() ** 2:.3f}")
    print(f"fit:    mean {fitted.mean:.3f} s, SCV {fitted.scv:.3f}, {fitted.states} states")
    print("lag     trace    fit")
    for lag, seen, modelled in zip(LAGS, autocorrelation(window, LAGS), fitted.acf(LAGS), strict=True):
        print(f"{lag:>3} {seen:9.3f} {modelled:6.3f}")
    others = [str(process.states) for process in fit_maps(window, best=3)[1:]]
    print("other good fits have", " and ".join(others), "states")
    if plot is not None:
        draw(plot, window, fitted)


def draw(plot: Path, window: NDArray[np.float64], fitted: MAP) -> None:
    """Autocorrelation and distribution, window against fit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    lags = np.unique(np.geomspace(1, 200, 40).astype(int))
    left.plot(lags, autocorrelation(window, lags), ".", label="window")
    left.plot(lags, fitted.acf(lags.tolist()), label="fit")
    left.set(xscale="log", xlabel="lag (arrivals)", ylabel="autocorrelation")
    again = fitted.sample(window.size, np.random.default_rng(1))
    points = np.geomspace(1e-2, 100, 80)
    for values, style, name in ((window, ".", "window"), (again, "-", "fit, sampled")):
        right.plot(points, [float((values > x).mean()) for x in points], style, label=name)
    right.set(xscale="log", yscale="log", ylim=(1e-4, 1.5), xlabel="gap x (s)", ylabel="share of gaps > x")
    for axes in (left, right):
        axes.legend()
    figure.savefig(plot)


if __name__ == "__main__":
    main()
