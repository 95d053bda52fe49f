"""Places a small pipeline on workers and shows what its costs trade off (--plot FILE.svg draws it)."""

from __future__ import annotations

import argparse
from pathlib import Path

from fogmodels.placement import Placement, Problem, bounds, count_plans, pareto, place, tune

PROBLEM = Problem.from_dict(
    {
        "operators": [  # costs per task: CPU load, state access, network sent
            {"id": "source", "parallelism": 2, "cpu": 30, "io": 0, "net": 9.4, "outbound": "REBALANCE"},
            {"id": "parse", "parallelism": 5, "cpu": 516, "io": 0, "net": 1.9, "outbound": "HASH"},
            {"id": "window", "parallelism": 8, "cpu": 1667, "io": 384, "net": 8.1, "outbound": "REBALANCE"},
            {"id": "sink", "parallelism": 1, "cpu": 21, "io": 0, "net": 0},
        ],
        "edges": [["source", "parse"], ["parse", "window"], ["window", "sink"]],
        "workers": 4,
        "slots": 4,
    }
)


def main() -> None:
    """Count, bound, tune, place; then the front."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the front and the plan")
    options = arguments.parse_args()

    print(f"{count_plans(PROBLEM)} distinct plans; loads range over {bounds(PROBLEM)}")
    limits = tune(PROBLEM)
    print(f"least limits with a plan: {dict(limits)}, relaxed {limits.steps} times from {limits.minimum}")
    plan = place(PROBLEM, limits)
    assert plan is not None
    for worker, tasks in plan.assignment.items():
        print(f"  {worker}: {dict(tasks)}")
    print(f"cost {plan.cost}, uses {plan.objective:.1%} of a limit, gap {plan.gap:g}")
    front = pareto(PROBLEM)
    for best in front:
        print(f"  none beats {best.load}")
    if options.plot:
        draw(plan, front, options.plot)


def draw(plan: Placement, front: list[Placement], path: Path) -> None:
    """Left: who runs what. Right: every trade-off that no plan beats, as cost per dimension."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3), layout="constrained")
    start = dict.fromkeys(plan.assignment, 0)
    for op in PROBLEM.operators:
        held = [tasks[op.id] for tasks in plan.assignment.values()]
        left.barh(list(start), held, left=list(start.values()), label=op.name, edgecolor="white")
        start = {w: n + h for (w, n), h in zip(start.items(), held, strict=True)}
    left.invert_yaxis()
    left.set(xlabel="slots", title="the best plan")
    left.legend(fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.12), ncols=4)
    shown: set[tuple[float, ...]] = set()
    for best in [plan, *front]:
        cost = tuple(round(c, 6) for c in best.cost.values())
        if cost in shown:
            continue
        chosen = not shown
        shown.add(cost)
        name = "chosen" if chosen else "other Pareto-optimal cost"
        right.plot(list(best.cost), cost, marker="o", lw=2 if chosen else 1, label=name)
    right.set(ylim=(0, 1), ylabel="cost (0 balanced, 1 worst)", title="costs no plan beats")
    right.legend(fontsize=8, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
