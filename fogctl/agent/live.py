"""The agent's target on a running testbed: real stages, real nodes, real time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fognetem.matrix import LatencyMatrix

from fogctl.agent.knowledge import NodeFacts, StageFacts
from fogctl.agent.observation import HostMetrics
from fogctl.agent.plan import Plan
from fogctl.agent.recovery import wanted
from fogctl.agent.target import Facts
from fogctl.metrics.direct import DirectReader
from fogctl.metrics.values import WINDOW_S, NodeMetrics, Reader, StageMetrics
from fogctl.runtime import app as apps
from fogctl.runtime import fault_record
from fogctl.runtime.deployment import BESIDE_HEAP_BYTES, Deployment, Replica
from fogctl.runtime.operate import Apps, Say, quiet
from fogctl.testbed.model import Role
from fogctl.testbed.running import Running

_NAP_S = 0.2


class LiveTarget:
    """An app on a running testbed."""

    def __init__(
        self,
        running: Running,
        *,
        window_s: float = WINDOW_S,
        say: Say = quiet,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._running = running
        self._apps = Apps.on(running)
        self._reader = _UpOnly(DirectReader(running, window_s), running.state.folder)
        self._say = say
        self._stopping = stopping

    @property
    def reader(self) -> Reader:
        """Asks the stage runners and the nodes' control groups; nodes without power do not answer."""
        return self._reader

    @property
    def latencies(self) -> LatencyMatrix:
        """As injected now: somebody may have changed them live."""
        return self._running.state.load().latencies

    def now_s(self) -> float:
        """Unix time, as metrics have it."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Sleep, but no longer once the agent shall stop."""
        deadline = time.monotonic() + seconds
        while not self._stopping() and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(_NAP_S, left))

    def facts(self, app: str) -> Facts:
        """From app.yaml and the testbed."""
        loaded = apps.load(self._apps.get(app).app_file)
        nodes = self._running.testbed.nodes
        return Facts(
            stages=tuple(
                StageFacts(
                    stage.name,
                    stage.partitions,
                    stage.freshness_ms / 1e3,
                    stage.inputs,
                    stage.output,
                    stage.memory_bytes + BESIDE_HEAP_BYTES,
                    stage.slots,
                )
                for stage in loaded.stages
            ),
            edge=tuple(
                NodeFacts(node.name, node.cpu_cores, node.memory_bytes)
                for node in nodes
                if node.role is Role.edge
            ),
            origins=tuple(node.name for node in nodes if node.role is not Role.edge),
        )

    def deployment(self, app: str) -> Deployment:
        """What runs: the record, and where a killed change left others running or none, what is there."""
        found = self._apps.get(app)
        for placement in found.stages:
            there = self._apps.executors(app, placement.stage)
            if set(there) != set(placement.nodes):
                shares = {replica.node: replica.share for replica in placement.replicas}
                replicas = tuple(Replica(node, shares.get(node, 1.0)) for node in there)
                found = found.with_stage(replace(placement, replicas=replicas))
        return found

    def others(self, app: str) -> Mapping[str, float]:
        """The shares of all other apps."""
        shares: dict[str, float] = {}
        for other in self._apps.deployments():
            for placement in other.stages if other.app != app else ():
                for replica in placement.replicas:
                    shares[replica.node] = shares.get(replica.node, 0.0) + replica.share
        return shares

    def arrivals(self, app: str) -> Mapping[str, tuple[float, ...]]:  # noqa: ARG002
        """Nobody records single arrivals here."""
        return {}

    def host(self) -> HostMetrics | None:
        """The host's memory, as the kernel tells it."""
        facts = {}
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            facts[name] = int(rest.split()[0]) * 1024
        return HostMetrics(facts["MemAvailable"], facts["MemTotal"])

    def apply(self, app: str, plan: Plan) -> None:
        """Bring the app to what the plan leads to from what is recorded."""
        self._apps.become(wanted(plan, self._apps.get(app)), self._say)


@dataclass(frozen=True, slots=True)
class _UpOnly:
    """A reader that leaves out the nodes that a fault holds down: their control groups are still there."""

    inner: Reader
    state: Path

    def stages(self, app: str) -> tuple[StageMetrics, ...]:
        """Every stage that answers."""
        return self.inner.stages(app)

    def nodes(self) -> tuple[NodeMetrics, ...]:
        """Every node that answers and has power."""
        down = fault_record.down_nodes(fault_record.read(self.state))
        return tuple(metrics for metrics in self.inner.nodes() if metrics.node not in down)
