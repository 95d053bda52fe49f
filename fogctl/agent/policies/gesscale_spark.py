"""Gesscale for Spark: the batch-time model, sized by the arrival rate, and no node that lowers the MST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan, Scale
from fogctl.agent.policies.capacity import Capacity, node_sets, overloaded
from fogctl.agent.stagewise import StageView, decide_each


@dataclass(frozen=True, slots=True)
class GesscaleSpark:
    """The least set whose batch time sustains what arrives; refuses a node too far away to help.

    Gesscale adds one replica at a time because back pressure hides the input rate (section IV-D.1); Kafka
    shows it, so a step is as large as the model says. On Spark a batch waits for its farthest replica, so a
    far node can lower the MST of the whole set.
    """

    name: ClassVar[str] = "gesscale-spark"
    wants_arrivals: ClassVar[bool] = False
    spare: float = 0.10
    """What a smaller set must sustain beyond the rate needed before replicas are removed."""
    least_gain: float = 0.02
    """What a change must gain where no set sustains the rate."""
    warm_up_s: float = 30.0
    """New replicas are slow at first: overload so soon after a change does not count against the model."""

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """For each stage alone: topics decouple them."""
        return decide_each(seen, known, lambda stage: self._one(stage, known))

    def _one(self, stage: StageView, known: Knowledge) -> Plan:
        capacity = Capacity.of(stage, known, self.warm_up_s)
        needed = stage.known.needed_rate
        numbers = {
            "input_rate": stage.metrics.input_rate,
            "needed_rate": needed,
            "lag": float(stage.metrics.lag),
            "replicas": float(stage.replicas),
        }
        if capacity is None:
            return first_step(stage, known, numbers)
        now = capacity.rate(stage.nodes, stage.share)
        numbers |= {"mst": now, "correction": capacity.correction}
        if overloaded(stage, self.warm_up_s) or now < needed:
            return self._out(stage, known, capacity, now, numbers)
        share = stage.share
        for found in node_sets(stage, known, share):
            if found.size >= stage.replicas:
                break
            rate = capacity.rate_of(found.size, found.rtt_max_ms, share)
            if found.free_count == 0 and rate >= needed * (1.0 + self.spare):
                nodes = found.nodes
                return _scale(
                    stage, known, nodes, rate, f"{rate:.0f} records/s of {needed:.0f} needed", numbers
                )
        return Plan.keep(f"sustains {now:.0f} records/s of {needed:.0f} needed", numbers)

    def _out(
        self, stage: StageView, known: Knowledge, capacity: Capacity, now: float, numbers: dict[str, float]
    ) -> Plan:
        """The least set that sustains the rate and what piles up during the change; or the best there is."""
        target = max(stage.known.sized_rate, now * (1.0 + self.least_gain))
        why = f"needs {target:.0f} records/s and sustains {now:.0f}"
        best, best_rate = None, now
        share = stage.share
        for found in node_sets(stage, known, share):
            rate = capacity.rate_of(found.size, found.rtt_max_ms, share)
            if rate >= target and set(found.nodes) != set(stage.nodes):
                return _scale(stage, known, found.nodes, rate, why, numbers)
            if rate > best_rate:
                best, best_rate = found, rate
        if best is not None and best_rate > now * (1.0 + self.least_gain):
            return _scale(
                stage, known, best.nodes, best_rate, f"{why}; no set sustains it, this one most", numbers
            )
        return Plan.keep(f"{why}; {_refusal(stage, known, capacity)}", numbers)


def first_step(stage: StageView, known: Knowledge, numbers: dict[str, float]) -> Plan:
    """Without a model: one nearest node more when overloaded, as Gesscale does; nothing is removed."""
    free = known.nearest_first(stage.free(stage.share))
    if not stage.known.overloaded:
        return Plan.keep("no batch seen yet", numbers)
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
