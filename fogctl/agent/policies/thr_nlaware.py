"""THR-NLAware, the baseline of the Gesscale paper that knows latencies but has no model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan
from fogctl.agent.policies.thresholds import Thresholds, Utilisation
from fogctl.agent.stagewise import decide_each


@dataclass(frozen=True, slots=True)
class ThrNlAware:
    """Thresholds, nearest node added and farthest removed, one at a time (Gesscale, section V-A.c)."""

    name: ClassVar[str] = "thr-nlaware"
    wants_arrivals: ClassVar[bool] = False
    scale_out_above: float = 0.90
    scale_in_below: float = 0.50
    utilisation: Utilisation = "load"
    """load: records a second over the most that so many replicas have done; cpu: of the nodes, as in the
    paper, which says little on Spark; busy: the share of time that slots have tasks."""

    def __post_init__(self) -> None:
        Thresholds(self.scale_out_above, self.scale_in_below, self.utilisation)

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """What the paper's THR-NLAware does at a look."""
        thresholds = Thresholds(self.scale_out_above, self.scale_in_below, self.utilisation)
        return decide_each(
            seen,
            known,
            lambda stage: thresholds.decide(
                seen,
                stage,
                add=lambda nodes: known.nearest_first(nodes)[0],
                remove=lambda nodes: known.nearest_first(nodes)[-1],
            ),
        )
