"""A running testbed watched through its own readers and its event log: the agent need not be alive."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from fogctl.agent import service
from fogctl.errors import FogError
from fogctl.metrics.values import NodeMetrics, StageMetrics, troubles_of
from fogctl.runtime import events, fault_record
from fogctl.runtime.deployment import Deployment
from fogctl.runtime.ground import Ground
from fogctl.runtime.operate import Apps
from fogctl.testbed import lock
from fogctl.testbed.model import Role
from fogctl.watch.view import (
    HISTORY_S,
    AgentView,
    NodeView,
    ReplicaView,
    StageView,
    View,
    event_view,
    telling,
)


class TestbedSource:
    """Asks stage runners and control groups, and reads what agents and faults wrote down."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    def __init__(self, ground: Ground, window_s: float = 15.0) -> None:
        self._ground = ground
        self._reader = ground.reader(window_s)
        self._apps = Apps(ground)
        self._history: dict[tuple[str, str], deque[tuple[float, float]]] = {}

    def look(self) -> View:
        """The present moment."""
        notes: list[str] = []
        deployments = self._apps.deployments()
        stages = [metrics for found in deployments for metrics in self._asked(found.app, notes)]
        nodes = self._node_metrics(notes)
        notes += troubles_of(self._reader).values()
        told = list(events.read(self._ground.folder))
        for found in deployments:
            silent = {placement.stage for placement in found.stages} - {
                metrics.stage for metrics in stages if metrics.app == found.app
            }
            notes += [f"stage {found.app}.{stage} does not answer" for stage in sorted(silent)]
        agents = [self._agent(found.app, told) for found in deployments]
        notes += [f"the agent of {a.app} is dead: {a.said}" for a in agents if a and a.state == "dead"]
        return View(
            title=f"testbed {self._ground.testbed.name} ({self._ground.testbed.kind.value})",
            at=datetime.now().strftime("%H:%M:%S"),
            nodes=self._nodes(deployments, nodes),
            stages=tuple(self._stage(deployments, metrics) for metrics in stages),
            agents=tuple(agent for agent in agents if agent is not None),
            events=tuple(event_view(_clock(e), e) for e in telling(told)),
            notes=tuple(notes),
        )

    def _asked(self, app: str, notes: list[str]) -> tuple[StageMetrics, ...]:
        try:
            return self._reader.stages(app)
        except FogError as error:
            notes.append(error.message)
            return ()

    def _node_metrics(self, notes: list[str]) -> dict[str, NodeMetrics]:
        try:
            return {metrics.node: metrics for metrics in self._reader.nodes()}
        except FogError as error:
            notes.append(error.message)
            return {}

    def _agent(self, app: str, told: list[dict[str, Any]]) -> AgentView | None:
        held = lock.holder(service.lock_folder(self._ground.folder, app)) is not None
        return agent_of(app, told, held, time.time())

    def _stage(self, deployments: list[Deployment], metrics: StageMetrics) -> StageView:
        placed = next(found for found in deployments if found.app == metrics.app).stage(metrics.stage)
        shares = [replica.share for replica in placed.replicas]
        past = self._history.setdefault((metrics.app, metrics.stage), deque(maxlen=HISTORY_S))
        past.append((metrics.processed_rate, float(metrics.lag)))
        return StageView(
            app=metrics.app,
            stage=metrics.stage,
            input_rate=metrics.input_rate,
            processed_rate=metrics.processed_rate,
            lag=float(metrics.lag),
            replicas=len(shares),
            share=sum(shares) / len(shares) if shares else 0.0,
            batch_ms=metrics.batch_ms,
            rates=tuple(rate for rate, _ in past),
            lags=tuple(lag for _, lag in past),
        )

    def _nodes(self, deployments: list[Deployment], seen: Mapping[str, NodeMetrics]) -> tuple[NodeView, ...]:
        testbed, latencies = self._ground.testbed, self._ground.latencies
        origins = [node.name for node in testbed.nodes if node.role is not Role.edge]
        down = fault_record.down_nodes(fault_record.read(self._ground.folder))
        silent = troubles_of(self._reader)
        placed: dict[str, list[ReplicaView]] = {}
        for found in deployments:
            for placement in found.stages:
                for replica in placement.replicas:
                    placed.setdefault(replica.node, []).append(ReplicaView(placement.stage, replica.share))
        views = []
        for node in testbed.nodes:
            metrics = seen.get(node.name)
            views.append(
                NodeView(
                    name=node.name,
                    role=node.role.value,
                    distance_ms=latencies.max_rtt_ms(origins, node.name) if node.role is Role.edge else 0.0,
                    used_cores=None if metrics is None else metrics.cpu_used_cores,
                    quota_cores=node.cpu_cores if metrics is None else metrics.cpu_quota_cores,
                    replicas=tuple(placed.get(node.name, ())),
                    down=node.name in down or node.name in silent,
                )
            )
        return tuple(views)


def agent_of(app: str, told: Iterable[Mapping[str, Any]], held: bool, now_s: float) -> AgentView | None:
    """An app's agent as its events tell of it; `held`: whether one holds its lock at this moment. Pure."""
    own = [e for e in told if e.get("app") == app]
    life = [e for e in own if e.get("what") in ("agent started", "agent stopped")]
    started = [e for e in life if e["what"] == "agent started"]
    if not started:
        return None
    decided = [e for e in own if e.get("what") == "decision"]
    last_s = float((decided or started)[-1]["at_s"])
    said = f"last decision {max(0.0, now_s - last_s):.0f} s ago" if decided else "no decision yet"
    if held:
        state = "running"
    elif life[-1]["what"] == "agent stopped":
        state = "stopped"
    else:
        # An experiment runs its agent itself and holds no lock; it decides every few seconds.
        lately_s = max(last_s, float(started[-1]["at_s"]))
        every_s = float(started[-1].get("every_s", 10.0))
        state = "running" if now_s - lately_s < 3 * every_s + 15 else "dead"
    return AgentView(app, str(started[-1].get("policy", "")), state, said)


def _clock(event: Mapping[str, Any]) -> str:
    return datetime.fromtimestamp(float(event.get("at_s", 0.0))).strftime("%H:%M:%S")
