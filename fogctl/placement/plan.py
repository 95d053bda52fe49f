"""A placement of an app's stages by strategy, and what it costs by the model of fogmodels. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from fogmodels.placement import Limits, NoPlan, Placement, Problem, TooLarge, Undecided, place, tune_and_place
from fogmodels.placement.costs import placement

from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.placement.demand import StageDemand
from fogctl.placement.fit import allowed_nodes, require_fit, slots_left
from fogctl.placement.room import Room
from fogctl.placement.strategies import at_random, in_turn, pack, spread

FAST_LINK_BYTES_PER_S = 125e6
"""What a node without a limit on its link counts as: a Pi's gigabit."""
_SAME = 1e-9
NodesByStage = dict[str, tuple[str, ...]]


class Strategy(StrEnum):
    """How nodes are chosen."""

    auto = "auto"
    spread = "spread"
    pack = "pack"
    random = "random"


@dataclass(frozen=True, slots=True)
class Planned:
    """The nodes of every stage, and what that costs."""

    strategy: Strategy
    nodes: NodesByStage
    problem: Problem
    placement: Placement
    limits: Limits | None
    """The tuned limits that `auto` kept; the others keep none."""
    left_out: tuple[str, ...] = ()
    """Nodes without room for a replica of any stage."""


def plan(
    strategy: Strategy,
    demands: Sequence[StageDemand],
    rooms: Sequence[Room],
    *,
    seed: int = 0,
    current: Mapping[str, Sequence[str]] | None = None,
) -> Planned:
    """Nodes for every replica; FogError if they do not fit. `current` are the app's nodes by stage now."""
    require_fit(demands, rooms)
    problem = problem_of(demands, rooms, current)
    usable = {worker.name for worker in problem.workers}
    left_out = tuple(room.node for room in rooms if room.node not in usable)
    if strategy is Strategy.auto:
        limits, best = solved(problem)
        # Testbed order, so that the same plan always reads the same.
        nodes = {
            each.stage: tuple(w.name for w in problem.workers if best.assignment[w.name].get(each.stage, 0))
            for each in demands
        }
        return Planned(strategy, nodes, problem, best, limits, left_out)
    order = {Strategy.spread: spread, Strategy.pack: pack}.get(strategy) or at_random(seed)
    nodes = in_turn(demands, rooms, order)
    return Planned(strategy, nodes, problem, placement(problem, _table(problem, nodes)), None, left_out)


def problem_of(
    demands: Sequence[StageDemand], rooms: Sequence[Room], current: Mapping[str, Sequence[str]] | None = None
) -> Problem:
    """The model's problem: stages are operators, nodes with a slot are workers.

    Stages hand records on by way of the broker, so a unit of traffic from node a to node b pays half the
    round trip of each to it, also where a and b are one; and a batch waits for the farthest of its replicas.
    Both are what the model's latency is with (d_a + d_b)/2 as the round trip between a and b, the diagonal
    included (d: `Room.rtt_ms`).
    """
    slots, allowed = slots_left(demands, rooms), allowed_nodes(demands, rooms)
    usable = [room for room in rooms if slots[room.node] > 0]
    names = [room.node for room in usable]
    data: dict[str, Any] = {
        "operators": [
            {
                "id": each.stage,
                "parallelism": each.replicas,
                "cpu": each.cpu_cores / each.replicas,
                "io": each.state_bytes_per_s / each.replicas,
                # What nobody reads has no link in the model, and must not stretch the range of the others.
                "net": each.output_bytes_per_s / each.replicas if each.readers else 0.0,
            }
            for each in demands
        ],
        "edges": [[each.stage, reader] for each in demands for reader in each.readers],
        "workers": [
            {
                "name": room.node,
                "slots": slots[room.node],
                "cpu": room.cpu_cores,
                "io": 1.0,
                "net": FAST_LINK_BYTES_PER_S if room.link_bytes_per_s is None else room.link_bytes_per_s,
            }
            for room in usable
        ],
        "forbidden": {
            stage: [name for name in names if name not in nodes] for stage, nodes in allowed.items()
        },
    }
    if current:
        now: dict[str, dict[str, int]] = {}
        known = {each.stage for each in demands}
        for stage, nodes in current.items():
            for node in nodes:
                if node in names and stage in known:
                    now.setdefault(node, {})[stage] = 1
        data["current"] = now
    problem = Problem.from_dict(data)
    distance = np.array([room.rtt_ms for room in usable])
    return replace(
        problem,
        upper=np.minimum(problem.upper, 1),  # a node has at most one replica of a stage
        rtt_ms=(distance[:, None] + distance[None, :]) / 2,
    )


def solved(problem: Problem) -> tuple[Limits, Placement]:
    """The least limits and the best plan within them. A cost that is the worst case in every plan, as the
    network's is where no two replicas share a node, gets no limit: it cannot decide."""
    try:
        limits, best = tune_and_place(problem)
        settled: dict[str, Any] = {
            name: math.inf for name, least in limits.minimum.items() if least >= 1.0 - _SAME
        }
        if settled:
            limits = replace(limits, **settled)
            best = place(problem, limits) or best
        return limits, best
    except NoPlan as error:
        raise FogError(str(error), exit_code=REFUSED) from None
    except (TooLarge, Undecided) as error:
        raise FogError(f"{error}", hint="use fewer replicas, or --place spread", exit_code=FAILED) from None


def _table(problem: Problem, nodes: NodesByStage) -> Any:
    """Workers by operators."""
    held = [[int(w.name in nodes[op.id]) for op in problem.operators] for w in problem.workers]
    return np.array(held, dtype=np.int64)
