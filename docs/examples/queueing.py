"""Response times under bursts: exact queue, prediction from a window, and the CPU shares they ask for.

python docs/examples/queueing.py [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from fogmodels.arrivals import MAP
from fogmodels.queueing import (
    VARIANTS,
    Application,
    Edge,
    PhaseType,
    cheapest_shares,
    greedy_shares,
    predict,
    responder,
    solve,
)

BURSTS = MAP(D0=[[-11.0, 1.0], [0.02, -0.32]], D1=[[10.0, 0.0], [0.0, 0.3]])


def main() -> None:
    """Solve, predict, choose shares, draw."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--plot", type=Path)
    plot = arguments.parse_args().plot

    service = PhaseType.erlang(2, 0.6 * BURSTS.mean)
    exact = solve(BURSTS, service)
    high = exact.percentile(95), exact.percentile(99)
    print(f"exact at 60 %: mean {exact.mean:.2f} s, p95 {high[0]:.2f} s, p99 {high[1]:.2f} s")

    window = BURSTS.sample(10_000, np.random.default_rng(3))
    print(f"predicted from 10,000 arrivals: mean {predict(window, service).mean:.2f} s")
    for name, variant in VARIANTS.items():
        print(f"  by {name:<12} {variant(window, service).mean:6.2f} s")

    # MEAD's log analysis: the parser feeds a counter and a matcher.
    load = {"parser": 0.05, "counter": 0.08, "matcher": 0.25}
    app = Application(
        {name: PhaseType.erlang(2, share * BURSTS.mean) for name, share in load.items()},
        (Edge("parser", "counter"), Edge("parser", "matcher")),
    )
    limits = dict.fromkeys(app.paths(), 12.0)
    respond = responder(app, BURSTS, percentile=95)
    for name, choose in (("greedy", greedy_shares), ("cheapest", cheapest_shares)):
        chosen = choose(limits, respond)
        print(f"{name}: " + ("none" if chosen is None else str(dict(chosen.shares))))
    if plot is not None:
        draw(plot)


def draw(plot: Path) -> None:
    """Mean response time against utilisation: the exact queue beside the simple models."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    loads = np.linspace(0.1, 0.95, 18)
    window = BURSTS.sample(20_000, np.random.default_rng(3))
    services = [PhaseType.erlang(2, float(load) * BURSTS.mean) for load in loads]
    axes.plot(loads, [solve(BURSTS, service).mean for service in services], "k", label="exact MAP/PH/1")
    for name, style in (("replay", "o"), ("M/G/1", "--"), ("Kingman", ":")):
        axes.plot(loads, [VARIANTS[name](window, service).mean for service in services], style, label=name)
    axes.set(yscale="log", xlabel="utilisation", ylabel="mean response time (s)")
    axes.legend()
    figure.savefig(plot)


if __name__ == "__main__":
    main()
