"""MEAD with M/G/1 queues: its first baseline, which sees the arrival rate and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from fogmodels.arrivals import MAP
from fogmodels.queueing import LEVELS, Application, responder
from fogmodels.queueing.shares import Respond

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan
from fogctl.agent.policies.mead_network import Targets, Vector


@dataclass(frozen=True, slots=True)
class MeadMg1:
    """MEAD's algorithm with Poisson arrivals: what the paper compares with; too optimistic under bursts."""

    name: ClassVar[str] = "mead-mg1"
    target_ms: float = 500.0
    percentile: float | None = None
    path_targets_ms: Mapping[str, float] = field(default_factory=dict)
    levels: tuple[float, ...] = LEVELS
    levels_down: int = 1
    clear_backlog: bool = False

    def __post_init__(self) -> None:
        Targets.of(self)

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """The same search as MEAD's."""
        return Targets.of(self).decide(seen, known, poisson)


def poisson(app: Application, gaps: Vector, percentile: float | None) -> Sequence[Respond]:
    """M/G/1 at every stage: with phase-type service the exact M/PH/1, its mean Pollaczek and Khinchine's."""
    return [responder(app, MAP.poisson(1.0 / float(gaps.mean())), percentile)]
