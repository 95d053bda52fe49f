"""Scalability end to end: is the lag growing, and how many experiments find the resource demand?

python docs/examples/scalability.py [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable
from pathlib import Path

from fogmodels.scalability import Search, lag_trend, lag_trend_ratio, load_capacity, resource_demand
from fogmodels.throughput import Sample, fit

LOADS = [1000.0 * i for i in range(1, 11)]
REPLICAS = list(range(1, 31))


def saw_tooth(rate: float, capacity: float, trigger_s: float = 30.0) -> tuple[list[float], list[float]]:
    """Lag of an engine that takes, every trigger, all that is there up to its capacity."""
    luck = random.Random(5)
    times, lags, lag, due = [], [], 0.0, trigger_s
    for second in range(360):
        lag += rate * luck.gauss(1.0, 0.1)
        if second >= due:
            lag = max(0.0, lag - capacity * trigger_s)
            due += trigger_s * luck.gauss(1.0, 0.08)
        times.append(float(second))
        lags.append(lag)
    return times, lags


def true_mst(replicas: float) -> float:
    """What the system under test sustains; an experiment would measure it."""
    return 1050.0 * math.pow(replicas, 0.82)


def searches() -> dict[str, Search]:
    """The demand of every load by each strategy."""
    model = fit([Sample(n, 0.0, 1000.0 * n**0.85) for n in (1, 2, 4, 6)], "gesscale")

    def sustains(load: float, replicas: float) -> bool:
        return load <= true_mst(replicas)

    def guess(load: float) -> float | None:
        return model.replicas_for(load, [0.0] * len(REPLICAS))

    found = {}
    for strategy in ("full", "linear", "binary"):
        found[strategy] = resource_demand(LOADS, REPLICAS, sustains, strategy=strategy)
    found["guided"] = resource_demand(LOADS, REPLICAS, sustains, strategy="guided", guess=guess)
    return found


def draw(file: Path, experiment: Callable[[float, float], tuple[list[float], list[float]]]) -> None:
    """Two saw-teeth with their trends, and the demand with the experiments that found it."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fogctl"
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    for rate, colour in ((90.0, "C0"), (108.0, "C3")):
        times, lags = experiment(rate, 100.0)
        found = lag_trend(times, lags, warmup_s=60.0)
        slope = f"{found.slope_per_s:+.1f}/s ({found.low:+.1f}…{found.high:+.1f})"
        label = f"{rate:.0f}/s on 100/s: {found.verdict}, {slope}"
        left.plot(times, lags, colour, linewidth=0.9, label=label)
    left.axvspan(0, 60, color="grey", alpha=0.15)
    left.set(xlabel="seconds (grey: warm-up)", ylabel="lag, records", title="a saw-tooth is not a trend")
    left.legend(fontsize=8)
    guided = searches()["guided"]
    for sustained, mark, label in ((True, "o", "sustained"), (False, "x", "not")):
        points = [(e.load, e.resources) for e in guided.experiments if e.sustained == sustained]
        right.plot(*zip(*points, strict=True), mark, label=f"experiment: {label}")
    right.step(list(guided.answers), [v or math.nan for v in guided.answers.values()], "grey", where="mid")
    right.set(
        xlabel="load, records/s",
        ylabel="replicas",
        title=f"demand, guided search: {guided.count} experiments",
    )
    right.legend(fontsize=8)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Print each step."""
    parser = argparse.ArgumentParser(description="Scalability end to end.")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    chosen = parser.parse_args()

    for rate in (90.0, 108.0):
        times, lags = saw_tooth(rate, capacity=100.0)
        found = lag_trend(times, lags, warmup_s=60.0)
        met = lag_trend_ratio(times, lags, rate, ratio=0.05, warmup_s=60.0)
        slope = f"{found.slope_per_s:+.1f}/s ({found.low:+.1f} to {found.high:+.1f})"
        print(f"{rate:.0f}/s on a stage that does 100/s: {found.verdict}, {slope};", end=" ")
        print(f"within 5 % of the load: {met.met}, certain: {met.certain}")

    for strategy, search in searches().items():
        demand = ", ".join(f"{load:g}: {need}" for load, need in list(search.answers.items())[:4])
        print(f"{strategy:>7}: {search.count:3} experiments; replicas by load {demand}, …")
    capacity = load_capacity(LOADS, [1, 2, 4, 8], lambda load, n: load <= true_mst(n), strategy="binary")
    print(f"capacity by replicas: {dict(capacity.answers)} in {capacity.count} experiments")

    if chosen.plot:
        draw(chosen.plot, saw_tooth)


if __name__ == "__main__":
    main()
