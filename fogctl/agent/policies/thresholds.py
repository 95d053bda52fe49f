"""Add one replica above a utilisation, remove one below another: both threshold policies of Gesscale.

On Flink an operator's CPU tells its utilisation. Spark's executors start the tasks of one small batch after
the other and wait for far nodes: with 0.16 of a core each they used 70 % of it at a fifth of the load they
can bear, 85 % when overloaded, and 30 % when overloaded together with a node at 300 ms. So the paper's 90 %
would never be reached, and its 50 % where nothing is to spare. Meant is the load over what can be borne.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan, Scale
from fogctl.agent.stagewise import StageView

Choice = Callable[[tuple[str, ...]], str]
Utilisation = Literal["load", "cpu", "busy"]
"""What thresholds look at. load: records a second over the most that so many replicas have done, and 1 when
the stage falls behind; cpu: of the nodes, as in the paper; busy: the share of time that slots have tasks."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The utilisation above which one replica is added and below which one is removed."""

    out_above: float
    in_below: float
    of: Utilisation = "load"

    def __post_init__(self) -> None:
        if not 0.0 <= self.in_below < self.out_above <= 1.0:
            raise ValueError("scale_in_below must be less than scale_out_above, both from 0 to 1")

    def decide(self, seen: Observation, stage: StageView, add: Choice, remove: Choice) -> Plan:
        """Section V-A.c: "every time one threshold is reached … adds or removes one resource"."""
        if self.of == "cpu" and (unknown := seen.cpu_unknown(stage.name)):
            return Plan.keep(f"what {', '.join(unknown)} uses of its CPU is not known yet")
        used, what = self._utilisation(seen, stage)
        if used is None:
            return Plan.keep("keeps up; what a replica can bear is not known yet")
        numbers = {"utilisation": used, "replicas": float(stage.replicas)}
        if used > self.out_above:
            if not stage.can_grow or not (free := stage.free()):
                return Plan.keep(f"{what} {used:.0%} > {self.out_above:.0%}, but no node is left", numbers)
            node = add(free)
            return Plan(
                (Scale(stage.name, (*stage.nodes, node)),),
                f"{what} {used:.0%} > {self.out_above:.0%}: add {node}",
                numbers,
                {"replicas": stage.replicas + 1.0},
            )
        if used < self.in_below and stage.can_shrink:
            node = remove(stage.nodes)
            return Plan(
                (Scale(stage.name, tuple(n for n in stage.nodes if n != node)),),
                f"{what} {used:.0%} < {self.in_below:.0%}: remove {node}",
                numbers,
                {"replicas": stage.replicas - 1.0},
            )
        return Plan.keep(f"{what} {used:.0%}", numbers)

    def _utilisation(self, seen: Observation, stage: StageView) -> tuple[float | None, str]:
        """The utilisation, None while it is not known, and what it is called."""
        if self.of == "load":
            if stage.known.overloaded:
                return 1.0, "load"
            best = max((s.mst / (s.replicas * s.share) for s in stage.known.saturated), default=0.0)
            bears = best * sum(r.share for r in stage.placement.replicas if r.node in stage.nodes)
            return stage.metrics.input_rate / bears if bears > 0.0 else None, "load"
        used = seen.cpu_utilisation(stage.name) if self.of == "cpu" else None
        # Nodes without a quota have no utilisation.
        return (used, "CPU") if used is not None else (stage.metrics.busyness, "busy")
