"""What a policy sees: one look at an app, its nodes and its deployment, all from the same moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fogctl.metrics.values import NodeMetrics, StageMetrics
from fogctl.runtime.deployment import WHOLE, Deployment, StagePlacement


@dataclass(frozen=True, slots=True)
class HostMetrics:
    """The machine that the nodes share, where they do (a virtual testbed)."""

    memory_available_bytes: int
    memory_total_bytes: int
    cpu_busy: float | None = None
    """Share of all cores in use, 0 to 1; None: not known."""


@dataclass(frozen=True, slots=True)
class Observation:
    """An app at a moment. A node or stage without metrics did not answer: nothing may be placed on it."""

    at_s: float
    """When it was taken, on the target's clock."""
    app: str
    stages: tuple[StageMetrics, ...]
    nodes: tuple[NodeMetrics, ...]
    deployment: Deployment
    arrivals: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By stage: when records arrived in the window (seconds, ascending), for policies that fit a process."""
    others: Mapping[str, float] = field(default_factory=dict)
    """By node: the shares that replicas of other apps have there."""
    host: HostMetrics | None = None
    _by_node: dict[str, NodeMetrics] = field(init=False, repr=False, compare=False)
    _given: dict[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = dict(self.others)
        for placement in self.deployment.stages:
            for replica in placement.replicas:
                given[replica.node] = given.get(replica.node, 0.0) + replica.share
        object.__setattr__(self, "_by_node", {metrics.node: metrics for metrics in self.nodes})
        object.__setattr__(self, "_given", given)

    def stage(self, name: str) -> StageMetrics | None:
        """The metrics of a stage; None if it did not answer."""
        return next((found for found in self.stages if found.stage == name), None)

    def node(self, name: str) -> NodeMetrics | None:
        """The metrics of a node; None if it did not answer."""
        return self._by_node.get(name)

    def placement(self, stage: str) -> StagePlacement:
        """Where a stage runs; FogError if the app has no such stage."""
        return self.deployment.stage(stage)

    def free_share(self, node: str) -> float:
        """What no replica of any app has of a node, 0 to 1."""
        return max(0.0, WHOLE - self._given.get(node, 0.0))

    def cpu_utilisation(self, stage: str) -> float | None:
        """Cores used over cores allowed, on the nodes of a stage together.

        None where no node has a limit, or where what one of them uses is not known yet.
        """
        used = allowed = 0.0
        for metrics in filter(None, map(self.node, self.placement(stage).nodes)):
            if metrics.cpu_quota_cores:
                if metrics.cpu_used_cores is None:
                    return None
                used, allowed = used + metrics.cpu_used_cores, allowed + metrics.cpu_quota_cores
        return used / allowed if allowed else None

    def cpu_unknown(self, stage: str) -> tuple[str, ...]:
        """The nodes of a stage that answer, but of which is not known yet what they use."""
        found = filter(None, map(self.node, self.placement(stage).nodes))
        return tuple(metrics.node for metrics in found if metrics.cpu_used_cores is None)
