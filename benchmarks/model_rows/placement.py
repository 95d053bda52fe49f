"""Figures of placement: exact and tuned plans beside CAPSys' own times and a constraint solver run here."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from fogmodels.placement import Limits, Placement, Problem, bounds, count_plans, pareto, tune_and_place

from benchmarks.cpu import cpu_s
from benchmarks.row import Row

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[3] / "shared" / "data")) / "capsys"
SOLVER_SECONDS = 20.0

# Q3-inf on 8 workers of 4 slots has 3.25 million plans (CAPSys, section 4.4). Only this parallelism of five
# operators has that many; the paper prints no costs per task, so these are ours: heavy inference, big images.
INFERENCE = [
    ("source", 4, 40.0, 0.0, 30.0),
    ("decode", 6, 90.0, 0.0, 24.0),
    ("resize", 8, 60.0, 0.0, 12.0),
    ("infer", 10, 210.0, 8.0, 1.5),
    ("sink", 4, 15.0, 2.0, 0.0),
]


def rows() -> Iterator[Row]:
    """Measure; the constraint solver is left out where it is not installed."""
    small = _chain(8, 4)
    ours, (limits, plan) = cpu_s(lambda: tune_and_place(small))
    counted, plans = cpu_s(lambda: count_plans(small))
    proof = "proven best" if plan.gap == 0 else f"gap {plan.gap:.3g}"
    yield Row(
        "placement, exact with auto-tuning, 8×4, 5 operators",
        ours,
        "CPU s",
        target=1.0,
        peer=47.0,
        peer_name="CAPS, published search of the same number of plans",
        note=f"{plans:,} plans, {proof}",
    )
    yield from _beside_solver("the same 8×4 plan under the tuned limits", small, limits, plan, ours)
    yield Row("placement, counting the 8×4 plans", counted, "CPU s", note=f"{plans:,} plans, none listed")
    listed, front = cpu_s(lambda: pareto(small, every=False))
    yield Row("placement, exact Pareto front of 8×4", listed, "CPU s", note=f"{len(front)} cost vectors")
    large = _join(16, 64)
    if large is None:
        return
    ours, (limits, plan) = cpu_s(lambda: tune_and_place(large))
    yield Row(
        "placement, auto-tuned, 1,024 tasks on 16×64",
        ours,
        "CPU s",
        target=1.0,
        peer=125.08,
        peer_name="CAPSys on 20 cores, published (wall-clock)",
        note=f"uses {plan.objective:.4f} of its limits, proven least {plan.lower_bound:.4f}",
    )
    yield from _beside_solver("the same 16×64 plan under the tuned limits", large, limits, plan, ours)


def _chain(workers: int, slots: int) -> Problem:
    operators = [
        {"id": name, "parallelism": n, "cpu": cpu, "io": io, "net": net}
        for name, n, cpu, io, net in INFERENCE
    ]
    names = [name for name, *_ in INFERENCE]
    edges = [list(pair) for pair in pairwise(names)]
    return Problem.from_dict({"operators": operators, "edges": edges, "workers": workers, "slots": slots})


def _join(workers: int, slots: int) -> Problem | None:
    """Q2-join scaled as in the paper's section 6.5.2; None without the published profile."""
    file = DATA / "placement_cases.json"
    if not file.exists():
        return None
    scaling = json.loads(file.read_text())["scaling"]
    parallelism = scaling["autotune"]["instances"][f"{workers}x{slots}"]
    operators = [{**op, "parallelism": parallelism[op["name"]]} for op in scaling["profile"]["operators"]]
    edges = scaling["profile"]["edges"]
    return Problem.from_dict({"operators": operators, "edges": edges, "workers": workers, "slots": slots})


def _beside_solver(
    what: str, problem: Problem, limits: Limits, plan: Placement, ours: float
) -> Iterator[Row]:
    """OR-tools CP-SAT on the same problem and limits, minimising the same objective on one thread."""
    if importlib.util.find_spec("ortools") is None:
        return
    started = time.process_time()
    status, share, bound = _cp_sat(problem, limits)
    theirs = time.process_time() - started
    reached = "no plan" if share is None else f"{share:.4f}"
    yield Row(
        f"placement, {what}",
        ours,
        "CPU s",
        peer=theirs,
        peer_name="OR-tools CP-SAT, one thread",
        note=f"share of the limits: ours {plan.objective:.4f} (with tuning), "
        f"CP-SAT {reached}, bound {bound:.4f}, {status} after at most {SOLVER_SECONDS:.0f} s",
    )


def _cp_sat(problem: Problem, limits: Limits) -> tuple[str, float | None, float]:
    """Status, the largest share of a limit its plan uses, and its lower bound."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    need, slots = problem.parallelism, problem.slots
    units = problem.unit_costs()
    tasks = [
        [model.new_int_var(0, int(min(n, s)), f"n{w}_{i}") for i, n in enumerate(need)]
        for w, s in enumerate(slots)
    ]
    for i, n in enumerate(need):
        model.add(sum(row[i] for row in tasks) == int(n))
    for row, s in zip(tasks, slots, strict=True):
        model.add(sum(row) <= int(s))
    scale = 10**6
    share = model.new_int_var(0, scale, "share")
    low_high = bounds(problem)
    for d, name in enumerate(("cpu", "io", "net")):
        least, worst = low_high[name]
        span = (worst - least) * limits[name]
        if span <= 0:
            continue
        for w, row in enumerate(tasks):
            # Loads in parts of a millionth of the limit's span, rounded: close enough to compare answers.
            load = _load(model, problem, row, units[d] / span * scale, name, w)
            model.add(load - round(least / span * scale) <= share)
    model.minimize(share)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = SOLVER_SECONDS
    status = solver.solve(model)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    bound = solver.best_objective_bound / scale
    return solver.status_name(status).lower(), solver.objective_value / scale if found else None, bound


def _load(model: Any, problem: Problem, row: list[Any], cost: np.ndarray, name: str, worker: int) -> Any:
    need = problem.parallelism
    if name != "net":
        return sum(round(float(c)) * n for c, n in zip(cost, row, strict=True))
    terms: list[Any] = []
    for i, _ in enumerate(problem.operators):
        downs = [b for a, b in problem.edges if a == i]
        if not downs or cost[i] == 0:
            continue
        links = int(need[downs].sum())
        terms.append(round(float(cost[i])) * row[i])
        for j in downs:
            most = int(min(need[i], problem.slots[worker])) * int(min(need[j], problem.slots[worker]))
            both = model.new_int_var(0, most, f"z{worker}_{i}_{j}")
            model.add_multiplication_equality(both, [row[i], row[j]])
            terms.append(-round(float(cost[i]) / links) * both)
    return sum(terms)
