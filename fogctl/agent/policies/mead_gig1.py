"""MEAD with Kingman's GI/G/1: its second baseline, which sees variability but no correlation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

from fogmodels.queueing import LEVELS, Application, Unstable, kingman
from fogmodels.queueing.shares import Path, Respond

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan
from fogctl.agent.policies.mead_network import Targets, Vector


@dataclass(frozen=True, slots=True)
class MeadGig1:
    """MEAD's algorithm with Kingman's formula: what the paper compares with; blind to correlated arrivals."""

    name: ClassVar[str] = "mead-gig1"
    target_ms: float = 500.0
    path_targets_ms: Mapping[str, float] = field(default_factory=dict)
    levels: tuple[float, ...] = LEVELS
    levels_down: int = 1
    clear_backlog: bool = False
    percentile: float | None = None
    """Kingman's formula gives a mean only: anything else is refused."""

    def __post_init__(self) -> None:
        if self.percentile is not None:
            raise ValueError("Kingman's formula gives a mean only: leave percentile out, or use mead-mg1")
        Targets.of(self)

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """The same search as MEAD's."""
        return Targets.of(self).decide(seen, known, independent)


def independent(app: Application, gaps: Vector, percentile: float | None) -> Sequence[Respond]:
    """Kingman's approximation at every stage; the path's mean is the sum."""
    if percentile is not None:
        raise ValueError("Kingman's formula gives a mean only")
    rate = 1.0 / float(gaps.mean())
    scv = float(gaps.var()) * rate * rate
    kept: dict[str, float] = {}
    for stage in app.order():
        edges = app.incoming(stage)
        kept[stage] = sum(edge.keep * kept[edge.source] for edge in edges) if edges else 1.0

    def respond(path: Path, shares: Mapping[str, float]) -> tuple[float, Mapping[str, float]]:
        each = {}
        for stage in path:
            service = app.services[stage]
            # Thinning a renewal process draws its SCV towards 1.
            thinned = 1.0 + min(1.0, kept[stage]) * (scv - 1.0)
            try:
                found = kingman(rate * kept[stage], thinned, service.scaled(service.mean / shares[stage]))
                each[stage] = found.mean
            except Unstable:
                each[stage] = inf
        return sum(each.values()), each

    return [respond]
