"""Plans judged by trying every placement there is, and by costs computed another way."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from fogmodels.placement.costs import Scale
from hypothesis import given, settings
from hypothesis import strategies as st

from fogctl.errors import REFUSED, FogError
from fogctl.placement import Room, StageDemand, Strategy, plan
from fogctl.placement.fit import completed
from fogctl.placement.plan import FAST_LINK_BYTES_PER_S, problem_of

MIB = 1 << 20
Nodes = dict[str, tuple[str, ...]]


def demand(stage: str, replicas: int = 1, cpu: float = 1.0, **more: object) -> StageDemand:
    given = {"state_bytes_per_s": 0.0, "output_bytes_per_s": 100.0, "memory_bytes": 400 * MIB, **more}
    return StageDemand(stage, replicas, cpu, **given)  # type: ignore[arg-type]


def chain(*stages: StageDemand) -> tuple[StageDemand, ...]:
    """Each stage read by the next."""
    linked = [
        StageDemand(
            a.stage,
            a.replicas,
            a.cpu_cores,
            a.state_bytes_per_s,
            a.output_bytes_per_s,
            a.memory_bytes,
            (b.stage,),
        )
        for a, b in pairwise(stages)
    ]
    return (*linked, stages[-1])


def every_plan(demands: tuple[StageDemand, ...], rooms: list[Room]) -> list[Nodes]:
    """All ways to give each stage its replicas: one a node, no node over its slots or memory."""
    slots = {room.node: room.slots for room in rooms}
    found = []
    for chosen in product(*(combinations(slots, each.replicas) for each in demands)):
        held = [node for nodes in chosen for node in nodes]
        if all(held.count(node) <= slots[node] for node in slots):
            found.append({each.stage: nodes for each, nodes in zip(demands, chosen, strict=True)})
    return found


def loads(demands: tuple[StageDemand, ...], rooms: list[Room], nodes: Nodes) -> list[float]:
    """cpu, io, net of the fullest node, and latency in ms, from their definitions."""
    at = {room.node: room for room in rooms}
    by_name = {each.stage: each for each in demands}
    cpu, io, net = (dict.fromkeys(at, 0.0) for _ in range(3))
    path_ms, traffic = 0.0, 0.0
    for each in demands:
        readers = [node for reader in each.readers for node in nodes[by_name[reader].stage]]
        sent = each.output_bytes_per_s / each.replicas
        for node in nodes[each.stage]:
            cpu[node] += each.cpu_cores / each.replicas / at[node].cpu_cores
            io[node] += each.state_bytes_per_s / each.replicas
            for reader in readers:
                net[node] += sent / len(readers) / FAST_LINK_BYTES_PER_S * (reader != node)
                # To the broker and from there: half a round trip each, on one node too.
                path_ms += sent / len(readers) * (at[node].rtt_ms + at[reader].rtt_ms) / 2
                traffic += sent / len(readers)
    farthest_ms = [max(at[node].rtt_ms for node in nodes[each.stage]) for each in demands]
    latency = sum(farthest_ms) / len(demands) + (path_ms / traffic if traffic else 0.0)
    return [max(cpu.values()), max(io.values()), max(net.values()), latency]


def room_lists(most_slots: int) -> st.SearchStrategy[list[Room]]:
    each = st.tuples(
        st.sampled_from([0.2, 0.4, 1.0]), st.integers(1, most_slots), st.sampled_from([0.0, 5.0, 80.0])
    )
    return st.lists(each, min_size=2, max_size=4).map(
        lambda given: [Room(f"n{k}", cpu, slots, rtt) for k, (cpu, slots, rtt) in enumerate(given)]
    )


def demand_lists() -> st.SearchStrategy[tuple[StageDemand, ...]]:
    each = st.tuples(st.integers(1, 2), st.sampled_from([0.1, 0.5, 2.0]), st.sampled_from([0.0, 50.0]))
    return st.lists(each, min_size=1, max_size=3).map(
        lambda given: chain(
            *(demand(f"s{k}", n, cpu, state_bytes_per_s=io) for k, (n, cpu, io) in enumerate(given))
        )
    )


@settings(max_examples=60)
@given(demand_lists(), room_lists(3))
def test_auto_is_the_best_of_all_plans_and_costs_what_it_says(
    demands: tuple[StageDemand, ...], rooms: list[Room]
) -> None:
    possible = every_plan(demands, rooms)
    if not possible:
        with pytest.raises(FogError) as refused:
            plan(Strategy.auto, demands, rooms)
        assert refused.value.exit_code == REFUSED
        return
    made = plan(Strategy.auto, demands, rooms)
    assert made.nodes in possible
    own = loads(demands, rooms, made.nodes)
    assert list(made.placement.load.values()) == pytest.approx(own, rel=1e-9, abs=1e-12)
    # No plan uses less of the limit that it uses most of; and none is better in one cost, worse in none.
    scale = Scale.of(made.problem)
    limits = [made.limits[name] for name in made.problem.dimensions]  # type: ignore[index]

    def costs(nodes: Nodes) -> list[float]:
        return [float(c) for c in scale.costs(np.array(loads(demands, rooms, nodes)))]

    def largest_share(of: list[float]) -> float:
        shares = [0.0]
        for cost, limit in zip(of, limits, strict=True):
            if limit == 0:
                shares.append(0.0 if cost <= 1e-9 else 9.9)
            elif limit < float("inf"):
                shares.append(cost / limit)
        return max(shares)

    mine = costs(made.nodes)
    for other in possible:
        theirs = costs(other)
        assert largest_share(mine) <= largest_share(theirs) + 1e-6
        better = any(b < a - 1e-6 for a, b in zip(mine, theirs, strict=True))
        worse = any(b > a + 1e-9 for a, b in zip(mine, theirs, strict=True))
        assert not better or worse, (made.nodes, other)


@settings(max_examples=100)
@given(demand_lists(), room_lists(3), st.sampled_from(["spread", "pack", "random"]), st.integers(0, 9))
def test_every_stage_gets_its_replicas_and_no_node_more_than_its_slots(
    demands: tuple[StageDemand, ...], rooms: list[Room], how: str, seed: int
) -> None:
    possible = every_plan(demands, rooms)
    if not possible:
        with pytest.raises(FogError):
            plan(Strategy(how), demands, rooms, seed=seed)
        return
    made = plan(Strategy(how), demands, rooms, seed=seed)
    order = [room.node for room in rooms]
    assert {stage: tuple(sorted(nodes, key=order.index)) for stage, nodes in made.nodes.items()} in possible
    assert plan(Strategy(how), demands, rooms, seed=seed).nodes == made.nodes
    own = loads(demands, rooms, made.nodes)
    assert list(made.placement.load.values()) == pytest.approx(own, rel=1e-9, abs=1e-12)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sets(st.integers(0, 3))), min_size=1, max_size=3),
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
)
def test_replicas_fit_exactly_where_some_way_exists(
    stages: list[tuple[int, set[int]]], free: list[int]
) -> None:
    needs = {f"s{k}": count for k, (count, _) in enumerate(stages)}
    allowed = {f"s{k}": [f"n{n}" for n in sorted(nodes)] for k, (_, nodes) in enumerate(stages)}
    slots = {f"n{k}": count for k, count in enumerate(free)}
    ways = product(*(combinations(allowed[stage], count) for stage, count in needs.items()))
    exists = any(
        all(sum(node in chosen for chosen in way) <= count for node, count in slots.items()) for way in ways
    )
    found = completed(needs, allowed, slots)
    assert (found is not None) == exists
    if found is not None:
        assert {stage: len(set(nodes)) for stage, nodes in found.items()} == needs
        assert all(set(nodes) <= set(allowed[stage]) for stage, nodes in found.items())
        assert all(sum(node in nodes for nodes in found.values()) <= slots[node] for node in slots)


FOUR = [Room(f"n{k}", 1.0, 2, 5.0) for k in range(1, 5)]
THREE_STAGES = chain(demand("a", 2), demand("b", 2), demand("c"))


def test_spread_uses_every_node_before_it_uses_one_twice() -> None:
    assert plan(Strategy.spread, THREE_STAGES, FOUR).nodes == {
        "a": ("n1", "n2"),
        "b": ("n3", "n4"),
        "c": ("n1",),
    }


def test_spread_counts_what_other_apps_have_of_a_node() -> None:
    half = Room("n1", 0.5, 1, 5.0, used_share=0.5)
    assert plan(Strategy.spread, (demand("a"),), [half, *FOUR[1:]]).nodes == {"a": ("n2",)}


def test_pack_fills_a_node_before_the_next() -> None:
    assert plan(Strategy.pack, THREE_STAGES, FOUR).nodes == {
        "a": ("n1", "n2"),
        "b": ("n1", "n2"),
        "c": ("n3",),
    }


def test_another_seed_is_another_random_plan() -> None:
    made = {str(plan(Strategy.random, THREE_STAGES, FOUR, seed=seed).nodes) for seed in range(10)}
    assert len(made) > 5


def test_auto_gives_the_heavy_stage_the_fast_node_and_prefers_near_ones() -> None:
    heavy, light = demand("heavy", cpu=2.0), demand("light", cpu=0.1)
    rooms = [Room("slow", 0.2, 1, 5.0), Room("fast", 1.0, 1, 5.0), Room("far", 1.0, 1, 300.0)]
    assert plan(Strategy.auto, chain(light, heavy), rooms).nodes == {"light": ("slow",), "heavy": ("fast",)}


def test_of_two_nodes_auto_takes_the_near_one() -> None:
    # The model leaves a diagonal out when it looks for workers that are alike: of two, all that differs.
    for near in (0, 1):
        rooms = [Room(f"n{k}", 1.0, 1, 5.0 if k == near else 300.0) for k in range(2)]
        assert plan(Strategy.auto, (demand("only"),), rooms).nodes == {"only": (f"n{near}",)}


def test_auto_stays_where_the_app_is_if_nothing_is_better_elsewhere() -> None:
    now = {"a": ("n4", "n2"), "b": ("n1", "n3"), "c": ("n2",)}
    one_each = [Room(f"n{k}", 1.0, 1, 5.0) for k in range(1, 6)]
    now = {"a": ("n4", "n2"), "b": ("n1", "n5"), "c": ("n3",)}
    made = plan(Strategy.auto, THREE_STAGES, one_each, current=now)
    assert {stage: set(nodes) for stage, nodes in made.nodes.items()} == {s: set(n) for s, n in now.items()}
    assert made.placement.moves == 0


def test_a_stage_keeps_off_nodes_without_memory_for_it_and_others_leave_those_to_it() -> None:
    rooms = [
        Room("n1", 1.0, 1, 5.0, memory_bytes=1000 * MIB),
        Room("n2", 1.0, 1, 5.0, memory_bytes=500 * MIB),
    ]
    large = demand("large", memory_bytes=900 * MIB)
    for how in Strategy:
        assert plan(how, chain(demand("small"), large), rooms).nodes == {"small": ("n2",), "large": ("n1",)}


def test_memory_bounds_how_many_stages_share_a_node() -> None:
    rooms = [Room("n1", 1.0, 4, 5.0, memory_bytes=900 * MIB), Room("n2", 1.0, 4, 5.0)]
    made = plan(Strategy.pack, chain(*(demand(f"s{k}") for k in range(4))), rooms)
    assert [made.nodes[f"s{k}"] for k in range(4)] == [("n1",), ("n1",), ("n2",), ("n2",)]


def test_a_cost_that_is_the_same_in_every_plan_has_no_limit_and_no_say() -> None:
    one_each = [Room(f"n{k}", 1.0 + k, 1, 5.0 * k) for k in range(5)]
    made = plan(Strategy.auto, THREE_STAGES, one_each)
    assert made.limits is not None
    assert made.limits.limited == ("cpu", "io", "latency")
    assert made.placement.cost["net"] == pytest.approx(1)
    assert made.placement.objective <= 1
    assert made.placement.gap == 0


def test_full_nodes_are_left_out_and_named() -> None:
    rooms = [Room("full", 0.0, 0, 5.0, used_share=1.0), *FOUR]
    made = plan(Strategy.auto, (demand("a"),), rooms)
    assert made.left_out == ("full",)
    assert "full" not in [worker.name for worker in made.problem.workers]


def test_what_does_not_fit_is_refused_in_one_sentence_with_numbers() -> None:
    with pytest.raises(
        FogError, match="a shall have 5 replicas, each on its own node, but 4 of 4 nodes"
    ) as error:
        plan(Strategy.auto, (demand("a", 5),), FOUR)
    assert error.value.exit_code == REFUSED
    with pytest.raises(FogError, match="9 replicas do not fit: of 4 nodes, 8 replicas have room"):
        plan(Strategy.pack, chain(demand("a", 3), demand("b", 3), demand("c", 3)), FOUR)


def test_a_limited_link_makes_its_node_dear_for_what_sends_much() -> None:
    rooms = [
        Room("thin", 1.0, 1, 5.0, link_bytes_per_s=1000.0),
        Room("n2", 1.0, 1, 5.0),
        Room("n3", 1.0, 1, 5.0),
    ]
    made = plan(Strategy.auto, chain(demand("talks"), demand("listens")), rooms)
    assert "thin" not in made.nodes["talks"]
    assert problem_of(chain(demand("a"), demand("b")), rooms).workers[0].net == 1000.0
