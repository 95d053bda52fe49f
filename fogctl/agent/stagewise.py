"""A policy that decides for each stage alone: what it sees of one stage, and the plan that comes of all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fogctl.agent.knowledge import Knowledge, StageKnowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Action, Plan, Scale
from fogctl.metrics.values import StageMetrics
from fogctl.runtime.deployment import WHOLE, StagePlacement

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class StageView:
    """One stage at the moment of a decision."""

    name: str
    metrics: StageMetrics
    known: StageKnowledge
    placement: StagePlacement
    nodes: tuple[str, ...]
    """Where it runs; nodes that do not answer any more are left out."""
    since_grown_s: float = math.inf
    """Since a replica was last added."""
    room: Mapping[str, float] = field(default_factory=dict)
    """What is free of each edge node that answers, 0 to 1, in the testbed's order; earlier stages of the same
    plan come first."""

    @property
    def replicas(self) -> int:
        """How many replicas it has."""
        return len(self.nodes)

    @property
    def share(self) -> float:
        """The smallest share of its replicas: a batch waits for the slowest."""
        there = set(self.nodes)
        return min((r.share for r in self.placement.replicas if r.node in there), default=WHOLE)

    @property
    def can_grow(self) -> bool:
        """Whether the user allows another replica."""
        return self.replicas < self.known.max_replicas

    @property
    def can_shrink(self) -> bool:
        """Whether the user allows one replica less."""
        return self.replicas > self.known.min_replicas

    def free(self, share: float = WHOLE) -> tuple[str, ...]:
        """Nodes where another replica with that share has room, in the testbed's order."""
        taken = set(self.placement.nodes)
        return tuple(
            node for node, free in self.room.items() if node not in taken and free + _ROUNDING >= share
        )


def decide_each(seen: Observation, known: Knowledge, decide: Callable[[StageView], Plan]) -> Plan:
    """Ask for a plan of each stage in turn and answer all of them as one.

    The stage's plan may call its numbers simply `mst`, `replicas`, …: they get the stage's name in front.
    """
    room = {node.name: seen.free_share(node.name) for node in known.edge if seen.node(node.name) is not None}
    actions: list[Action] = []
    reasons: list[str] = []
    numbers: dict[str, float] = {}
    predicted: dict[str, float] = {}
    remember: dict[str, object] = {}
    for placement in seen.deployment.stages:
        name = placement.stage
        metrics = seen.stage(name)
        if metrics is None or name not in known.stages:
            reasons.append(f"{name}: no metrics")
            continue
        nodes = tuple(node for node in placement.nodes if seen.node(node) is not None)
        if not nodes:
            moved = _moved(name, known, room)
            actions += moved.actions
            reasons.append(f"{name}: {moved.reason}")
            continue
        grown = known.stage(name).grown_at_s
        since = math.inf if grown is None else seen.at_s - grown
        plan = decide(StageView(name, metrics, known.stage(name), placement, nodes, since, dict(room)))
        for action in plan.actions:
            if isinstance(action, Scale):
                for node in action.nodes:
                    if node not in placement.nodes:
                        room[node] -= action.share
        actions += plan.actions
        reasons.append(f"{name}: {plan.reason}")
        numbers |= {f"{name}.{key}": value for key, value in plan.numbers.items()}
        predicted |= {f"{name}.{key}": value for key, value in plan.predicted.items()}
        remember |= plan.remember
    return Plan(tuple(actions), "; ".join(reasons), numbers, predicted, remember)


def _moved(stage: str, known: Knowledge, room: dict[str, float]) -> Plan:
    """Where to go when none of a stage's nodes answers, whatever the policy: to the nearest that is free."""
    free = known.nearest_first(node for node, left in room.items() if left + _ROUNDING >= WHOLE)
    if not free:
        return Plan.keep("none of its nodes answers, and no other is free")
    room[free[0]] -= WHOLE
    return Plan((Scale(stage, (free[0],)),), f"none of its nodes answers: move to {free[0]}")
