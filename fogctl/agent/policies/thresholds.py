"""Add one replica above a CPU utilisation, remove one below another: both threshold policies of Gesscale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan, Scale
from fogctl.agent.stagewise import StageView

Choice = Callable[[tuple[str, ...]], str]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """CPU utilisation above which one replica is added and below which one is removed."""

    out_above: float
    in_below: float
    of: Literal["cpu", "busy"] = "cpu"

    def __post_init__(self) -> None:
        if not 0.0 <= self.in_below < self.out_above <= 1.0:
            raise ValueError("scale_in_below must be less than scale_out_above, both from 0 to 1")

    def decide(self, seen: Observation, stage: StageView, add: Choice, remove: Choice) -> Plan:
        """Section V-A.c: "every time one threshold is reached … adds or removes one resource"."""
        used = seen.cpu_utilisation(stage.name) if self.of == "cpu" else None
        what = "CPU"
        if used is None:  # asked for, or nodes without a quota
            used, what = stage.metrics.busyness, "busy"
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
