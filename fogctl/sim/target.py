"""The simulator as what the agent drives: same questions, same answers, simulated time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from fognetem.matrix import LatencyMatrix

from fogctl.agent import recovery
from fogctl.agent.knowledge import NodeFacts, StageFacts
from fogctl.agent.observation import HostMetrics
from fogctl.agent.plan import Plan, Share
from fogctl.agent.target import MOST_ARRIVALS, Facts
from fogctl.errors import FogError
from fogctl.metrics.values import NodeMetrics, StageMetrics
from fogctl.runtime import deployment as deployments
from fogctl.runtime.carry_out import carry_out
from fogctl.runtime.deployment import Deployment
from fogctl.sim.simulation import REPLICA_BYTES, Simulation
from fogctl.sim.streams import Timed
from fogctl.testbed.model import Role


class SimTarget:
    """A simulated app that an agent looks at and changes. Sleeping runs the model that far."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation

    @property
    def reader(self) -> SimTarget:
        """It reads itself."""
        return self

    @property
    def latencies(self) -> LatencyMatrix:
        """The round trips as they are now."""
        return self.simulation.latencies

    def now_s(self) -> float:
        """Simulated time."""
        return self.simulation.now_s

    def sleep(self, seconds: float) -> None:
        """Let simulated time pass."""
        self.simulation.advance(self.simulation.now_s + max(0.0, seconds))

    def stages(self, app: str) -> tuple[StageMetrics, ...]:
        """Every stage, over the metric window."""
        self._check(app)
        return self.simulation.stage_metrics()

    def nodes(self) -> tuple[NodeMetrics, ...]:
        """Every node that is up."""
        return self.simulation.node_metrics()

    def facts(self, app: str) -> Facts:
        """Stages, nodes and origins."""
        self._check(app)
        testbed = self.simulation.testbed
        return Facts(
            stages=tuple(
                StageFacts(
                    s.name, s.partitions, s.freshness_ms / 1e3, s.inputs, s.output, REPLICA_BYTES, s.slots
                )
                for s in self.simulation.app.stages
            ),
            edge=tuple(
                NodeFacts(node.name, node.cpu_cores, node.memory_bytes)
                for node in testbed.nodes
                if node.role is Role.edge
            ),
            origins=tuple(node.name for node in testbed.nodes if node.role is not Role.edge),
        )

    def deployment(self, app: str) -> Deployment:
        """What is deployed now."""
        self._check(app)
        return self.simulation.deployment

    def others(self, app: str) -> Mapping[str, float]:
        """No other app is simulated."""
        self._check(app)
        return {}

    def arrivals(self, app: str) -> Mapping[str, tuple[float, ...]]:
        """By stage that reads from outside: the latest arrivals, where single ones are simulated."""
        self._check(app)
        found: dict[str, tuple[float, ...]] = {}
        for stage in self.simulation.app.stages:
            streams = [
                self.simulation.inputs[name] for name in stage.inputs if name in self.simulation.inputs
            ]
            timed = [stream for stream in streams if isinstance(stream, Timed)]
            if timed and len(timed) == len(streams):
                parts = []
                for stream in timed:
                    until = int(np.searchsorted(stream.at, self.simulation.now_s, side="right"))
                    parts.append(stream.at[max(0, until - MOST_ARRIVALS) : until])
                merged = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
                found[stage.name] = tuple(merged[-MOST_ARRIVALS:].tolist())
        return found

    def host(self) -> HostMetrics | None:
        """Simulated nodes share no machine."""
        return None

    def news(self, app: str) -> Sequence[Mapping[str, Any]]:
        """Simulated processes do not end by themselves."""
        self._check(app)
        return ()

    def apply(self, app: str, plan: Plan) -> None:
        """Make the plan's changes, in order; if one fails, those made are undone."""
        self._check(app)
        for action in plan.actions:
            there = self.simulation.deployment.stage(action.stage).nodes
            if isinstance(action, Share) and action.node is not None and action.node not in there:
                raise FogError(f"stage {action.stage} has no replica on {action.node}")
        wanted = recovery.wanted(plan, self.simulation.deployment)
        deployments.check([wanted], self.simulation.testbed)
        steps = deployments.changes(self.simulation.deployment, wanted)
        carry_out(steps, lambda wave: self.simulation.change(*wave), "make another simulation", _quiet)

    def _check(self, app: str) -> None:
        if app != self.simulation.app.name:
            raise FogError(f"app {app} is not deployed", hint=f"deployed: {self.simulation.app.name}")


def _quiet(_: str) -> None:
    """Nobody listens."""
