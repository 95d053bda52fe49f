"""What a plan costs: the load of each worker, the bounds of CAPSys section 4.2, the finished Placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fogmodels.placement.problem import SEPARABLE, Bools, Floats, Ints, Problem

SAME_LOAD = 1e-11
"""Loads closer than this part of the worst load are one load: they differ by the order of summing only."""
LIMIT_SLACK = 1e-9
"""A limit is kept when the load exceeds it by no more than this part of the worst load (never rounded)."""


class LoadModel:
    """Loads (cpu, io, net) of a worker of capacity 1 from its count vector, with all factors worked out once.

    Network traffic that leaves the worker is U_net · |D_r| / |D| summed over its tasks (Eq. 8): linear in the
    counts, less a product of counts for each edge. A FORWARD edge may count pairs instead (see Problem).
    """

    __slots__ = ("_linear", "_pairs", "_products")

    def __init__(self, problem: Problem) -> None:
        self._linear = problem.unit_costs().T.copy()
        rate = self._linear[:, 2].copy()
        self._linear[:, 2] = 0.0
        self._products = np.zeros((len(rate), len(rate)))
        self._pairs: list[tuple[int, int, float]] = []
        for i, op in enumerate(problem.operators):
            downs = [b for a, b in problem.edges if a == i]
            if not downs or rate[i] == 0:
                continue
            if op.outbound == "FORWARD" and problem.forward == "pairs":
                self._pairs += [(i, j, rate[i] / len(downs)) for j in downs]
            else:
                self._linear[i, 2] = rate[i]
                self._products[i, downs] = rate[i] / float(problem.parallelism[downs].sum())

    def __call__(self, counts: Ints) -> Floats:
        """Loads of workers that hold `counts` (one row each): a row of cpu, io, net for each."""
        tasks = counts.astype(float)
        loads: Floats = tasks @ self._linear
        loads[:, 2] -= np.einsum("ij,ij->i", tasks @ self._products, tasks)
        for i, j, rate in self._pairs:
            loads[:, 2] += rate * np.maximum(tasks[:, i] - tasks[:, j], 0.0)
        np.maximum(loads, 0.0, out=loads)  # a difference of equal products may end a hair below zero
        return loads


def worker_loads(problem: Problem, counts: Ints) -> Floats:
    """Loads (cpu, io, net) of workers of capacity 1 that hold `counts` (one row each): Eqs. 5 and 8."""
    return LoadModel(problem)(counts)


def latencies(problem: Problem, plans: Ints) -> Floats:
    """Latency load in ms of plans (plans × workers × operators).

    The mean round trip that a unit of traffic pays between connected tasks, plus the mean over the
    operators of ND_max, the largest round trip between two workers that hold tasks of that operator
    (a micro-batch waits for its farthest replica; Gesscale, section III).
    """
    assert problem.rtt_ms is not None
    rtt, need = problem.rtt_ms, problem.parallelism.astype(float)
    held = plans.astype(float)
    crossing, traffic = np.zeros(len(plans)), 0.0
    for i, op in enumerate(problem.operators):
        downs = [b for a, b in problem.edges if a == i]
        if not downs or op.net == 0:
            continue
        links = need[downs].sum()
        towards = held[:, :, downs].sum(axis=2) / links
        crossing += op.net * np.einsum("pw,wv,pv->p", held[:, :, i], rtt, towards, optimize=True)
        traffic += op.net * need[i]
    spread = np.zeros(len(plans))
    for i in range(len(problem.operators)):
        used = plans[:, :, i] > 0
        worst = np.zeros(len(plans))
        for w in np.flatnonzero(used.any(axis=0)):
            rows = np.flatnonzero(used[:, w])
            worst[rows] = np.maximum(worst[rows], (used[rows] * rtt[w]).max(axis=1))
        spread += worst
    spread /= len(problem.operators)
    return spread if traffic == 0 else crossing / traffic + spread


def plan_loads(problem: Problem, plans: Ints) -> Floats:
    """Loads of whole plans (plans × workers × operators): the worst worker per dimension, then latency."""
    many, workers, ops = plans.shape
    each = worker_loads(problem, plans.reshape(-1, ops)).reshape(many, workers, 3)
    worst: Floats = (each / problem.capacities().T[None]).max(axis=1)
    if problem.rtt_ms is None:
        return worst
    return np.column_stack([worst, latencies(problem, plans)])


def bounds(problem: Problem) -> dict[str, tuple[float, float]]:
    """L_min and L_max per dimension (Eqs. 6 and 7; section 4.2 for the network: L_min = 0).

    With unequal workers a load is divided by the worker's capacity: L_min spreads all work in
    proportion to capacity, L_max is the worst of the workers filled with the heaviest tasks.
    Latency runs from 0 to twice the largest round trip (traffic and ND_max, both at their worst).
    """
    units, capacity, need = problem.unit_costs(), problem.capacities(), problem.parallelism
    made: dict[str, tuple[float, float]] = {}
    for d, name in enumerate(SEPARABLE):
        heaviest = np.repeat(units[d], need)
        heaviest[::-1].sort()
        worst = max(
            float(heaviest[: w.slots].sum()) / float(capacity[d, k]) for k, w in enumerate(problem.workers)
        )
        least = 0.0 if name == "net" else float(units[d] @ need) / float(capacity[d].sum())
        made[name] = (least, worst)
    if problem.rtt_ms is not None:
        made["latency"] = (0.0, 2.0 * float(problem.rtt_ms.max()))
    return made


@dataclass(frozen=True, slots=True)
class Scale:
    """Turns loads into costs (Eq. 4) and thresholds into loads (Eq. 10), for all dimensions at once."""

    least: Floats
    worst: Floats

    @classmethod
    def of(cls, problem: Problem) -> Scale:
        """The scale of a problem's own bounds."""
        both = np.array(list(bounds(problem).values()))
        return cls(both[:, 0], both[:, 1])

    @property
    def flat(self) -> Bools:
        """Dimensions in which every plan costs the same (L_max = L_min up to summing order)."""
        return self.worst - self.least <= SAME_LOAD * np.maximum(self.worst, 0.0)

    def costs(self, loads: Floats) -> Floats:
        """Eq. 4: 0 is perfectly balanced, 1 the worst case; 0 where all plans are equal."""
        span = np.where(self.flat, 1.0, self.worst - self.least)
        balanced = self.flat | (loads - self.least <= SAME_LOAD * self.worst)
        return np.where(balanced, 0.0, (loads - self.least) / span)

    def loads(self, costs: Floats) -> Floats:
        """Eq. 10: the largest load a threshold allows (no limit where all plans are equal)."""
        free = self.flat | np.isinf(costs)
        return np.where(free, np.inf, self.least + np.where(free, 0.0, costs) * (self.worst - self.least))

    def within(self, loads: Floats, limit_loads: Floats) -> Bools:
        """Whether loads keep the limits in every dimension."""
        return np.asarray((loads <= limit_loads + LIMIT_SLACK * self.worst).all(axis=-1))


class TaskCounts(dict[str, int]):
    """Tasks of one worker by operator id; an operator's name works too, and 0 where there is none."""

    __slots__ = ("_names",)

    def __init__(self, counts: Mapping[str, int], names: Mapping[str, str]) -> None:
        super().__init__(counts)
        self._names = dict(names)

    def __missing__(self, key: str) -> int:
        if key not in self._names:
            raise KeyError(key)
        return super().get(self._names[key], 0)

    def get(self, key: str, default: Any = None) -> Any:
        """Like `dict.get`, but known operators without tasks give 0."""
        try:
            return self[key]
        except KeyError:
            return default


@dataclass(frozen=True, slots=True)
class Placement:
    """A plan: tasks per worker and operator, its loads and normalised costs, and how good it provably is.

    `objective` is the largest share of a limit that a cost uses; `lower_bound` is the least any plan can
    reach, `gap` their difference (0: proven best). `moves` counts tasks moved from the current placement.
    """

    assignment: dict[str, TaskCounts]
    cost: dict[str, float]
    load: dict[str, float]
    objective: float = 0.0
    lower_bound: float = 0.0
    moves: int = 0
    counts: Ints = field(repr=False, compare=False, default_factory=lambda: np.zeros((0, 0), dtype=np.int64))

    @property
    def gap(self) -> float:
        """How much of a limit the plan may still be away from the best one; 0 if it is proven best."""
        return max(0.0, self.objective - self.lower_bound)


def placement(
    problem: Problem, plan: Ints, *, objective: float = 0.0, lower_bound: float | None = None
) -> Placement:
    """The finished value for a plan given as a workers × operators array."""
    loads = plan_loads(problem, plan[None])[0]
    costs = Scale.of(problem).costs(loads)
    names = {op.id: op.id for op in problem.operators}
    for op in problem.operators:
        names.setdefault(op.name, op.id)
    assignment = {
        w.name: TaskCounts(
            {op.id: int(n) for op, n in zip(problem.operators, plan[k], strict=True) if n}, names
        )
        for k, w in enumerate(problem.workers)
    }
    dims = problem.dimensions
    return Placement(
        assignment,
        dict(zip(dims, map(float, costs), strict=True)),
        dict(zip(dims, map(float, loads), strict=True)),
        objective,
        objective if lower_bound is None else lower_bound,
        problem.moves(plan),
        plan.astype(np.int64),
    )
