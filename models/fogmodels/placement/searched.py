"""The solver for large problems: local search for the plan, a linear relaxation for the proof."""

from __future__ import annotations

import numpy as np

from fogmodels.placement.bound import Relaxation, latency_bound
from fogmodels.placement.costs import Scale, plan_loads
from fogmodels.placement.descent import Descent, Found
from fogmodels.placement.problem import Floats, Ints, Problem
from fogmodels.placement.start import nearest_plan

_FULL_EFFORT = 1_500


class Undecided(ValueError):  # noqa: N818 - reads as the sentence it is
    """No plan within the limits was found, and none was proven impossible."""


class Searched:
    """Answers with a lower bound beside them (see exact.Solver)."""

    exact = False

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.scale = Scale.of(problem)
        self.relaxation = Relaxation(problem)
        self.starts = _starts(problem)
        self._seen: list[Ints] = list(self.starts)

    def least_load(self, dimension: int) -> tuple[float, float]:
        """See exact.Solver."""
        free = np.full(len(self.scale.least), np.inf)
        bound = self._load_bound(dimension, free)
        goal = float(self._cost(dimension, bound))
        found = self._search(np.ones(len(free)), (dimension,), rounds=4, good_enough=goal)
        load = float(plan_loads(self.problem, found.plan[None])[0, dimension])
        return load, min(bound, load)

    def _cost(self, dimension: int, load: float) -> float:
        loads = self.scale.least.copy()
        loads[dimension] = load
        return float(self.scale.costs(loads)[dimension])

    def _load_bound(self, dimension: int, limits: Floats) -> float:
        if dimension == 3:
            return latency_bound(self.problem)
        return self.relaxation.network(limits) if dimension == 2 else self.relaxation.linear_bound(dimension)

    def _search(self, alpha: Floats, only: tuple[int, ...] | None, rounds: int, good_enough: float) -> Found:
        descent = Descent(self.problem, alpha, only)
        ranked = sorted(self._seen, key=descent.objective)
        best: Found | None = None
        # Large problems get fewer rounds: what they take grows with the table of exchanges.
        size = len(self.problem.workers) * descent.kinds**2 * (8 if 3 in descent.active else 1)
        rounds = min(rounds, rounds * _FULL_EFFORT // size)
        for plan in ranked[: 2 if rounds else 1]:
            found = descent.run(plan, rounds=rounds, good_enough=good_enough)
            if best is None or found.objective < best.objective:
                best = found
            if best.objective <= good_enough + 1e-12:
                break
        assert best is not None
        self._seen.append(best.plan)
        return best

    def feasible(self, alpha: Floats) -> bool | None:
        """See exact.Solver."""
        if any(self._keeps(plan, alpha) for plan in self._seen):
            return True
        if self.relaxation.excludes(alpha):
            return False
        found = self._search(alpha, None, rounds=8, good_enough=1.0)
        return True if self._keeps(found.plan, alpha) else None

    def _keeps(self, plan: Ints, alpha: Floats) -> bool:
        return bool(self.scale.within(plan_loads(self.problem, plan[None])[0], self.scale.loads(alpha)))

    def best(self, alpha: Floats) -> tuple[Ints, float, float] | None:
        """See exact.Solver."""
        bound = self.relaxation.objective(alpha)
        if np.isinf(bound):
            return None
        found = self._search(alpha, None, rounds=10, good_enough=bound)
        if not self._keeps(found.plan, alpha):
            for d in range(len(alpha)):  # plans good in one dimension are other places to start from
                self.least_load(d)
            found = min(
                (found, self._search(alpha, None, rounds=30, good_enough=1.0)), key=lambda f: f.objective
            )
        if not self._keeps(found.plan, alpha):
            raise Undecided(
                "no plan within the limits was found, but none is proven impossible: "
                f"the best one uses {found.objective:.4g} of a limit, the proven least is {bound:.4g}"
            )
        return found.plan, found.objective, min(bound, found.objective)


def _starts(problem: Problem) -> list[Ints]:
    """Plans to start from: the fewest moves where moves are limited, else an even spread by slots."""
    if problem.max_moves is not None and problem.current is not None:
        plan = nearest_plan(problem, problem.current.astype(float))
        return [] if plan is None or problem.moves(plan) > problem.max_moves else [plan]
    need, slots = problem.parallelism, problem.slots
    wishes = [np.outer(slots / slots.sum(), need)]
    capacity = problem.capacities()[0]
    if np.ptp(capacity):
        wishes.append(np.outer(capacity / capacity.sum(), need))
    if problem.rtt_ms is not None:
        wishes.append(_compact(problem))
    found = [nearest_plan(problem, wish) for wish in wishes]
    return [plan for plan in found if plan is not None]


def _compact(problem: Problem) -> Floats:
    """All tasks around the worker with the nearest slots: a start for plans with little latency."""
    assert problem.rtt_ms is not None
    slots, reach = problem.slots, []
    for w in range(len(slots)):
        near = np.argsort(problem.rtt_ms[w], kind="stable")
        last = int(np.searchsorted(np.cumsum(slots[near]), problem.tasks))
        reach.append((float(problem.rtt_ms[w][near[last]]), w))
    near = np.argsort(problem.rtt_ms[min(reach)[1]], kind="stable")
    taken = np.zeros(len(slots))
    left = problem.tasks
    for w in near:
        taken[w] = min(int(slots[w]), left)
        left -= int(taken[w])
    return np.outer(taken / problem.tasks, problem.parallelism)
