"""The questions one asks of a placement problem: how many plans, which front, what thresholds, which plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from fogmodels.placement.costs import Placement, Scale, placement, plan_loads
from fogmodels.placement.counting import TooLarge, count_within
from fogmodels.placement.exact import Ranked, Solver, listed, reach_seconds
from fogmodels.placement.problem import Floats, Ints, Problem
from fogmodels.placement.searched import Searched
from fogmodels.placement.start import nearest_plan
from fogmodels.placement.tuning import Limits, tuned
from fogmodels.placement.vectors import vector_space, worker_classes

_NO_PLAN = "no plan keeps the pinned and forbidden workers and the moves allowed, whatever it costs"
_EXACT_BELOW_S = 0.05
_FRONT_BELOW_S = 0.5
_MOST_FRONT_PLANS = 200_000

AnyLimits = Limits | Mapping[str, float] | Sequence[float]


class NoPlan(ValueError):  # noqa: N818 - reads as the sentence it is
    """The rules (slots, pinned, forbidden, moves) exclude every plan, whatever it costs."""


def count_plans(problem: Problem, limits: AnyLimits | None = None) -> int:
    """How many distinct plans there are (within the limits), exactly.

    Plans that differ only by workers nothing can tell apart are one. Raises TooLarge where counting would
    take too long.
    """
    if reach_seconds(problem) == float("inf"):
        raise TooLarge("a worker can be filled in too many ways to count the plans exactly")
    alpha = np.full(len(problem.dimensions), np.inf)
    if limits is not None:
        alpha = Limits.of(limits).vector(problem)
    if not _any_plan(problem):
        return 0
    scale = Scale.of(problem)
    if problem.rtt_ms is not None and np.isfinite(alpha[3]):
        table = listed(problem)
        if table is None:
            raise TooLarge("too many plans to count those within a latency limit")
        return int(scale.within(table.loads, scale.loads(alpha)).sum())
    space = vector_space(problem)
    ranks = space.ranks_within(scale.loads(alpha))
    return 0 if (ranks < 0).any() else count_within(space, ranks)


def pareto(problem: Problem, *, every: bool = True) -> list[Placement]:
    """All plans whose cost vector no other plan dominates, sorted by cost; exact or TooLarge.

    With `every=False` one plan per cost vector.
    """
    if not _any_plan(problem):
        return []
    if problem.rtt_ms is not None:
        table = listed(problem)
        if table is None:
            raise TooLarge("too many plans to know the front with latency; use place, which reports its gap")
        plans = table.plans[table.front()]
    else:
        if reach_seconds(problem) > _FRONT_BELOW_S:
            raise TooLarge("the problem is too large for an exact front; use place, which reports its gap")
        ranked = Ranked(problem)
        points = ranked.front()
        if every:
            parts = [ranked.reach.plans(point, _MOST_FRONT_PLANS) for point in points]
        else:
            parts = [found[None] for point in points if (found := ranked.reach.plan(point)) is not None]
        plans = (
            np.concatenate(parts)
            if parts
            else np.zeros((0, len(problem.workers), len(problem.operators)), int)
        )
    made = [placement(problem, plan) for plan in plans]
    made.sort(key=lambda p: tuple(round(c, 10) for c in p.cost.values()))
    if every or problem.rtt_ms is None:
        return made
    first: dict[tuple[float, ...], Placement] = {}
    for plan in made:
        first.setdefault(tuple(round(c, 10) for c in plan.cost.values()), plan)
    return list(first.values())


def tune(problem: Problem) -> Limits:
    """The least thresholds that have a plan: each alone, then all relaxed together (section 5.2).

    Raises NoPlan where the rules alone exclude every plan.
    """
    if not _any_plan(problem):
        raise NoPlan(_NO_PLAN)
    return tuned(problem, _solver(problem))


def place(problem: Problem, limits: AnyLimits | None = None) -> Placement | None:
    """The best plan within the limits (those of `tune` if none are given); None if there is none.

    Best: the largest share that any cost uses of its limit is least; then the second largest, and so on.
    Such a plan is Pareto-optimal, and under tuned limits it is the one that needs the least relaxation.
    Among plans of equal cost it takes the fewest moves from the current placement. `gap` is 0 where the plan
    is proven best in the largest share. A large problem that gives neither plan nor proof raises Undecided.
    """
    if limits is None:
        return tune_and_place(problem)[1] if _any_plan(problem) else None
    alpha = Limits.of(limits).vector(problem)
    return _best(problem, _solver(problem), alpha) if _any_plan(problem) else None


def tune_and_place(problem: Problem) -> tuple[Limits, Placement]:
    """The thresholds of `tune` and the best plan within them, for the work of one."""
    if not _any_plan(problem):
        raise NoPlan(_NO_PLAN)
    solver = _solver(problem)
    limits = tuned(problem, solver)
    plan = _best(problem, solver, limits.vector(problem))
    assert plan is not None, "tuned limits have a plan"
    return limits, plan


def _best(problem: Problem, solver: Solver, alpha: Floats) -> Placement | None:
    found = solver.best(alpha)
    if found is None:
        return None
    plan, objective, bound = found
    return placement(problem, _fewest_moves(problem, plan), objective=objective, lower_bound=bound)


def _any_plan(problem: Problem) -> bool:
    """Whether the rules alone (slots, pinned, forbidden, moves) allow any plan."""
    wish = np.zeros(problem.lower.shape) if problem.current is None else problem.current.astype(float)
    plan = nearest_plan(problem, wish)
    return plan is not None and (problem.max_moves is None or problem.moves(plan) <= problem.max_moves)


def _solver(problem: Problem) -> Solver:
    """Exact where that is quick, else search with proof."""
    if problem.rtt_ms is not None:
        return listed(problem) or Searched(problem)
    return Ranked(problem) if reach_seconds(problem) <= _EXACT_BELOW_S else Searched(problem)


def _fewest_moves(problem: Problem, plan: Ints) -> Ints:
    """A plan of the same cost with the fewest moves from the current placement."""
    if problem.current is None:
        return plan
    plan = _relabelled(problem, plan)
    loads = plan_loads(problem, plan[None])[0]
    if problem.rtt_ms is not None:
        return plan
    low, high = 0, problem.moves(plan)
    while low < high:
        middle = (low + high) // 2
        trial = replace(problem, max_moves=middle)
        if reach_seconds(trial) > _EXACT_BELOW_S:
            low = middle + 1
            continue
        found = _plan_within(trial, loads)
        if found is None:
            low = middle + 1
        else:
            plan, high = found, problem.moves(found)
    return plan


def _plan_within(problem: Problem, loads: Floats) -> Ints | None:
    ranked = Ranked(problem)
    ranks = ranked.space.ranks_within(loads)
    return None if (ranks < 0).any() else ranked.reach.plan(ranks)


def _relabelled(problem: Problem, plan: Ints) -> Ints:
    """Give interchangeable workers the contents that match what they run now."""
    assert problem.current is not None
    made = plan.copy()
    for members in worker_classes(problem):
        rows = np.array(members)
        moved = np.maximum(plan[rows][:, None, :] - problem.current[rows][None, :, :], 0).sum(axis=2)
        content, worker = linear_sum_assignment(moved)
        made[rows[worker]] = plan[rows[content]]
    return made
