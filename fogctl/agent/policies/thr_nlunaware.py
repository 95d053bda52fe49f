"""THR-NLUnaware, the simplest baseline of the Gesscale paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan
from fogctl.agent.policies.random_choice import pick
from fogctl.agent.policies.thresholds import Thresholds, Utilisation
from fogctl.agent.stagewise import StageView, decide_each


@dataclass(frozen=True, slots=True)
class ThrNlUnaware:
    """Thresholds, one replica at a time on a node chosen at random (Gesscale, section V-A.c)."""

    name: ClassVar[str] = "thr-nlunaware"
    wants_arrivals: ClassVar[bool] = False
    scale_out_above: float = 0.90
    scale_in_below: float = 0.50
    utilisation: Utilisation = "load"
    """load: records a second over the most that so many replicas have done; cpu: of the nodes, as in the
    paper, which says little on Spark; busy: the share of time that slots have tasks."""
    seed: int = 1

    def __post_init__(self) -> None:
        Thresholds(self.scale_out_above, self.scale_in_below, self.utilisation)

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """What the paper's THR-NLUnaware does at a look."""
        thresholds = Thresholds(self.scale_out_above, self.scale_in_below, self.utilisation)

        def one(stage: StageView) -> Plan:
            def choose(nodes: tuple[str, ...]) -> str:
                return pick(nodes, self.seed, stage.name)

            return thresholds.decide(seen, stage, choose, choose)

        return decide_each(seen, known, one)
