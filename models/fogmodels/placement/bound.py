"""Lower bounds that no plan can beat, for problems too large to solve exactly: a linear relaxation."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from fogmodels.placement.costs import LIMIT_SLACK, Scale
from fogmodels.placement.exact import shares
from fogmodels.placement.problem import Floats, Problem
from fogmodels.placement.vectors import worker_classes

_BISECTIONS = 12


class Relaxation:
    """Bounds loads from below by moments: per class of workers, sums of tasks x_i and of products z_ij.

    Any plan gives such sums. Each linear rule of a worker (bounds on a count, a cpu or io limit, filled
    slots) multiplied by another rule stays true and is linear in x and z (reformulation-linearisation), and
    whole numbers satisfy n² >= (2k + 1) n - k (k + 1). The network load (Eq. 8) is linear in x and z too.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.scale = Scale.of(problem)
        self.classes = worker_classes(problem)
        self.need = [*map(int, problem.parallelism), int(problem.slots.sum()) - problem.tasks]
        self.kinds = len(self.need) if self.need[-1] else len(self.need) - 1  # idle slots are a kind of task
        self.units = np.zeros((3, self.kinds))
        self.units[:, : len(problem.operators)] = problem.unit_costs()

    # -- variables of class c: x_0.., then z_ij for i <= j, then one per FORWARD pair, last the network load

    def _sizes(self) -> tuple[int, int]:
        kinds = self.kinds
        pairs = len(self._forward_pairs())
        return kinds, kinds + kinds * (kinds + 1) // 2 + pairs

    def _z(self, i: int, j: int) -> int:
        i, j = min(i, j), max(i, j)
        return self.kinds + i * self.kinds - i * (i - 1) // 2 + (j - i)

    def _forward_pairs(self) -> list[tuple[int, int]]:
        if self.problem.forward != "pairs":
            return []
        ops = self.problem.operators
        return [(a, b) for a, b in self.problem.edges if ops[a].outbound == "FORWARD" and ops[a].net > 0]

    def linear_bound(self, dimension: int) -> float:
        """A lower bound of the worst cpu or io load: an even spread, and whole tasks per worker.

        The tasks at least as heavy as u must fit, floor(L · capacity / u) to a worker.
        """
        problem, units = self.problem, self.problem.unit_costs()[dimension]
        capacity, slots = problem.capacities()[dimension], problem.slots
        best = float(self.scale.least[dimension])
        for u in np.unique(units[units > 0]):
            heavy = units >= u
            tasks = int(problem.parallelism[heavy].sum())
            room = np.minimum(slots, problem.upper[:, heavy].sum(axis=1))
            options = np.unique(
                np.concatenate(
                    [np.arange(1, int(r) + 1) * u / c for r, c in zip(room, capacity, strict=True)]
                )
            )
            low, high = 0, len(options) - 1
            while low < high:
                middle = (low + high) // 2
                fits = np.minimum(room, np.floor(options[middle] * capacity / u * (1 + 1e-12) + 1e-12)).sum()
                low, high = (low, middle) if fits >= tasks else (middle + 1, high)
            best = max(best, float(options[low]))
        return best

    def network(self, limits: Floats) -> float:
        """The least worst network load of any plan within these cpu and io loads; inf if there is none."""
        rows = _Rows()
        kinds, width = self._sizes()
        for c, members in enumerate(self.classes):
            self._class_rows(rows, c * width, members, limits)
        goal = len(self.classes) * width
        equal = _Rows()
        for i in range(kinds):
            equal.add([(c * width + i, 1.0) for c in range(len(self.classes))], float(self.need[i]))
        for c, members in enumerate(self.classes):
            self._slot_rows(equal, c * width, members[0])
            rows.add(self._network_row(c * width, goal, members), 0.0)
            for n, (a, b) in enumerate(self._forward_pairs()):
                extra = c * width + width - len(self._forward_pairs()) + n
                rows.add([(c * width + a, 1.0), (c * width + b, -1.0), (extra, -1.0)], 0.0)
        cost = np.zeros(goal + 1)
        cost[goal] = 1.0
        found = linprog(
            cost,
            A_ub=rows.matrix(goal + 1),
            b_ub=np.array(rows.right),
            A_eq=equal.matrix(goal + 1),
            b_eq=np.array(equal.right),
            bounds=(0, None),
            method="highs",
        )
        if found.status == 2:
            return float("inf")
        if found.status != 0 or found.fun is None:
            return 0.0  # no proof: the trivial bound
        return max(0.0, float(found.fun) - 1e-7 * float(self.scale.worst[2]))

    def _network_row(self, at: int, goal: int, members: tuple[int, ...]) -> list[tuple[int, float]]:
        problem = self.problem
        row: list[tuple[int, float]] = []
        pairs = self._forward_pairs()
        for i, op in enumerate(problem.operators):
            downs = [b for a, b in problem.edges if a == i]
            if not downs or op.net == 0:
                continue
            if (i, downs[0]) in pairs:
                row += [
                    (at + self._sizes()[1] - len(pairs) + pairs.index((i, j)), op.net / len(downs))
                    for j in downs
                ]
                continue
            links = sum(self.need[j] for j in downs)
            row.append((at + i, op.net))
            row += [(at + self._z(i, j), -op.net / links) for j in downs]
        # The mean over the class bounds its worst worker from below.
        return [*row, (goal, -float(len(members)) * problem.workers[members[0]].net)]

    def _slot_rows(self, equal: _Rows, at: int, worker: int) -> None:
        """All slots are filled (idle ones too); so they are when counted once per task of each kind."""
        slots = float(self.problem.workers[worker].slots)
        members = next(m for m in self.classes if m[0] == worker)
        equal.add([(at + i, 1.0) for i in range(self.kinds)], slots * len(members))
        for i in range(self.kinds):
            equal.add([*((at + self._z(i, j), 1.0) for j in range(self.kinds)), (at + i, -slots)], 0.0)

    def _class_rows(self, rows: _Rows, at: int, members: tuple[int, ...], limits: Floats) -> None:
        rules = self._rules(members[0], limits)
        count = float(len(members))
        for a in range(len(rules)):
            for b in range(a, len(rules)):
                (base_a, row_a), (base_b, row_b) = rules[a], rules[b]
                terms = [(at + i, -(base_a * row_b[i] + base_b * row_a[i])) for i in range(self.kinds)]
                for i in range(self.kinds):
                    for j in range(self.kinds):
                        product = row_a[i] * row_b[j]
                        if product:
                            terms.append((at + self._z(i, j), -product))
                rows.add(terms, base_a * base_b * count)
        for base, row in rules:
            rows.add([(at + i, -row[i]) for i in range(self.kinds)], base * count)
        self._whole_rows(rows, at, members)

    def _rules(self, worker: int, limits: Floats) -> list[tuple[float, Floats]]:
        """Linear rules of one worker, each as base + row · n >= 0, scaled to about 1."""
        problem = self.problem
        slots = problem.workers[worker].slots
        lower = np.zeros(self.kinds)
        upper = np.full(self.kinds, float(min(slots, self.need[-1])))
        lower[: len(problem.operators)] = problem.lower[worker]
        upper[: len(problem.operators)] = problem.upper[worker]
        made: list[tuple[float, Floats]] = []
        capacity = problem.capacities()[:, worker]
        for d in (0, 1):
            most = limits[d] * capacity[d]
            if not np.isfinite(most) or not self.units[d].any():
                continue
            heavy = self.units[d] > 0
            upper[heavy] = np.minimum(upper[heavy], np.floor(most / self.units[d][heavy] * (1 + 1e-9) + 1e-9))
            size = max(most, float(self.units[d].max()))
            if size > 0 and slots * self.units[d].max() > most:
                made.append((most / size, -self.units[d] / size))
        for i in range(self.kinds):
            unit = np.zeros(self.kinds)
            unit[i] = 1.0 / max(1.0, float(slots))
            made.append((-lower[i] * unit[i], unit))
            made.append((upper[i] * unit[i], -unit))
        return made

    def _whole_rows(self, rows: _Rows, at: int, members: tuple[int, ...]) -> None:
        """Whole numbers: (n - k)(n - k - 1) >= 0 for single kinds and for sums of two kinds."""
        count = len(members)
        slots = self.problem.workers[members[0]].slots
        kinds = [(i,) for i in range(self.kinds)] + [
            (i, j) for i in range(self.kinds) for j in range(i + 1, self.kinds)
        ]
        for group in kinds:
            total = sum(self.need[i] for i in group)
            if len(self.classes) == 1:
                steps = {total // count}
            else:
                most = min(slots, total)
                steps = (
                    set(range(most)) if most <= 12 else set(np.linspace(0, most - 1, 12).astype(int).tolist())
                )
                if len(group) > 1:
                    continue
            for k in steps:
                terms = [(at + i, 2.0 * k + 1.0) for i in group]
                terms += [(at + self._z(i, j), -1.0) for i in group for j in group]
                rows.add(terms, float(k * (k + 1) * count))

    def excludes(self, alpha: Floats) -> bool:
        """Whether it is proven that no plan keeps the thresholds."""
        return not self.scale.within(self._floor(), self.scale.loads(alpha)) or self._excluded(alpha, 1.0)

    def _floor(self) -> Floats:
        """A lower bound of the load in each dimension alone; the network's is left to the relaxation."""
        floor = self.scale.least.copy()
        floor[:2] = self.linear_bound(0), self.linear_bound(1)
        if self.problem.rtt_ms is not None:
            floor[3] = latency_bound(self.problem)
        return floor

    def objective(self, alpha: Floats) -> float:
        """A lower bound of the largest share of a threshold that any plan uses (inf: none keeps them)."""
        if self.excludes(alpha):
            return float("inf")
        low, high = float(shares(self.scale, self._floor(), alpha).max()), 1.0
        if low >= high or not self._excluded(alpha, low):
            return low
        # A bound need not be sharp to be true: stop early where each question is a large linear program.
        for _ in range(_BISECTIONS if len(self.classes) <= 4 else _BISECTIONS // 2):
            middle = (low + high) / 2
            low, high = (middle, high) if self._excluded(alpha, middle) else (low, middle)
        return low

    def _excluded(self, alpha: Floats, share: float) -> bool:
        """Whether the relaxation proves that no plan keeps `share` of every threshold."""
        weight = np.where(np.isinf(alpha), 1.0, alpha)
        limits = np.minimum(self.scale.loads(weight * share), self.scale.loads(alpha))
        limits = limits + LIMIT_SLACK * self.scale.worst
        return self.network(limits) > float(limits[2])


class _Rows:
    """Sparse constraint rows under construction."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, float]] = []
        self.right: list[float] = []

    def add(self, terms: list[tuple[int, float]], right: float) -> None:
        number = len(self.right)
        self.entries += [(number, column, value) for column, value in terms if value]
        self.right.append(right)

    def matrix(self, width: int) -> Any:
        table = np.array(self.entries, dtype=float).reshape(-1, 3)
        rows, columns = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
        return csr_array((table[:, 2], (rows, columns)), shape=(len(self.right), width))


def latency_bound(problem: Problem) -> float:
    """A lower bound of the latency load: every task's traffic goes to the nearest slots there are.

    And ND_max of an operator is at least the least radius around a worker it may use with slots enough.
    """
    assert problem.rtt_ms is not None
    rtt, slots = problem.rtt_ms, problem.slots
    crossing = traffic = spread = 0.0
    for i, op in enumerate(problem.operators):
        allowed = np.flatnonzero(problem.upper[:, i] > 0)
        nearest = [np.argsort(rtt[w], kind="stable") for w in range(len(slots))]
        radius = float("inf")
        for w in allowed:
            room = np.cumsum(problem.upper[nearest[w], i])
            radius = min(radius, float(rtt[w][nearest[w][int(np.searchsorted(room, op.parallelism))]]))
        spread += radius
        downs = [b for a, b in problem.edges if a == i]
        if not downs or op.net == 0:
            continue
        links = int(problem.parallelism[downs].sum())
        least = float("inf")
        for w in allowed:
            room = np.minimum(problem.upper[:, downs].sum(axis=1), slots)
            room[w] = min(int(room[w]), int(slots[w]) - 1)  # the sending task itself takes a slot
            taken = np.minimum(np.cumsum(room[nearest[w]]), links)
            share = np.diff(np.concatenate([[0], taken]))
            if taken[-1] == links:
                least = min(least, float(share @ rtt[w][nearest[w]]) / links)
        crossing += op.net * op.parallelism * (least if np.isfinite(least) else 0.0)
        traffic += op.net * op.parallelism
    return spread / len(problem.operators) + (crossing / traffic if traffic else 0.0)
