"""Gesscale as published: Algorithms 1 to 4 with the paper's throughput model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan, Scale
from fogctl.agent.policies.scale_down import replicas_after
from fogctl.agent.stagewise import StageView, decide_each

Mst = Callable[[tuple[str, ...]], float]


@dataclass(frozen=True, slots=True)
class Gesscale:
    """MST = αnᵝ − γ·ND_max: one nearest node more when overloaded, the farthest go when the model allows.

    Arkian, Pierre, Tordsson, Elmroth, ICCCN 2021. Overload, back pressure on Flink, is lag that grows here.
    """

    name: ClassVar[str] = "gesscale"
    wants_arrivals: ClassVar[bool] = False
    threshold_percent: float = 10.0
    """Trshld_DT of Algorithm 2: the paper names no value."""

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """Monitor and Analyze were the loop's; this is Plan, and the choice of nodes of Execute (IV-E)."""
        return decide_each(seen, known, lambda stage: self._one(stage, known))

    def _one(self, stage: StageView, known: Knowledge) -> Plan:
        model = stage.known.model("gesscale")

        def mst(nodes: tuple[str, ...]) -> float:
            return model.mst(len(nodes), known.rtt_max_ms(nodes), share=stage.share) if model else 0.0

        numbers = {
            "input_rate": stage.metrics.input_rate,
            "processed_rate": stage.metrics.processed_rate,
            "lag": float(stage.metrics.lag),
            "replicas": float(stage.replicas),
            **({"mst": mst(stage.nodes)} if model else {}),
        }
        if stage.known.overloaded:  # Algorithm 1
            return self._out(stage, known, mst, numbers)
        if model is None:
            return Plan.keep("keeps up; no model yet", numbers)
        # Farthest first: with n replicas the n nearest are left.
        kept = known.nearest_first(stage.nodes)
        n = replicas_after(
            stage.replicas,
            stage.known.min_replicas,
            lambda count: mst(kept[:count]),
            stage.metrics.processed_rate,
            stage.metrics.input_rate,
            self.threshold_percent,
        )
        if n == stage.replicas or n == 0:
            return Plan.keep(f"keeps up with {stage.replicas} replicas", numbers)
        predicted = mst(kept[:n])
        return Plan(
            (Scale(stage.name, kept[:n]),),
            f"{n} replicas sustain {predicted:.0f} records/s of {stage.metrics.input_rate:.0f} arriving",
            numbers,
            {"mst": predicted, "replicas": float(n)},
        )

    def _out(self, stage: StageView, known: Knowledge, mst: Mst, numbers: dict[str, float]) -> Plan:
        """Algorithm 3: one replica more, on the node nearest to the others."""
        free = known.nearest_first(stage.free())
        if not stage.can_grow or not free:
            return Plan.keep("overloaded, but no node is left", numbers)
        nodes = (*stage.nodes, free[0])
        return Plan(
            (Scale(stage.name, nodes),),
            f"overloaded: lag {stage.metrics.lag} grows; add {free[0]}",
            numbers,
            {"replicas": float(len(nodes)), **({"mst": mst(nodes)} if "mst" in numbers else {})},
        )
