"""Where replicas go that a policy asks for: by contention and distance instead of nearest first. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from fogctl.agent.knowledge import Knowledge, NodeFacts
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan, Scale
from fogctl.errors import FogError
from fogctl.placement.change import changed
from fogctl.placement.demand import StageDemand
from fogctl.placement.plan import Strategy
from fogctl.placement.room import Room

_ROUNDING = 1e-9
_ONE_CORE = 1.0
"""What a node without a quota counts as."""


def placed(
    plan: Plan,
    seen: Observation,
    known: Knowledge,
    strategy: Strategy,
    rates: Mapping[str, float],
    seed: int = 0,
) -> Plan:
    """The plan with as many replicas as it has, on nodes that the strategy chooses; `rates` are records a
    second of each stage.

    Replicas that are there and stay are not moved. `auto` places by the profile, and without one it leaves
    the plan as it is.
    """
    wanted = {
        action.stage: len(action.nodes)
        for action in plan.actions
        if isinstance(action, Scale) and action.stage in known.stages
    }
    costs = [stage.facts.cost for stage in known.stages.values()]
    if not wanted or (strategy is Strategy.auto and any(cost is None for cost in costs)):
        return plan
    current = {
        each.stage: tuple(node for node in each.nodes if seen.node(node) is not None)
        for each in seen.deployment.stages
        if each.stage in known.stages
    }
    demands = [
        _demand(stage, wanted.get(stage, len(current[stage])), known, rates.get(stage, 0.0))
        for stage in current
        if wanted.get(stage, len(current[stage])) > 0
    ]
    share = max((action.share for action in plan.actions if isinstance(action, Scale)), default=1.0)
    rooms = [
        _room(node, seen, known, share, sum(node.name in nodes for nodes in current.values()))
        for node in known.edge
        if seen.node(node.name) is not None
    ]
    try:
        found = changed(strategy, demands, rooms, current, seed=seed)
    except FogError as error:
        return replace(plan, reason=f"{plan.reason} (nearest first: {error.message})")
    actions = tuple(
        replace(action, nodes=found[action.stage]) if isinstance(action, Scale) else action
        for action in plan.actions
    )
    how = "by its profile" if strategy is Strategy.auto else strategy.value
    return replace(plan, actions=actions, reason=f"{plan.reason} (placed {how})")


def _demand(stage: str, replicas: int, known: Knowledge, rate: float) -> StageDemand:
    facts = known.stage(stage).facts
    cost = facts.cost
    readers = tuple(
        name for name, other in known.stages.items() if facts.output and facts.output in other.facts.inputs
    )
    if cost is None:
        return StageDemand(stage, replicas, 1.0, 0.0, 1.0, facts.replica_bytes, readers)
    return StageDemand(
        stage,
        replicas,
        cost.cpu_s * rate,
        cost.state_bytes * rate,
        cost.output_bytes * rate,
        facts.replica_bytes,
        readers,
    )


def _room(node: NodeFacts, seen: Observation, known: Knowledge, share: float, own: int) -> Room:
    """What a node has for this app: the replicas it has there, and what is free."""
    others = seen.others.get(node.name, 0.0)
    more = math.floor(seen.free_share(node.name) / share + _ROUNDING)
    cores = _ONE_CORE if node.cpu_cores is None else node.cpu_cores
    return Room(
        node=node.name,
        cpu_cores=max(1.0 - others, _ROUNDING) * cores,
        slots=own + more,
        rtt_ms=known.distance_ms(node.name),
        used_share=min(1.0, others),
    )
