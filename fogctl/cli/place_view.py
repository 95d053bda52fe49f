"""How a placement is shown: tables, a drawing in text, and a picture."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from fogmodels.placement import Limits, Placement, Problem, bounds
from rich.table import Table
from rich.text import Text

from fogctl.cli.output import table

PROVEN = 1e-9
"""A plan is proven best if no other can be better by more."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def plan_table(problem: Problem, plan: Placement) -> Table:
    """Workers by operators."""
    names = [op.name for op in problem.operators]
    rows = []
    for worker in problem.workers:
        tasks = plan.assignment[worker.name]
        held = [tasks[op.id] or "·" for op in problem.operators]
        rows.append([worker.name, *held, f"{sum(tasks.values())}/{worker.slots}"])
    return table("Tasks per worker", ["worker", *names, "slots"], rows)


def cost_table(problem: Problem, plan: Placement, limits: Limits) -> Table:
    """Cost and load per dimension beside the limits."""
    rows = []
    for name, (least, worst) in bounds(problem).items():
        limit = limits[name]
        rows.append(
            [
                name,
                f"{plan.cost[name]:.4f}",
                "none" if math.isinf(limit) else f"{limit:.4f}",
                f"{plan.load[name]:.6g}",
                f"{least:.6g} to {worst:.6g}",
            ]
        )
    return table("Costs (0 balanced, 1 worst)", ["dimension", "cost", "limit", "load", "load range"], rows)


def verdict(plan: Placement, limits: Limits, *, tuned: bool) -> str:
    """One sentence on limits and proof."""
    steps = f"{limits.steps} step{'' if limits.steps == 1 else 's'} of 10 %"
    source = f"limits tuned, relaxed by {steps}" if tuned else "limits as given"
    proof = "proven best" if plan.gap <= PROVEN else f"within {plan.gap:.3g} of the best (share of a limit)"
    moved = f"; {plan.moves} tasks move" if plan.moves else ""
    return f"{source}; the plan is {proof}{moved}"


def reason(plan: Placement, limits: Limits) -> str:
    """Which cost decided."""
    used = {
        name: cost / min(1.0, limits[name]) if limits[name] > 0 else 0.0 for name, cost in plan.cost.items()
    }
    first = max(used, key=lambda name: used[name])
    if used[first] == 0:
        return "No cost decided: the plan is perfectly balanced in every dimension."
    rest = ", ".join(f"{name} {share:.0%}" for name, share in used.items() if name != first)
    # Of a plan that is not proven best, others are only known not to use much less.
    others = (
        "as much of some limit or more" if plan.gap <= PROVEN else f"at least {plan.lower_bound:.1%} of one"
    )
    return (
        f"{first} decided: the plan uses {used[first]:.1%} of that limit (the others: {rest}); "
        f"every other plan uses {others}."
    )


def picture(problem: Problem, plan: Placement) -> Text:
    """The plan as a line of slots per worker, a letter per task."""
    lines = []
    width = max(len(w.name) for w in problem.workers)
    for worker in problem.workers:
        tasks = plan.assignment[worker.name]
        filled = "".join(_LETTERS[i % len(_LETTERS)] * tasks[op.id] for i, op in enumerate(problem.operators))
        lines.append(f"{worker.name:>{width}} │{filled:·<{worker.slots}}│")
    key = "  ".join(f"{_LETTERS[i % len(_LETTERS)]} {op.name}" for i, op in enumerate(problem.operators))
    return Text("\n".join([*lines, f"{'':>{width}}  {key}  · free slot"]))


def front_table(problem: Problem, front: list[Placement]) -> Table:
    """The Pareto front: one row per cost vector, with the number of plans that have it and one of them."""
    dims = problem.dimensions
    costs = [tuple(f"{plan.cost[d]:.4f}" for d in dims) for plan in front]
    many = Counter(costs)
    rows, seen = [], set()
    for plan, cost in zip(front, costs, strict=True):
        if cost not in seen:
            seen.add(cost)
            rows.append([*cost, many[cost], picture(problem, plan)])
    return table("Costs that no plan beats", [*dims, "plans", "one of them"], rows)


def draw(problem: Problem, plan: Placement, limits: Limits, path: Path) -> None:
    """Slots per worker by operator, and costs against limits."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, 0.3 * len(problem.workers) + 2.2), width_ratios=(3, 2), layout="constrained"
    )
    _slots(left, problem, plan)
    dims = list(plan.cost)
    right.barh(dims, [plan.cost[d] for d in dims], color="#4c78a8")
    for row, name in enumerate(dims):
        if not math.isinf(limits[name]):
            right.plot([limits[name]] * 2, [row - 0.4, row + 0.4], color="#e45756", lw=2)
    right.invert_yaxis()
    right.set(xlim=(0, 1), xlabel="cost (line: limit)")
    try:
        figure.savefig(path)
    finally:
        plt.close(figure)


def _slots(axes: Any, problem: Problem, plan: Placement) -> None:
    names = [w.name for w in problem.workers]
    start = [0] * len(names)
    for op in problem.operators:
        held = [plan.assignment[name][op.id] for name in names]
        axes.barh(names, held, left=start, label=op.name, edgecolor="white")
        start = [a + b for a, b in zip(start, held, strict=True)]
    free = [w.slots - used for w, used in zip(problem.workers, start, strict=True)]
    axes.barh(names, free, left=start, color="none", edgecolor="#bbbbbb", label="free")
    axes.invert_yaxis()
    axes.set(xlabel="slots")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=8)
