"""Replicas that come and go: all others stay, and what is chosen is the best there is, by trying all."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from fogmodels.placement import Problem
from fogmodels.placement.costs import Scale, plan_loads
from hypothesis import given, settings
from hypothesis import strategies as st

from fogctl.errors import FogError
from fogctl.placement.change import changed
from fogctl.placement.demand import StageDemand
from fogctl.placement.plan import NodesByStage, Strategy, problem_of, solved
from fogctl.placement.room import Room

NODES = [Room(f"n{k}", cpu, 3, rtt) for k, (cpu, rtt) in enumerate([(1.0, 5.0), (0.2, 5.0), (1.0, 80.0)])]


def demand(stage: str, replicas: int, cpu: float = 1.0, readers: tuple[str, ...] = ()) -> StageDemand:
    return StageDemand(stage, replicas, cpu, 0.0, 10.0, 1, readers)


STAGES = st.lists(
    st.tuples(st.integers(1, 3), st.sets(st.integers(0, 2), min_size=1), st.sampled_from([0.1, 1.0, 3.0])),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(STAGES, st.sampled_from(list(Strategy)), st.integers(0, 3))
def test_each_stage_gets_its_number_and_keeps_all_or_only_some_of_what_it_has(
    given: list[tuple[int, set[int], float]], strategy: Strategy, seed: int
) -> None:
    demands = [demand(f"s{k}", count, cpu) for k, (count, _, cpu) in enumerate(given)]
    now = {f"s{k}": tuple(f"n{n}" for n in sorted(nodes)) for k, (_, nodes, _) in enumerate(given)}
    found = changed(strategy, demands, NODES, now, seed=seed)
    for each in demands:
        before, after = set(now[each.stage]), set(found[each.stage])
        assert len(found[each.stage]) == len(after) == each.replicas
        assert before <= after if len(after) >= len(before) else after <= before
    for room in NODES:
        together = {**now, **{s: tuple({*now[s], *found[s]}) for s in found}}
        assert sum(room.node in nodes for nodes in together.values()) <= room.slots


def shares(problem: Problem, nodes: NodesByStage, limits: list[float]) -> float:
    """The largest share of its limit that a cost of this plan uses."""
    table = np.array([[int(w.name in nodes[op.id]) for op in problem.operators] for w in problem.workers])
    costs = Scale.of(problem).costs(plan_loads(problem, table[None])[0])
    return max(float(c) / limit for c, limit in zip(costs, limits, strict=True) if 0 < limit < float("inf"))


def test_auto_adds_where_it_costs_least_by_trying_every_addition() -> None:
    rooms = [Room("a", 0.5, 2, 5.0), Room("b", 1.0, 2, 5.0), Room("c", 1.0, 2, 200.0), Room("d", 0.3, 2, 5.0)]
    demands = [demand("heavy", 3, 3.0, ("light",)), demand("light", 2, 0.3)]
    now = {"heavy": ("a",), "light": ("d",)}
    found = changed(Strategy.auto, demands, rooms, now)
    problem = problem_of(demands, rooms)
    there = np.array([[int(w.name in now[op.id]) for op in problem.operators] for w in problem.workers])
    limits, _ = solved(replace(problem, lower=there))
    least = [limits[name] for name in problem.dimensions]
    names = [room.node for room in rooms]
    possible = [
        {"heavy": ("a", *more), "light": ("d", other)}
        for more, other in product(combinations(names[1:], 2), names[:3])
        if all([*("a", *more), "d", other].count(node) <= 2 for node in names)
    ]
    assert shares(problem, found, least) == pytest.approx(min(shares(problem, p, least) for p in possible))


def test_what_shrinks_gives_up_the_far_and_slow_node() -> None:
    rooms = [Room("near", 1.0, 1, 5.0), Room("slow", 0.1, 1, 5.0), Room("far", 1.0, 1, 300.0)]
    now = {"only": ("slow", "far", "near")}
    assert changed(Strategy.auto, [demand("only", 1)], rooms, now) == {"only": ("near",)}


def test_spread_relieves_the_fullest_node_and_pack_empties_the_last() -> None:
    rooms = [Room(name, 1.0, 2, 5.0) for name in ("a", "b", "c")]
    now = {"x": ("a", "b", "c"), "y": ("b",)}
    both = [demand("x", 2), demand("y", 1)]
    assert changed(Strategy.spread, both, rooms, now)["x"] == ("a", "c")
    assert changed(Strategy.pack, both, rooms, now)["x"] == ("a", "b")
    more = [demand("x", 3), demand("y", 2)]
    assert changed(Strategy.spread, more, rooms, now)["y"] == ("b", "a")
    assert changed(Strategy.pack, more, rooms, {"x": ("a", "b", "c"), "y": ("c",)})["y"] == ("c", "a")


def test_an_addition_does_not_count_on_a_slot_that_is_given_up_later() -> None:
    rooms = [Room("a", 1.0, 1, 5.0), Room("b", 1.0, 1, 5.0)]
    now = {"x": ("a", "b"), "y": ()}
    with pytest.raises(FogError, match="y shall have 1 replica"):
        changed(Strategy.auto, [demand("x", 1), demand("y", 1)], rooms, now)
