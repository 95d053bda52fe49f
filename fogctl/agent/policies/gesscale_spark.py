"""Gesscale for Spark: the batch-time model, sized by the arrival rate, and no node that lowers the MST."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fogctl.agent.evaluate import backlog
from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan, Scale
from fogctl.agent.policies.capacity import (
    Capacity,
    NodeSet,
    node_sets,
    nothing_known,
    only_cold,
    overloaded,
    pressed,
    rises,
)
from fogctl.agent.policies.surplus import Surplus
from fogctl.agent.stagewise import StageView, decide_each

_SOME_GAIN = 1.02
"""Less than this is no gain: models are not that exact."""
_NO_HARM = 0.85
"""What one node more must leave of the MST to be tried against the model's advice; and a smaller set must be
better by as much to be worth a change, or what was tried would be taken back at once."""


@dataclass(frozen=True, slots=True)
class GesscaleSpark:
    """The least set whose batch time sustains what arrives; refuses a node too far away to help.

    Gesscale adds one replica at a time because back pressure hides the input rate (section IV-D.1); Kafka
    shows it, so a step is as large as the model says. On Spark a batch waits for its farthest replica, so a
    far node can lower the MST of the whole set.
    """

    name: ClassVar[str] = "gesscale-spark"
    wants_arrivals: ClassVar[bool] = False
    spare: float = 0.15
    """What a smaller set must sustain beyond the rate needed before replicas are removed."""
    change_costs: float = 90.0
    """Node-seconds that a replica may be to spare: as long as another takes to come and to be warm."""
    worth: float = 0.6
    """What another node must bring, as a part of what the nodes bring on average: far ones bring little."""
    pressed_from: float = 0.25
    """Of the freshness bound: with shorter batches nothing is added on the model's word alone."""
    warm_up_s: float = 30.0
    """New replicas are slow at first: overload so soon after a change does not count against the model."""

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """For each stage alone: topics decouple them."""
        return decide_each(seen, known, lambda stage: self._one(stage, known, seen.at_s))

    def _one(self, stage: StageView, known: Knowledge, at_s: float) -> Plan:
        capacity = Capacity.of(stage, known, self.warm_up_s)
        needed = stage.known.needed_rate
        numbers = {
            "input_rate": stage.metrics.input_rate,
            "needed_rate": needed,
            "lag": float(stage.metrics.lag),
            "replicas": float(stage.replicas),
        }
        if capacity is None:
            return first_step(stage, known, self.warm_up_s, numbers)
        now = capacity.rate(stage.nodes, stage.share)
        numbers |= {"mst": now, "correction": capacity.correction, "cold": stage.known.cold}
        key = f"{self.name}.surplus.{stage.name}"
        if overloaded(stage, self.warm_up_s) or (now < needed and pressed(stage, self.pressed_from)):
            plan = self._out(stage, known, capacity, now, numbers)
            return replace(plan, remember={key: Surplus(at_s).to_memory()})
        fewer = fewer_nodes(stage, known, capacity, needed * (1.0 + self.spare))
        behind = backlog(stage.metrics, stage.known) > 0.0
        new = stage.since_grown_s < self.warm_up_s
        spare = 0 if fewer is None or behind or new or rises(stage) else stage.replicas - fewer.size
        surplus = Surplus.remembered(known.memory, key, at_s).after(at_s, spare)
        numbers |= {"spare": float(spare), "spare_node_seconds": surplus.node_seconds}
        remember = {key: surplus.to_memory()}
        if fewer is None or spare == 0 or surplus.node_seconds < self.change_costs * spare:
            return Plan.keep(f"sustains {now:.0f} records/s of {needed:.0f} needed", numbers, remember)
        rate = capacity.rate_of(fewer.size, fewer.rtt_max_ms, stage.share)
        why = f"{rate:.0f} records/s of {needed:.0f} needed"
        return replace(_scale(stage, known, fewer.nodes, rate, why, numbers), remember=remember)

    def _out(
        self, stage: StageView, known: Knowledge, capacity: Capacity, now: float, numbers: dict[str, float]
    ) -> Plan:
        """The least set that sustains the rate and what piles up during the change."""
        target = max(stage.known.sized_rate, now * _SOME_GAIN)
        why = f"needs {target:.0f} records/s and sustains {now:.0f}"
        found = least_set(stage, known, capacity, stage.share, target, self.worth)
        if found is None and overloaded(stage, self.warm_up_s):
            found = one_more(stage, known, capacity, stage.share)
        if found is None:
            return Plan.keep(f"{why}; {_refusal(stage, known, capacity)}", numbers)
        chosen, rate = found
        if rate < target:
            why += "; no set sustains it"
        return _scale(stage, known, chosen.nodes, rate, why, numbers)


def fewer_nodes(stage: StageView, known: Knowledge, capacity: Capacity, rate: float) -> NodeSet | None:
    """The least of the stage's own nodes, nearest kept, that sustain the rate; None if that takes all."""
    for found in node_sets(stage, known, stage.share):
        if found.size >= stage.replicas:
            return None
        if found.free_count == 0 and capacity.rate_of(found.size, found.rtt_max_ms, stage.share) >= rate:
            return found
    return None


def least_set(
    stage: StageView, known: Knowledge, capacity: Capacity, share: float, target: float, worth: float
) -> tuple[NodeSet, float] | None:
    """The least set that sustains the rate, or the last whose nodes are all worth it; None: what there is.

    A node is worth it if it brings at least that part of what the nodes bring on average.
    """
    best, best_rate, size = None, capacity.rate(stage.nodes, share), stage.replicas
    # A change costs the same however many it adds, and a steep rise does not end at one more.
    least = stage.replicas + 2 if rises(stage) else 0
    for found in node_sets(stage, known, share):
        rate = capacity.rate_of(found.size, found.rtt_max_ms, share)
        more = max(0, found.size - size)
        some = _SOME_GAIN if found.size >= stage.replicas else 1.0 / _NO_HARM
        if rate < best_rate * max(some, 1.0 + worth * more / found.size):
            continue
        if set(found.nodes) != set(stage.nodes):
            best, best_rate, size = found, rate, found.size
            if rate >= target and found.size >= least:
                break
    return None if best is None else (best, best_rate)


def one_more(
    stage: StageView, known: Knowledge, capacity: Capacity, share: float
) -> tuple[NodeSet, float] | None:
    """The nearest node more: a backlog that warm replicas leave says more than a model that sees no gain.

    A model that says they sustain what arrives is believed until the backlog is as old again.
    """
    arrives = stage.metrics.input_rate
    believed = capacity.rate(stage.nodes, share) / capacity.correction >= arrives
    tolerated = 2.0 * stage.known.facts.freshness_s * arrives if believed else 0.0
    if backlog(stage.metrics, stage.known) <= tolerated:
        return None
    for found in node_sets(stage, known, share):
        if found.own_count == stage.replicas and found.free_count == 1:
            rate = capacity.rate_of(found.size, found.rtt_max_ms, share)
            return (found, rate) if rate >= _NO_HARM * capacity.rate(stage.nodes, share) else None
    return None


def first_step(stage: StageView, known: Knowledge, warm_up_s: float, numbers: dict[str, float]) -> Plan:
    """Without a model: one nearest node more when overloaded, as Gesscale does; nothing is removed.

    While replicas that have just begun are overloaded they are given the time to warm up: another one would
    be colder still, and batches wait for it.
    """
    free = known.nearest_first(stage.free(stage.share))
    if not stage.known.overloaded or only_cold(stage, warm_up_s):
        return Plan.keep(nothing_known(stage), numbers)
    if not stage.can_grow or not free:
        return Plan.keep("overloaded, but no node is left", numbers)
    nodes = (*stage.nodes, free[0])
    return Plan(
        (Scale(stage.name, nodes, stage.share),),
        f"overloaded and no model yet: add {free[0]}",
        numbers,
        {"replicas": float(len(nodes))},
    )


def _scale(
    stage: StageView,
    known: Knowledge,
    nodes: tuple[str, ...],
    rate: float,
    why: str,
    numbers: dict[str, float],
) -> Plan:
    far = known.rtt_max_ms(nodes)
    return Plan(
        (Scale(stage.name, nodes, stage.share),),
        f"{why}: {stage.replicas} to {len(nodes)} replicas, the farthest at {far:.0f} ms",
        numbers,
        {"mst": rate, "replicas": float(len(nodes)), "rtt_max_ms": far},
    )


def _refusal(stage: StageView, known: Knowledge, capacity: Capacity) -> str:
    free = known.nearest_first(stage.free(stage.share))
    if not free or not stage.can_grow:
        return "no node is left"
    rate = capacity.rate((*stage.nodes, free[0]), stage.share)
    return f"with {free[0]} at {known.distance_ms(free[0]):.0f} ms it would sustain {rate:.0f}"
