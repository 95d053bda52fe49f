"""Figures of the capacity models: BIDS2 beside a MILP solver, and the refit of the three regressions."""

from __future__ import annotations

import importlib.util
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from fogmodels.capacity import Observation, best_parallelism, fit_capacity

from benchmarks.cpu import cpu_s
from benchmarks.row import Row

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[3] / "shared" / "data")) / "streambed"

PEERS = {"pulp": "PuLP with CBC", "ortools": "OR-tools with SCIP"}

Solver = Callable[[Sequence[float], Sequence[float], int], list[int]]


def rows() -> Iterator[Row]:
    """Measure; peers that are not installed are left out."""
    yield from _published()
    rates, ratios = _operators(9)
    for budget in (1_000, 10_000):
        ours = 1000 * cpu_s(partial(best_parallelism, rates, ratios, budget), repeats=50)[0]
        found = best_parallelism(rates, ratios, budget)
        target = 1.0 if budget == 1_000 else None
        solvers = _solvers()
        for name, solve in solvers.items():
            theirs = 1000 * cpu_s(partial(solve, rates, ratios, budget))[0]
            reached = _rate(solve(rates, ratios, budget), rates, ratios)
            yield Row(
                f"BIDS2, 9 operators, {budget:,} slots",
                ours,
                "CPU ms",
                target=target,
                peer=theirs,
                peer_name=name,
                note=f"source rate {found.source_rate:.6g}, the peer's {reached:.6g}",
            )
        if not solvers:
            yield Row(f"BIDS2, 9 operators, {budget:,} slots", ours, "CPU ms", target=target)
    observations = _observations()
    yield Row(
        "three capacity regressions with leave-one-out, 20 observations",
        1000 * cpu_s(lambda: fit_capacity(observations), repeats=20)[0],
        "CPU ms",
    )


def _published() -> Iterator[Row]:
    """The cases published with StreamBed: how many come out exactly as its own solver chose."""
    if not DATA.is_dir():
        return
    cases = json.loads((DATA / "bids2_cases.json").read_text())
    exact = 0
    for case in cases:
        rates = [operator["true_rate"] for operator in case["ops"]]
        ratios = [operator["ratio"] for operator in case["ops"]]
        exact += list(best_parallelism(rates, ratios, case["budget"]).tasks) == case["parallelism"]
    yield Row(
        f"BIDS2, published cases reproduced exactly, of {len(cases)}",
        exact,
        "cases",
        target=len(cases),
        more_is_better=True,
    )


def _operators(count: int) -> tuple[list[float], list[float]]:
    """Operators whose speeds span four magnitudes, as a join beside filters and sinks does."""
    draw = random.Random(5)
    return [10 ** draw.uniform(3, 7) for _ in range(count)], [10 ** draw.uniform(-3, 0) for _ in range(count)]


def _observations() -> list[Observation]:
    draw = random.Random(6)
    return [
        Observation(slots, memory, 20_000.0 * slots * draw.gauss(1, 0.05))
        for slots in (2, 6, 12, 24, 48)
        for memory in (512.0, 1024.0, 2048.0, 4096.0)
    ]


def _rate(tasks: Sequence[int], rates: Sequence[float], ratios: Sequence[float]) -> float:
    return min(n * o / r for n, o, r in zip(tasks, rates, ratios, strict=True))


def _solvers() -> dict[str, Solver]:
    found: dict[str, Solver] = {}
    if importlib.util.find_spec("pulp"):
        found[PEERS["pulp"]] = _by_pulp
    if importlib.util.find_spec("ortools"):
        found[PEERS["ortools"]] = _by_ortools
    return found


def _by_pulp(rates: Sequence[float], ratios: Sequence[float], budget: int) -> list[int]:
    """The paper's formulation and its solver."""
    import pulp

    problem = pulp.LpProblem("bids2", pulp.LpMaximize)
    # Rates in units of the fastest possible source, or CBC's tolerances swallow the slow operators.
    scale = budget * min(o / r for o, r in zip(rates, ratios, strict=True))
    source = pulp.LpVariable("source", 0)
    tasks = [pulp.LpVariable(f"tasks_{i}", 1, budget, cat="Integer") for i in range(len(rates))]
    problem += source
    for i, (o, r) in enumerate(zip(rates, ratios, strict=True)):
        problem += source * (scale * r / o) <= tasks[i]
    problem += pulp.lpSum(tasks) == budget
    problem.solve(pulp.PULP_CBC_CMD(msg=False))
    return [round(task.value()) for task in tasks]


def _by_ortools(rates: Sequence[float], ratios: Sequence[float], budget: int) -> list[int]:
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("SCIP")
    scale = budget * min(o / r for o, r in zip(rates, ratios, strict=True))
    source = solver.NumVar(0, solver.infinity(), "source")
    tasks = [solver.IntVar(1, budget, f"tasks_{i}") for i in range(len(rates))]
    for task, o, r in zip(tasks, rates, ratios, strict=True):
        solver.Add(source * (scale * r / o) <= task)
    solver.Add(sum(tasks) == budget)
    solver.Maximize(source)
    solver.Solve()
    return [round(task.solution_value()) for task in tasks]
