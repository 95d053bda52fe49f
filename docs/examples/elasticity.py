"""Elasticity scores of two scalers on one morning: one late, one hasty.

python docs/examples/elasticity.py [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fogmodels.elasticity import ideal_supply, score

# Input rate by the minute, and the MST of the best set of 1, 2, … nodes (the fifth is far: no gain).
RATES = [80, 120, 190, 260, 340, 420, 400, 330, 240, 180, 130, 90, 80]
MST = [110.0, 210.0, 300.0, 380.0, 360.0, 450.0]
MINUTES = [60.0 * i for i in range(len(RATES))]
SCALERS = {
    "late": ([0, 150, 260, 390, 560, 700], [1, 2, 4, 6, 3, 1]),
    "hasty": ([0, 70, 110, 200, 230, 290, 420, 470, 540, 590, 640], [1, 3, 2, 4, 5, 6, 4, 6, 4, 2, 1]),
}
FINISHED = {"late": 775.0, "hasty": 722.0}


def draw(file: Path, demand: list[int]) -> None:
    """Supply against demand, shaded where it falls short or goes to waste."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fogctl"
    import matplotlib.pyplot as plt
    import numpy as np

    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.4), layout="constrained", sharey=True)
    at = np.arange(0.0, MINUTES[-1])
    want = np.array(demand)[np.searchsorted(MINUTES, at, side="right") - 1]
    for axis, (name, (times, supply)) in zip(axes, SCALERS.items(), strict=True):
        have = np.array(supply)[np.searchsorted(times, at, side="right") - 1]
        axis.plot(at / 60, want, "k", linewidth=1.0, label="demand (ideal supply)")
        axis.plot(at / 60, have, "C0", linewidth=1.4, label="supply")
        axis.fill_between(at / 60, have, want, where=want > have, color="C3", alpha=0.35, label="short (U)")
        axis.fill_between(
            at / 60, have, want, where=want < have, color="C2", alpha=0.35, label="to spare (O)"
        )
        found = score(times, supply, demand, demand_times_s=MINUTES, finished_s=FINISHED[name])
        title = (
            f"{name}: U {found.accuracy_u:.2f}, O {found.accuracy_o:.2f}, {found.reconfigurations} changes"
        )
        axis.set(xlabel="minutes", title=title)
    axes[0].set(ylabel="replicas")
    axes[0].legend(fontsize=8)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Elasticity scores of two scalers.")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    chosen = parser.parse_args()

    demand = [int(n) for n in ideal_supply(RATES, MST)]
    print("ideal supply by the minute:", *demand)
    print("scaler  accuracy U     O  timeshare U     O  excess  changes   cost")
    for name, (times, supply) in SCALERS.items():
        found = score(times, supply, demand, demand_times_s=MINUTES, finished_s=FINISHED[name])
        print(f"{name:6}  {found.accuracy_u:10.3f} {found.accuracy_o:5.3f}", end="  ")
        print(f"{found.timeshare_u:11.3f} {found.timeshare_o:5.3f}", end="  ")
        print(f"{found.excess_time:6.3f}  {found.reconfigurations:7}  {found.cost:5.1f}")

    if chosen.plot:
        draw(chosen.plot, demand)


if __name__ == "__main__":
    main()
