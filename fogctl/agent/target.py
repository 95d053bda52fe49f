"""What the agent drives: a live testbed or a simulated one. The agent takes even the time from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fognetem.matrix import LatencyMatrix

from fogctl.agent.knowledge import NodeFacts, StageFacts
from fogctl.agent.observation import HostMetrics
from fogctl.agent.plan import Plan
from fogctl.metrics.values import Reader
from fogctl.runtime.deployment import Deployment

MOST_ARRIVALS = 50_000
"""MEAD's monitoring buffer (section VII): the most recent arrivals that are kept."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What does not change while the agent runs."""

    stages: tuple[StageFacts, ...]
    edge: tuple[NodeFacts, ...]
    origins: tuple[str, ...]
    """The nodes that every replica talks to: driver (control) and broker."""


class Target(Protocol):
    """An app on a testbed that can be looked at and changed."""

    @property
    def reader(self) -> Reader:
        """Where the metrics come from."""
        ...

    @property
    def latencies(self) -> LatencyMatrix:
        """The round trips as they are injected now."""
        ...

    def now_s(self) -> float:
        """The clock that metrics carry too."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let time pass; a simulated target runs its model that far."""
        ...

    def facts(self, app: str) -> Facts:
        """Stages, nodes and origins of an app; FogError if it is not deployed."""
        ...

    def deployment(self, app: str) -> Deployment:
        """What is deployed at this moment, read back and not remembered."""
        ...

    def others(self, app: str) -> Mapping[str, float]:
        """By node: the shares that replicas of other apps have there."""
        ...

    def arrivals(self, app: str) -> Mapping[str, tuple[float, ...]]:
        """By stage: when records arrived lately (seconds, ascending); empty where nobody recorded it."""
        ...

    def host(self) -> HostMetrics | None:
        """The machine that the nodes share; None where they share none."""
        ...

    def news(self, app: str) -> Sequence[Mapping[str, Any]]:
        """What happened to the app's processes since it was last asked, as events without a time.

        Nothing where somebody else writes that down. FogError if it cannot be seen at the moment.
        """
        ...

    def apply(self, app: str, plan: Plan) -> None:
        """Make the plan's changes, in order; FogError if one fails, and then what had been changed is undone.

        A plan that is in force already changes nothing: applying twice is applying once.
        """
        ...
