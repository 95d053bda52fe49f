"""Exact solvers: one over ranked count vectors, one that lists all plans where latency ties workers."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fogmodels.placement.costs import Scale, plan_loads
from fogmodels.placement.counting import TooLarge, count_within
from fogmodels.placement.front import front_ranks, least_rank
from fogmodels.placement.problem import Floats, Ints, Problem
from fogmodels.placement.reach import Reach
from fogmodels.placement.vectors import VectorSpace, state_extent, vector_count, vector_space, worker_classes

MOST_VECTORS = 60_000
MOST_NUMBERS_LISTED = 12_000_000
_SECONDS_PER_VECTOR, _SECONDS_PER_BIT = 7e-7, 6e-11
SAME_SHARE = 1e-10
"""Shares of limits that differ by less are one: thresholds relaxed together make ties up to rounding."""


class Solver(Protocol):
    """What tuning and placing need to know about a problem; answers carry a proven lower bound."""

    exact: bool

    def least_load(self, dimension: int) -> tuple[float, float]:
        """The least load found in one dimension when the others are free, and a lower bound of it."""

    def feasible(self, alpha: Floats) -> bool | None:
        """Whether a plan keeps the thresholds; None if neither a plan nor a proof was found."""

    def best(self, alpha: Floats) -> tuple[Ints, float, float] | None:
        """The best plan within the thresholds, its objective, a lower bound of that; None if no plan."""


def shares(scale: Scale, loads: Floats, alpha: Floats) -> Floats:
    """How much of each threshold the costs use; 0 where the threshold is 0 (the cost then is, too)."""
    weight = np.where(np.isinf(alpha), 1.0, alpha)
    free = scale.flat | (weight <= 0)
    return np.where(free, 0.0, scale.costs(loads) / np.where(free, 1.0, weight))


def order_key(used: Floats) -> tuple[float, ...]:
    """Sort key of a plan: its largest share of a limit, then the second largest, and so on."""
    return tuple(np.round(np.sort(used)[::-1], 10))


def reach_seconds(problem: Problem) -> float:
    """A rough estimate of the CPU time of one feasibility question."""
    vectors = vector_count(problem)
    if vectors > MOST_VECTORS:
        return float("inf")
    bits = float(np.prod([n + 1.0 for n in state_extent(problem)[1]]))
    layers = len(problem.workers) / (2 if len(worker_classes(problem)) == 1 else 1)
    per_class = vectors / len(worker_classes(problem))
    return layers * per_class * (_SECONDS_PER_VECTOR + bits * _SECONDS_PER_BIT)


class Ranked:
    """Exact answers for cpu, io and net: bitset feasibility and searches over load ranks."""

    exact = True

    def __init__(self, problem: Problem, space: VectorSpace | None = None) -> None:
        self.problem = problem
        self.space = space or vector_space(problem)
        self.scale = Scale.of(problem)
        self.reach = Reach(self.space)
        self.top = np.array([len(level) - 1 for level in self.space.levels], dtype=np.int64)

    def _ranks(self, alpha: Floats) -> Ints:
        return np.minimum(self.space.ranks_within(self.scale.loads(alpha)), self.top)

    def least_load(self, dimension: int) -> tuple[float, float]:
        """See Solver."""
        load = float(self.space.levels[dimension][least_rank(self.reach, self.top, dimension)])
        return load, load

    def feasible(self, alpha: Floats) -> bool | None:
        """See Solver."""
        ranks = self._ranks(alpha)
        return bool((ranks >= 0).all()) and self.reach.feasible(ranks)

    def best(self, alpha: Floats) -> tuple[Ints, float, float] | None:
        """See Solver. Bisect the largest share any cost may use, then compare the Pareto points within."""
        ranks = self._ranks(alpha)
        if (ranks < 0).any() or not self.reach.feasible(ranks):
            return None
        used = self._level_shares(alpha)
        steps = np.unique(np.concatenate([u[: r + 1] for u, r in zip(used, ranks, strict=True)]))
        low, high = 0, len(steps) - 1
        while low < high:
            middle = (low + high) // 2
            trial = self._ranks_using(used, steps[middle], ranks)
            if (trial >= 0).all() and self.reach.feasible(trial):
                high = middle
            else:
                low = middle + 1
        points = front_ranks(self.reach, self._ranks_using(used, steps[low] + SAME_SHARE, ranks))
        chosen = min(
            points,
            key=lambda q: (order_key(np.array([used[d][q[d]] for d in range(len(q))])), tuple(map(int, q))),
        )
        plan = self.reach.plan(chosen)
        assert plan is not None
        objective = max(float(used[d][chosen[d]]) for d in range(len(chosen)))
        return plan, objective, objective

    def _level_shares(self, alpha: Floats) -> list[Floats]:
        made = []
        for d, level in enumerate(self.space.levels):
            loads = np.tile(self.scale.least, (len(level), 1))
            loads[:, d] = level
            made.append(np.asarray(shares(self.scale, loads, alpha)[:, d]))
        return made

    @staticmethod
    def _ranks_using(used: list[Floats], most: float, ranks: Ints) -> Ints:
        allowed = [np.searchsorted(u, most, side="right") - 1 for u in used]
        return np.minimum(np.array(allowed, dtype=np.int64), ranks)

    def front(self) -> list[Ints]:
        """Rank vectors of the Pareto front."""
        return front_ranks(self.reach, self.top) if self.reach.feasible(self.top) else []


class Listed:
    """Exact answers with latency: every plan is listed once and its loads are kept in a table."""

    exact = True

    def __init__(self, problem: Problem, plans: Ints) -> None:
        self.problem = problem
        self.scale = Scale.of(problem)
        self.plans = plans
        batch = max(1, 2_000_000 // (plans.shape[1] * plans.shape[2]))
        parts = [plan_loads(problem, plans[k : k + batch]) for k in range(0, len(plans), batch)]
        self.loads = np.concatenate(parts) if parts else np.zeros((0, len(problem.dimensions)))

    def least_load(self, dimension: int) -> tuple[float, float]:
        """See Solver."""
        load = float(self.loads[:, dimension].min())
        return load, load

    def feasible(self, alpha: Floats) -> bool | None:
        """See Solver."""
        return bool(self.scale.within(self.loads, self.scale.loads(alpha)).any())

    def best(self, alpha: Floats) -> tuple[Ints, float, float] | None:
        """See Solver."""
        keep = np.flatnonzero(self.scale.within(self.loads, self.scale.loads(alpha)))
        if len(keep) == 0:
            return None
        used = shares(self.scale, self.loads[keep], alpha)
        keys = np.round(np.sort(used, axis=1)[:, ::-1], 10)
        first = int(np.lexsort(keys.T[::-1])[0])
        objective = float(used[first].max())
        return self.plans[keep[first]], objective, objective

    def front(self) -> Ints:
        """Positions of all Pareto-optimal plans."""
        grid = np.round(self.loads / np.where(self.scale.worst > 0, self.scale.worst, 1.0), 11)
        values, where = np.unique(grid, axis=0, return_inverse=True)
        good = np.ones(len(values), dtype=bool)
        for k, value in enumerate(values):
            if good[k]:
                worse = (values >= value).all(axis=1)
                worse[k] = False
                good &= ~worse
        return np.flatnonzero(good[where.reshape(-1)])


def listed(problem: Problem) -> Listed | None:
    """The listing solver, or None where there are too many plans to list."""
    if reach_seconds(problem) > 1.0:
        return None
    ranked = Ranked(problem)
    most = MOST_NUMBERS_LISTED // (len(problem.workers) * len(problem.operators))
    try:
        if count_within(ranked.space, ranked.top) > most:
            return None
        return Listed(problem, ranked.reach.plans(ranked.top, 4 * most))
    except TooLarge:
        return None
