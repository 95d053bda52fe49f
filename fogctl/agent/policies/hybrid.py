"""Hybrid: CPU shares first, because they change in place and at once; replicas when shares run out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fogctl.agent.evaluate import backlog
from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan, Scale, Share
from fogctl.agent.policies.capacity import (
    Capacity,
    node_sets,
    nothing_known,
    only_cold,
    overloaded,
    pressed,
    rises,
)
from fogctl.agent.policies.gesscale_spark import least_set, one_more
from fogctl.agent.policies.surplus import Surplus
from fogctl.agent.stagewise import StageView, decide_each

_SAME = 1e-6


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Shares in place first, replicas when shares run out; one batch-time model of both.

    Load that rises is first met by larger shares of the nodes in use. When these are at their limit replicas
    are added; they are removed once what they cost to spare, at the shares they have, is what a change costs.
    """

    name: ClassVar[str] = "hybrid"
    wants_arrivals: ClassVar[bool] = False
    levels: tuple[float, ...] = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    """The shares to choose from. Tasks take long to start on little CPU, so the least is MEAD's."""
    spare: float = 0.2
    """What a smaller share must sustain beyond the rate needed."""
    spare_replica: float = 0.15
    """What fewer replicas must sustain beyond it, at full share: the share takes up what varies."""
    change_costs: float = 90.0
    """Node-seconds, weighed by share, that a replica may be to spare: what it takes to have it back, warm."""
    worth: float = 0.6
    """What another node must bring, as a part of what the nodes bring on average: far ones bring little."""
    pressed_from: float = 0.25
    """Of the freshness bound: with shorter batches no replica is added on the model's word alone."""
    warm_up_s: float = 30.0
    """New replicas are slow at first: overload so soon after a change does not count against the model."""

    def __post_init__(self) -> None:
        if not self.levels or not all(0.0 < level <= 1.0 for level in self.levels):
            raise ValueError("levels must be shares above 0 and up to 1")
        object.__setattr__(self, "levels", tuple(sorted(set(self.levels))))

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """For each stage alone: topics decouple them."""
        return decide_each(seen, known, lambda stage: self._one(stage, known, seen.at_s))

    def _one(self, stage: StageView, known: Knowledge, at_s: float) -> Plan:
        capacity = Capacity.of(stage, known, self.warm_up_s)
        needed, x = stage.known.needed_rate, stage.share
        largest = min((self._limit(stage, node) for node in stage.nodes), default=1.0)
        numbers = {
            "input_rate": stage.metrics.input_rate,
            "needed_rate": needed,
            "lag": float(stage.metrics.lag),
            "replicas": float(stage.replicas),
            "share": x,
        }
        if capacity is None:
            return self._first_step(stage, known, largest, numbers)
        now, most = capacity.rate_now(stage.nodes, x), capacity.rate(stage.nodes, largest)
        numbers |= {"mst": now, "correction": capacity.correction, "cold": stage.known.cold}
        key = f"{self.name}.surplus.{stage.name}"
        behind = backlog(stage.metrics, stage.known) > 0.0
        full = x >= largest - _SAME
        short = most < needed and pressed(stage, self.pressed_from)
        if short or (full and overloaded(stage, self.warm_up_s)):
            plan = self._out(stage, known, capacity, now, numbers)
            return replace(plan, remember={key: Surplus(at_s).to_memory()})
        new = stage.since_grown_s < self.warm_up_s
        fewer = None if behind or new or rises(stage) else self._fewer(stage, known, capacity)
        spare = 0 if fewer is None else stage.replicas - len(fewer)
        surplus = Surplus.remembered(known.memory, key, at_s).after(at_s, spare * x)
        numbers |= {"spare": float(spare), "spare_node_seconds": surplus.node_seconds}
        remember = {key: surplus.to_memory()}
        if fewer is not None and surplus.node_seconds >= self.change_costs * spare:
            return replace(self._in(stage, capacity, fewer, numbers), remember=remember)
        # What waits is worked off with all of the CPU there is: that costs no stall.
        wanted = stage.known.sized_rate if behind else needed * (1.0 + self.spare)
        level = self._level(capacity, stage.nodes, wanted, largest) or largest
        if level > x + _SAME and (behind or now < needed):
            plan = self._shares(stage, capacity, level, f"needs {wanted:.0f} records/s", numbers)
        elif level < x - _SAME and not behind:
            plan = self._shares(stage, capacity, level, f"needs {needed:.0f} records/s only", numbers)
        else:
            plan = Plan.keep(f"sustains {now:.0f} records/s of {needed:.0f} needed at {x:.0%}", numbers)
        return replace(plan, remember=remember)

    def _fewer(self, stage: StageView, known: Knowledge, capacity: Capacity) -> tuple[str, ...] | None:
        """The least of the stage's own nodes that would do even at shares that leave room to grow."""
        enough = stage.known.needed_rate * (1.0 + self.spare_replica)
        for found in node_sets(stage, known, 1.0):
            if found.size >= stage.replicas:
                return None
            if found.free_count == 0:
                most = min(self._limit(stage, node) for node in found.nodes)
                if capacity.rate_of(found.size, found.rtt_max_ms, most) >= enough:
                    return found.nodes
        return None

    def _out(
        self, stage: StageView, known: Knowledge, capacity: Capacity, now: float, numbers: dict[str, float]
    ) -> Plan:
        """The least set that sustains the rate at full share; the shares it has go up at once."""
        target = stage.known.sized_rate
        why = f"needs {target:.0f} records/s and sustains {now:.0f} at {stage.share:.0%}"
        found = least_set(stage, known, capacity, 1.0, target, self.worth)
        if found is None and overloaded(stage, self.warm_up_s):
            found = one_more(stage, known, capacity, 1.0)
        if found is None:
            if stage.share < min(self._limit(stage, node) for node in stage.nodes) - _SAME:
                return self._shares(stage, capacity, 1.0, why, numbers)
            return Plan.keep(f"{why}; no further node would raise that", numbers)
        chosen, rate = found[0].nodes, found[1]
        # All of the CPU until what piled up during the change is worked off; shares go down later.
        return Plan(
            (*self._to_level(stage, 1.0), Scale(stage.name, chosen, 1.0, keep_shares=False)),
            f"{why}: {stage.replicas} to {len(chosen)} replicas",
            numbers,
            {"mst": rate, "replicas": float(len(chosen)), "share": 1.0},
        )

    def _in(
        self, stage: StageView, capacity: Capacity, nodes: tuple[str, ...], numbers: dict[str, float]
    ) -> Plan:
        """Fewer replicas with larger shares; should all stay a while, with as small ones as will do."""
        most = min(self._limit(stage, node) for node in nodes)
        target = stage.known.needed_rate * (1.0 + self.spare)
        level = self._level(capacity, nodes, target, most) or most
        meanwhile = self._level(capacity, stage.nodes, target, stage.share) or stage.share
        rate = capacity.rate(nodes, level)
        return Plan(
            (*self._to_level(stage, meanwhile), Scale(stage.name, nodes, level, keep_shares=False)),
            f"{len(nodes)} replicas at {level:.0%} sustain {rate:.0f} records/s "
            f"of {stage.known.needed_rate:.0f} needed",
            numbers,
            {"mst": rate, "replicas": float(len(nodes)), "share": level},
        )

    def _shares(
        self, stage: StageView, capacity: Capacity, level: float, why: str, numbers: dict[str, float]
    ) -> Plan:
        return Plan(
            self._to_level(stage, level),
            f"{why}: {stage.share:.0%} to {level:.0%} of the CPU",
            numbers,
            {"mst": capacity.rate(stage.nodes, level), "replicas": float(stage.replicas), "share": level},
        )

    def _to_level(self, stage: StageView, level: float) -> tuple[Share, ...]:
        """This share for every replica, as far as its node has room."""
        wanted = {node: min(level, self._limit(stage, node)) for node in stage.nodes}
        return tuple(
            Share(stage.name, node, share)
            for node, share in wanted.items()
            if abs(share - self._share_of(stage, node)) > _SAME
        )

    def _first_step(
        self, stage: StageView, known: Knowledge, largest: float, numbers: dict[str, float]
    ) -> Plan:
        """Without a model: all of the CPU when overloaded, then one nearest node more; nothing goes."""
        if not stage.known.overloaded or only_cold(stage, self.warm_up_s):
            return Plan.keep(nothing_known(stage), numbers)
        if stage.share < largest - _SAME:
            actions = self._to_level(stage, 1.0)
            return Plan(actions, "overloaded and no model yet: all of the CPU", numbers, {"share": largest})
        free = known.nearest_first(stage.free())
        if not stage.can_grow or not free:
            return Plan.keep("overloaded, but no node is left", numbers)
        nodes = (*stage.nodes, free[0])
        return Plan(
            (Scale(stage.name, nodes),),
            f"overloaded and no model yet: add {free[0]}",
            numbers,
            {"replicas": float(len(nodes))},
        )

    def _level(self, capacity: Capacity, nodes: tuple[str, ...], rate: float, largest: float) -> float | None:
        """The smallest share that sustains the rate; None if even the largest does not."""
        for level in self.levels:
            if level <= largest + _SAME and capacity.rate_now(nodes, level) >= rate:
                return level
        return None

    @staticmethod
    def _share_of(stage: StageView, node: str) -> float:
        return next((r.share for r in stage.placement.replicas if r.node == node), 1.0)

    def _limit(self, stage: StageView, node: str) -> float:
        """The largest share that a replica may have where it is: its own and what nobody has."""
        return min(1.0, self._share_of(stage, node) + stage.room.get(node, 0.0))
