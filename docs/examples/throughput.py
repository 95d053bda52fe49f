"""The throughput model end to end: fit samples, predict, choose nodes, decide what to do next.

    python docs/examples/throughput.py [--plot FILE.svg]

The samples are made by a formula with 4 % noise, so that this runs anywhere; yours come from a stage
measured at saturation.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from fogmodels.throughput import Configuration, Sample, ThroughputModel, compare_options, fit, nearest_set

PARTITIONS = 8
NODES = {"pi1": 2.0, "pi2": 5.0, "pi3": 20.0, "pi4": 45.0, "pi5": 180.0, "pi6": 300.0}


def measure(replicas: int, rtt_ms: float, rows: float, luck: random.Random) -> Sample:
    """A run on the testbed: batches of `rows` rows, the farthest replica `rtt_ms` away."""
    tasks = -(-PARTITIONS // replicas)
    seconds = 0.11 * tasks + rows / (130 * replicas**0.95) + (3 + 2 * tasks) * 0.1 * (rtt_ms / 100) ** 1.2
    return Sample(replicas, rtt_ms, rows / seconds * luck.gauss(1.0, 0.04), rows, PARTITIONS)


def calibration() -> list[Sample]:
    """Two batch sizes, near and far, few and many replicas: what tells the parameters apart."""
    luck = random.Random(7)
    points = [
        (n, rtt, rows) for n in (1, 2, 4) for rtt in (0.0, 60.0, 250.0) for rows in (150.0 * n, 600.0 * n)
    ]
    return [measure(n, rtt, rows, luck) for n, rtt, rows in points]


def draw(samples: list[Sample], file: Path) -> None:
    """Measured against predicted, and MST against distance, for both forms."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fogctl"
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    forms: dict[str, ThroughputModel] = {"batch": fit(samples, "batch"), "gesscale": fit(samples, "gesscale")}
    for (name, model), mark in zip(forms.items(), "ox", strict=True):
        predicted = [model.mst(s.replicas, s.rtt_max_ms, s.batch_rows, s.partitions) for s in samples]
        left.plot([s.mst for s in samples], predicted, mark, label=f"{name} form")
    top = max(s.mst for s in samples) * 1.05
    left.plot([0, top], [0, top], color="grey", linewidth=0.8)
    left.set(xlabel="measured records/s", ylabel="predicted records/s", title="points it was fitted to")
    left.legend()
    distances = [float(d) for d in range(0, 301, 5)]
    for n, colour in ((1, "C0"), (2, "C1"), (4, "C2"), (8, "C3")):
        model = forms["batch"]
        right.plot(
            distances, [model.mst(n, d, 800.0, PARTITIONS) for d in distances], colour, label=f"{n} replicas"
        )
        edges = [model.interval(n, d, 800.0, PARTITIONS) for d in distances]
        right.fill_between(distances, [e[0] for e in edges], [e[1] for e in edges], color=colour, alpha=0.2)
    right.set(
        xlabel="largest round trip, ms", ylabel="MST, records/s", title="800 rows a batch, 90 % interval"
    )
    right.legend()
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Print each step."""
    parser = argparse.ArgumentParser(description="The throughput model end to end.")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    chosen = parser.parse_args()

    samples = calibration()
    model = fit(samples)
    print(f"{len(samples)} samples, {model.form} form:", end=" ")
    print(
        ", ".join(f"{name} {value:.3g}" for name, value in model.parameters.items() if model.informed[name])
    )
    errors = model.leave_one_out()
    print(f"left out one by one: mean error {100 * sum(errors) / len(errors):.1f} %")

    low, high = model.interval(3, 45.0, 900.0)
    print(f"3 replicas, 45 ms, 900 rows: {model.mst(3, 45.0, 900.0):.0f}/s ({low:.0f} to {high:.0f})")

    rtts = list(NODES.values())
    for rate in (150.0, 330.0, 900.0):
        n = model.replicas_for(rate, rtts, batch_rows=900.0)
        names = [] if n is None else [list(NODES)[i] for i in nearest_set(rtts, n).nodes]
        print(f"{rate:.0f}/s needs: {', '.join(names) or 'more than these nodes'}")

    print("from 4 replicas at 45 ms with 900 rows, best gain per cost first:")
    now = Configuration(4, 45.0, 900.0, PARTITIONS, 1.0)
    options = compare_options(
        model, now, shares=[1.2], batches=[1500.0, 9000.0], nodes={"pi5": 180.0}, longest_batch_s=6.0
    )
    for option in options:
        print(f"  {option.action}: {option.reason}")

    if chosen.plot:
        draw(samples, chosen.plot)


if __name__ == "__main__":
    main()
