"""MDL-NLUnaware, the baseline of the Gesscale paper with a model that knows no latencies."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from fogctl.agent.knowledge import Knowledge, StageKnowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan, Scale
from fogctl.agent.policies.random_choice import pick, shuffled
from fogctl.agent.policies.scale_down import replicas_after
from fogctl.agent.stagewise import StageView, decide_each


@dataclass(frozen=True, slots=True)
class MdlNlUnaware:
    """Gesscale with MST = α·n (equation 2) and nodes chosen at random (section V-A.c)."""

    name: ClassVar[str] = "mdl-nlunaware"
    wants_arrivals: ClassVar[bool] = False
    threshold_percent: float = 10.0
    """Trshld_DT of Algorithm 2: the paper names no value."""
    seed: int = 1

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """Algorithms 1 to 4 without latencies."""
        return decide_each(seen, known, self._one)

    def _one(self, stage: StageView) -> Plan:
        alpha = one_replica(stage.known) * stage.share
        numbers = {
            "input_rate": stage.metrics.input_rate,
            "processed_rate": stage.metrics.processed_rate,
            "lag": float(stage.metrics.lag),
            "replicas": float(stage.replicas),
            "mst": alpha * stage.replicas,
        }
        if stage.known.overloaded:
            free = stage.free()
            if not stage.can_grow or not free:
                return Plan.keep("overloaded, but no node is left", numbers)
            node = pick(free, self.seed, stage.name)
            count = stage.replicas + 1
            return Plan(
                (Scale(stage.name, (*stage.nodes, node)),),
                f"overloaded: lag {stage.metrics.lag} grows; add {node}",
                numbers,
                {"mst": alpha * count, "replicas": float(count)},
            )
        n = replicas_after(
            stage.replicas,
            stage.known.min_replicas,
            lambda count: alpha * count,
            stage.metrics.processed_rate,
            stage.metrics.input_rate,
            self.threshold_percent,
        )
        if n == stage.replicas or n == 0:
            return Plan.keep(f"keeps up with {stage.replicas} replicas", numbers)
        gone = set(shuffled(stage.nodes, self.seed, stage.name)[n:])
        return Plan(
            (Scale(stage.name, tuple(node for node in stage.nodes if node not in gone)),),
            f"{n} replicas sustain {alpha * n:.0f} records/s of {stage.metrics.input_rate:.0f} arriving",
            numbers,
            {"mst": alpha * n, "replicas": float(n)},
        )


def one_replica(stage: StageKnowledge) -> float:
    """α of equation 2, the MST of one replica at full share; 0 before anything was measured.

    The paper fits it to one measurement; of several the median is taken, which one bad sample does not move.
    """
    samples = stage.saturated or stage.batches
    return median(s.mst / (s.replicas * s.share) for s in samples) if samples else 0.0
