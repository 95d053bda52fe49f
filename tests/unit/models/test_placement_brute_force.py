"""Placement against a judge that tries every plan, task by task and link by link, in exact fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from fogmodels.placement import Limits, Problem, Undecided, bounds, count_plans, pareto, place, tune
from fogmodels.placement.bound import Relaxation
from fogmodels.placement.costs import Scale
from fogmodels.placement.searched import Searched
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
COSTS = ["0", "0.1", "1", "2.5", "3", "7.3"]

Plan = tuple[tuple[int, ...], ...]


class Judge:
    """Every plan of a small problem with its exact loads, from the paper's formulas and nothing of ours."""

    def __init__(self, d: dict[str, Any]) -> None:
        self.d = d
        self.ops = d["operators"]
        workers = d["workers"]
        self.workers = (
            [{"name": f"w{k + 1}"} for k in range(workers)] if isinstance(workers, int) else workers
        )
        self.slots = [w.get("slots", d.get("slots")) for w in self.workers]
        self.names = [w["name"] for w in self.workers]
        self.rtt = d.get("rtt_ms")
        self.dims = ["cpu", "io", "net"] + (["latency"] if self.rtt else [])
        self.plans = sorted({self.canonical(p) for p in self._all() if self.allowed(p)}, reverse=True)
        self.loads = {p: self.load(p) for p in self.plans}
        ranges = self.bounds()
        self.costs = {p: self._cost(load, ranges) for p, load in self.loads.items()}

    def _all(self) -> Any:
        spreads = []
        for op in self.ops:
            options = itertools.product(*(range(min(op["parallelism"], s) + 1) for s in self.slots))
            spreads.append([o for o in options if sum(o) == op["parallelism"]])
        for columns in itertools.product(*spreads):
            plan = tuple(zip(*columns, strict=True))
            if all(sum(row) <= s for row, s in zip(plan, self.slots, strict=True)):
                yield plan

    def allowed(self, plan: Plan) -> bool:
        ids = [op["id"] for op in self.ops]
        for name, where in self.d.get("pinned", {}).items():
            i = ids.index(name)
            for k, worker in enumerate(self.names):
                if isinstance(where, dict) and plan[k][i] < where.get(worker, 0):
                    return False
                if isinstance(where, list) and worker not in where and plan[k][i]:
                    return False
        for name, where in self.d.get("forbidden", {}).items():
            if any(plan[self.names.index(worker)][ids.index(name)] for worker in where):
                return False
        most = self.d.get("max_moves")
        return most is None or self.moves(plan) <= most

    def moves(self, plan: Plan) -> int:
        current = self.d.get("current", {})
        return sum(
            max(0, plan[k][i] - current.get(worker, {}).get(op["id"], 0))
            for k, worker in enumerate(self.names)
            for i, op in enumerate(self.ops)
        )

    def traits(self, k: int) -> Any:
        """What tells worker k from others, round trips apart."""
        worker, name = self.workers[k], self.names[k]
        rules = [
            (op, name in w if isinstance(w, list) else w.get(name, 0))
            for op, w in self.d.get("pinned", {}).items()
        ]
        barred = [(op, name in w) for op, w in self.d.get("forbidden", {}).items()]
        current = [self.d.get("current", {}).get(name, {}).get(op["id"], 0) for op in self.ops]
        capacity = [worker.get(d, 1) for d in ("cpu", "io", "net")]
        return self.slots[k], capacity, rules, barred, current if "max_moves" in self.d else None

    def same(self, a: int, b: int) -> bool:
        others = [k for k in range(len(self.names)) if k not in (a, b)]
        near = self.rtt is None or all(self.rtt[a][k] == self.rtt[b][k] for k in others)
        return near and self.traits(a) == self.traits(b)

    def canonical(self, plan: Plan) -> Plan:
        """Contents of workers that nothing tells apart, in order."""
        rows = list(plan)
        left = list(range(len(rows)))
        while left:
            group = [k for k in left if k == left[0] or self.same(left[0], k)]
            for k, row in zip(group, sorted((rows[k] for k in group), reverse=True), strict=True):
                rows[k] = row
            left = [k for k in left if k not in group]
        return tuple(rows)

    def load(self, plan: Plan) -> tuple[Fraction, ...]:
        tasks = [(i, k) for k, row in enumerate(plan) for i, n in enumerate(row) for _ in range(n)]
        ids = [op["id"] for op in self.ops]
        edges = [(ids.index(a), ids.index(b)) for a, b in self.d["edges"]]
        totals = {d: [Fraction(0)] * len(plan) for d in ("cpu", "io", "net")}
        crossing = traffic = Fraction(0)
        for i, k in tasks:
            for d in ("cpu", "io"):
                totals[d][k] += Fraction(str(self.ops[i][d]))
            links = [(j, other) for j, other in tasks if (i, j) in edges]
            rate = Fraction(str(self.ops[i]["net"]))
            if links:
                remote = sum(other != k for _, other in links)
                totals["net"][k] += rate * remote / len(links)
                traffic += rate
                if self.rtt:
                    crossing += rate * sum(Fraction(str(self.rtt[k][o])) for _, o in links) / len(links)
        loads = [
            max(x / Fraction(str(w.get(d, 1))) for x, w in zip(totals[d], self.workers, strict=True))
            for d in ("cpu", "io", "net")
        ]
        if self.rtt:
            spread = Fraction(0)
            for i in range(len(self.ops)):
                held = [k for k, row in enumerate(plan) if row[i]]
                spread += max(Fraction(str(self.rtt[a][b])) for a in held for b in held)
            loads.append(spread / len(self.ops) + (crossing / traffic if traffic else 0))
        return tuple(loads)

    def bounds(self) -> list[tuple[Fraction, Fraction]]:
        made = []
        for d in ("cpu", "io", "net"):
            units = sorted(
                (Fraction(str(op[d])) for op in self.ops for _ in range(op["parallelism"])), reverse=True
            )
            capacity = [Fraction(str(w.get(d, 1))) for w in self.workers]
            worst = max(sum(units[:s], Fraction(0)) / c for s, c in zip(self.slots, capacity, strict=True))
            made.append((Fraction(0) if d == "net" else sum(units) / sum(capacity), worst))
        if self.rtt:
            made.append((Fraction(0), 2 * max(Fraction(str(x)) for row in self.rtt for x in row)))
        return made

    def cost(self, plan: Plan) -> tuple[Fraction, ...]:
        return self.costs[plan]

    @staticmethod
    def _cost(load: tuple[Fraction, ...], ranges: list[tuple[Fraction, Fraction]]) -> tuple[Fraction, ...]:
        both = zip(load, ranges, strict=True)
        return tuple(Fraction(0) if low == high else (x - low) / (high - low) for x, (low, high) in both)

    def within(self, alpha: Any) -> list[Plan]:
        slack = Fraction(1, 10**8)
        return [
            p
            for p in self.plans
            if all(c <= Fraction(a) + slack for c, a in zip(self.cost(p), alpha, strict=True))
        ]

    def front(self) -> list[Plan]:
        loads = set(self.loads.values())
        good = {
            x
            for x in loads
            if not any(y != x and all(b <= a for a, b in zip(x, y, strict=True)) for y in loads)
        }
        return [p for p in self.plans if self.loads[p] in good]

    def steps(self) -> int:
        least = [min(self.cost(p)[d] for p in self.plans) for d in range(len(self.dims))]
        k, alpha = 0, [float(a) for a in least]
        while not self.within(alpha):
            k += 1
            alpha = [min(1.0, max(float(a), 0.01) * 1.1**k) for a in least]
        return k


@st.composite
def problems(draw: st.DrawFn, extended: bool = False, latency: bool = False) -> dict[str, Any]:
    count = draw(st.integers(1, 3))
    workers = draw(st.integers(1, 3))
    cost = st.sampled_from(COSTS).map(float)
    ops = [
        {
            "id": chr(97 + i),
            "parallelism": draw(st.integers(1, 4)),
            **{d: draw(cost) for d in ("cpu", "io", "net")},
        }
        for i in range(count)
    ]
    pairs = [(j, i) for i in range(count) for j in range(i + 1, count)]
    edges = [[ops[j]["id"], ops[i]["id"]] for j, i in pairs if draw(st.booleans())]
    tasks = sum(op["parallelism"] for op in ops)
    slots = -(-tasks // workers) + draw(st.integers(0, 1))
    d: dict[str, Any] = {"operators": ops, "edges": edges, "workers": workers, "slots": slots}
    if not extended:
        return d
    size = st.integers(max(1, slots - 1), slots + 1)
    capacity = st.sampled_from([1.0, 1.0, 2.0, 0.5])
    d["workers"] = [
        {"name": f"n{k}", "slots": draw(size), **{x: draw(capacity) for x in ("cpu", "io", "net")}}
        for k in range(workers)
    ]
    names = [w["name"] for w in d["workers"]]
    if draw(st.booleans()):
        d["pinned"] = {"a": draw(st.one_of(st.just([names[0]]), st.just({names[-1]: 1}), st.just(names)))}
    if workers > 1 and draw(st.booleans()):
        d["forbidden"] = {ops[-1]["id"]: [names[0]]}
    if draw(st.booleans()):
        held = st.integers(0, 2)
        d["current"] = {n: {op["id"]: draw(held) for op in ops} for n in names}
        d["max_moves"] = draw(st.integers(0, tasks))
    if latency:
        rtt = [[0.0] * workers for _ in range(workers)]
        for a, b in itertools.combinations(range(workers), 2):
            rtt[a][b] = rtt[b][a] = draw(st.sampled_from([0.0, 2.0, 10.0, 80.0]))
        d["rtt_ms"] = rtt
    return d


def solved(d: dict[str, Any]) -> tuple[Problem, Judge] | None:
    """The problem and its judge; None where the rules are found to exclude each other at once."""
    judge = Judge(d)
    try:
        return Problem.from_dict(d), judge
    except ValueError:
        assert not judge.plans
        return None


def rows(plan: Any) -> Plan:
    return tuple(tuple(int(x) for x in row) for row in plan.counts)


def close(ours: Any, truth: Any) -> bool:
    return bool(np.allclose([float(x) for x in ours], [float(x) for x in truth], rtol=1e-9, atol=1e-9))


def check_everything(d: dict[str, Any]) -> None:
    both = solved(d)
    if both is None:
        return
    problem, judge = both
    assert count_plans(problem) == len(judge.plans)
    if not judge.plans:
        assert place(problem) is None
        assert pareto(problem) == []
        with pytest.raises(ValueError, match="no plan"):
            tune(problem)
        return
    for ours, truth in zip(bounds(problem).values(), judge.bounds(), strict=True):
        assert close(ours, truth)
    front = pareto(problem)
    assert sorted(judge.canonical(rows(p)) for p in front) == sorted(judge.front())
    for plan in front:
        truth_plan = judge.canonical(rows(plan))
        assert close(plan.load.values(), judge.loads[truth_plan])
        assert close(plan.cost.values(), judge.cost(truth_plan))
    limits = tune(problem)
    least = [min(judge.cost(p)[k] for p in judge.plans) for k in range(len(judge.dims))]
    assert close(limits.minimum.values(), least)
    assert limits.exact
    assert limits.steps == judge.steps()
    best = place(problem)
    assert best is not None
    check_best(problem, judge, limits, best)


def check_best(problem: Problem, judge: Judge, limits: Limits, best: Any) -> None:
    alpha = [limits[d] for d in judge.dims]
    inside = judge.within(alpha)
    assert judge.canonical(rows(best)) in inside

    def used(p: Plan) -> list[float]:
        return [float(c) / a if a > 0 else 0.0 for c, a in zip(judge.cost(p), alpha, strict=True)]

    wanted = min(tuple(round(x, 8) for x in sorted(used(p), reverse=True)) for p in inside)
    assert np.allclose(sorted(used(judge.canonical(rows(best))), reverse=True), wanted, atol=1e-7)
    assert best.gap == 0
    assert best.objective == pytest.approx(max(wanted), abs=1e-7)
    if problem.current is not None:
        assert best.moves == judge.moves(rows(best))


# CPU and I/O tie for the largest share, apart from rounding: the network decides.
TIED = {
    "operators": [
        {"id": "a", "parallelism": 3, "cpu": 1.0, "io": 0.1, "net": 0.0},
        {"id": "b", "parallelism": 1, "cpu": 2.5, "io": 0.0, "net": 0.0},
        {"id": "c", "parallelism": 2, "cpu": 0.0, "io": 2.5, "net": 0.1},
    ],
    "edges": [["c", "a"]],
    "workers": 2,
    "slots": 4,
}


@QUICK
@given(problems())
@example(TIED)
def test_identical_workers_agree_with_trying_every_plan(d: dict[str, Any]) -> None:
    check_everything(d)


@QUICK
@given(problems(extended=True))
def test_unequal_workers_pins_and_moves_agree_with_trying_every_plan(d: dict[str, Any]) -> None:
    check_everything(d)


@QUICK
@given(problems(extended=True, latency=True))
def test_latency_agrees_with_trying_every_plan(d: dict[str, Any]) -> None:
    check_everything(d)


@QUICK
@given(problems(extended=True), st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.6, 1.0]), min_size=3, max_size=3))
def test_limits_given_by_the_user_count_and_choose_exactly(d: dict[str, Any], alpha: list[float]) -> None:
    both = solved(d)
    if both is None:
        return
    problem, judge = both
    inside = judge.within(alpha)
    assert count_plans(problem, alpha) == len(inside)
    best = place(problem, alpha)
    assert (best is None) == (not inside)
    if best is not None:
        check_best(problem, judge, Limits.of(alpha), best)


@QUICK
@given(problems(extended=True), st.integers(0, 2))
def test_equal_cost_plans_take_the_fewest_moves(d: dict[str, Any], seed: int) -> None:
    d.pop("max_moves", None)
    names = [w["name"] for w in d["workers"]]
    d["current"] = {
        n: {op["id"]: (k + i + seed) % 3 for i, op in enumerate(d["operators"])} for k, n in enumerate(names)
    }
    both = solved(d)
    if both is None or not both[1].plans:
        return
    problem, judge = both
    best = place(problem)
    assert best is not None
    cost = [round(float(c), 8) for c in judge.cost(judge.canonical(rows(best)))]
    # The judge lists one plan per class of workers; moves depend on which worker holds what.
    same = [
        p
        for p in judge._all()
        if judge.allowed(p) and [round(float(c), 8) for c in judge.cost(judge.canonical(p))] == cost
    ]
    assert best.moves == min(judge.moves(p) for p in same)


@QUICK
@given(problems(extended=True, latency=True), st.booleans())
def test_search_and_bound_enclose_the_true_optimum(d: dict[str, Any], without_latency: bool) -> None:
    if without_latency:
        d.pop("rtt_ms", None)
    both = solved(d)
    if both is None or not both[1].plans:
        return
    problem, judge = both
    solver = Searched(problem)
    if not solver.starts:
        pytest.fail("the judge has a plan, but the search has none to start from")
    for dimension in range(len(judge.dims)):
        truth = float(min(judge.loads[p][dimension] for p in judge.plans))
        found, bound = solver.least_load(dimension)
        assert bound <= truth * (1 + 1e-9) + 1e-9
        assert truth <= found * (1 + 1e-9) + 1e-9
    alpha = np.full(len(judge.dims), 1.0)
    best = solver.best(alpha)
    assert best is not None
    plan, objective, bound = best
    truth = min(float(max(judge.cost(p))) for p in judge.plans)
    flat = Scale.of(problem).flat
    assert bound <= truth + 1e-7 or flat.all()
    assert truth <= objective + 1e-7
    assert judge.canonical(tuple(tuple(int(x) for x in row) for row in plan)) in judge.plans


@QUICK
@given(problems(extended=True), st.lists(st.sampled_from([0.0, 0.05, 0.2, 0.5, 0.9]), min_size=3, max_size=3))
def test_search_never_denies_a_plan_that_exists(d: dict[str, Any], alpha: list[float]) -> None:
    both = solved(d)
    if both is None or not both[1].plans:
        return
    problem, judge = both
    inside = judge.within(alpha)
    solver = Searched(problem)
    assert solver.feasible(np.array(alpha)) is not (not inside)
    if inside:
        assert (
            Relaxation(problem).objective(np.array(alpha))
            <= min(
                max(float(c) / a if a else 0.0 for c, a in zip(judge.cost(p), alpha, strict=True))
                for p in inside
            )
            + 1e-6
        )
    try:
        best = solver.best(np.array(alpha))
    except Undecided:
        return
    assert (best is None) == (not inside)
