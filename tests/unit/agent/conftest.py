"""A stage, its nodes and what is known of them, made in a line; and a tiny plant that an agent can drive."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from fogmodels.throughput import Sample
from fognetem.matrix import LatencyMatrix, Path

from fogctl.agent.knowledge import Knowledge, NodeFacts, StageFacts, StageKnowledge
from fogctl.agent.observation import HostMetrics, Observation
from fogctl.agent.plan import Plan
from fogctl.agent.recovery import wanted
from fogctl.agent.target import Facts
from fogctl.errors import FogError, NoAnswerError
from fogctl.metrics.values import NodeMetrics, StageMetrics
from fogctl.runtime.deployment import Deployment, Replica, StagePlacement

DISTANCES = {"pi1": 0.0, "pi2": 10.0, "pi3": 20.0, "pi4": 100.0, "pi5": 300.0}
NOW = 1_000.0


def matrix(distances: Mapping[str, float]) -> LatencyMatrix:
    """Nodes at these round trips from the driver and from the broker."""
    paths = [(o, n, Path(rtt_ms=d)) for o in ("cloud", "broker") for n, d in distances.items()]
    return LatencyMatrix(("cloud", "broker", *distances), tuple(paths))


def batch_mst(n: int, rtt_ms: float, rows: float, rounds: int = 8, share: float = 1.0) -> float:
    """A stage that truly is of the batch form: tau 0.1, mu 120, beta 1, k0 4, k1 2, theta 1."""
    m = -(-rounds // n)
    return rows / (0.1 * m + rows / (120.0 * share * n) + (4.0 + 2.0 * m) * rtt_ms / 1e3)


def samples(rounds: int = 8) -> tuple[Sample, ...]:
    """Enough of them that the batch form knows that stage."""
    found = []
    for n in (1, 2, 3, 5):
        for rtt in (0.0, 20.0, 100.0, 300.0):
            for rows, share in ((50, 1.0), (1500, 1.0), (400, 0.5)):
                rate = batch_mst(n, rtt, rows, rounds, share)
                found.append(Sample(n, rtt, rate, rows, rounds, share=share))
    return tuple(found)


SAMPLES = samples()


def metrics(stage: str = "work", nodes: Sequence[str] = ("pi1",), **given: Any) -> StageMetrics:
    """A stage that keeps up with 50 records a second."""
    values: dict[str, Any] = {
        "app": "toy",
        "stage": stage,
        "at_s": NOW - 1.0,
        "nodes": tuple(nodes),
        "slots": len(nodes),
        "input_rate": 50.0,
        "processed_rate": 50.0,
        "lag": 40,
        "lag_by_partition": {},
        "lag_trend": 0.0,
        "batch_ms": 1500.0,
        "batch_split_ms": {},
        "batch_rows": 40.0,
        "max_rows": 400,
        "busyness": 0.7,
        "true_rate": 60.0,
    }
    return StageMetrics(**{**values, **given})


def node_metrics(node: str, used: float = 0.14, **given: Any) -> NodeMetrics:
    """A node of a fifth of a core."""
    values: dict[str, Any] = {
        "at_s": NOW - 1.0,
        "cpu_used_cores": used,
        "cpu_quota_cores": 0.2,
        "cpu_throttled": 0.0,
        "memory_bytes": 100 << 20,
        "memory_limit_bytes": 1 << 30,
    }
    return NodeMetrics(node, **{**values, **given})


@dataclass(frozen=True)
class Scene:
    """What a policy sees and knows."""

    seen: Observation
    known: Knowledge


def deployment(**stages: Sequence[str] | Mapping[str, float]) -> Deployment:
    """Stages with their nodes, or with their nodes' shares."""
    made = []
    for number, (stage, nodes) in enumerate(stages.items()):
        shares = nodes if isinstance(nodes, Mapping) else dict.fromkeys(nodes, 1.0)
        made.append(StagePlacement(stage, number, tuple(Replica(n, x) for n, x in shares.items())))
    return Deployment("toy", "app.yaml", tuple(made))


def scene(
    nodes: Sequence[str] | Mapping[str, float] = ("pi1",),
    *,
    cpu: float = 0.7,
    distances: Mapping[str, float] = DISTANCES,
    down: Sequence[str] = (),
    known: Mapping[str, Any] | None = None,
    stages: Mapping[str, Sequence[str]] | None = None,
    facts: Mapping[str, StageFacts] | None = None,
    each: Mapping[str, Mapping[str, Any]] | None = None,
    others: Mapping[str, float] | None = None,
    host: HostMetrics | None = None,
    memory: Mapping[str, Any] | None = None,
    **given: Any,
) -> Scene:
    """One stage `work` on these nodes (or several stages), with these metrics and this knowledge."""
    placed = deployment(**stages) if stages else deployment(work=nodes)
    found = tuple(
        metrics(p.stage, [n for n in p.nodes if n not in down], **{**given, **(each or {}).get(p.stage, {})})
        for p in placed.stages
    )
    seen = Observation(
        NOW,
        "toy",
        found,
        tuple(node_metrics(n, cpu * 0.2) for n in distances if n not in down),
        placed,
        others=others or {},
        host=host,
    )
    rates = {m.stage: m.input_rate * 1.1 for m in found}
    learned = {
        p.stage: replace(
            StageKnowledge(
                (facts or {}).get(p.stage, StageFacts(p.stage, 8, 5.0, ("records",), f"{p.stage}-out")),
                1,
                len(distances),
                needed_rate=rates[p.stage],
                sized_rate=rates[p.stage],
            ),
            **(known or {}),
        )
        for p in placed.stages
    }
    edge = tuple(NodeFacts(node, 0.2, 1 << 30) for node in distances)
    return Scene(seen, Knowledge(matrix(distances), ("cloud", "broker"), edge, learned, memory=memory or {}))


@dataclass
class Plant:
    """A target of one stage whose load is set by hand: time passes only by sleeping and by changes."""

    rate: Callable[[float], float] = lambda _: 50.0
    per_replica: float = 60.0
    nodes_at: Mapping[str, float] = field(default_factory=lambda: dict(DISTANCES))
    placed: Deployment = field(default_factory=lambda: deployment(work=("pi1",)))
    clock: float = 0.0
    lag: float = 0.0
    change_takes_s: float = 4.0
    applied: list[Plan] = field(default_factory=list)
    fail: Callable[[Plan], str | None] = lambda _: None
    silent: bool = False
    frozen_at: float | None = None
    slope: float = 0.0
    lost: set[str] = field(default_factory=set)
    happened: list[dict[str, Any]] = field(default_factory=list)
    away: bool = False

    @property
    def reader(self) -> Plant:
        return self

    @property
    def latencies(self) -> LatencyMatrix:
        return matrix(self.nodes_at)

    def now_s(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        while seconds > 1e-9:
            step = min(1.0, seconds)
            grown = (self.rate(self.clock) - self.capacity()) * step
            self.slope = max(-self.lag, grown) / step
            self.lag = max(0.0, self.lag + grown)
            self.clock += step
            seconds -= step

    def capacity(self) -> float:
        return self.per_replica * sum(r.share for r in self.placed.stage("work").replicas)

    def facts(self, _app: str) -> Facts:
        edge = tuple(NodeFacts(node, 0.2, 1 << 30) for node in self.nodes_at)
        # Any number of replicas up to four divides twelve tasks evenly.
        stage = StageFacts("work", 12, 5.0, ("records",), "done", slots=12)
        return Facts((stage,), edge, ("cloud", "broker"))

    def deployment(self, _app: str) -> Deployment:
        if self.away:
            raise NoAnswerError("the cluster cannot be reached")
        return self.placed

    def others(self, _app: str) -> Mapping[str, float]:
        return {}

    def arrivals(self, _app: str) -> Mapping[str, tuple[float, ...]]:
        return {}

    def host(self) -> HostMetrics | None:
        return None

    def news(self, _app: str) -> Sequence[Mapping[str, Any]]:
        told, self.happened = self.happened, []
        return told

    def stages(self, _app: str) -> tuple[StageMetrics, ...]:
        if self.silent:
            raise FogError("the stage runner does not answer")
        rate, most = self.rate(self.clock), self.capacity()
        done = min(rate, most) if self.lag < 1 else most
        # A batch takes half a second and a time for each row; one of 4.5 s does `most` a second.
        per_row = 4.0 / (4.5 * most)
        settled = rate * 0.5 / (1.0 - rate * per_row) if rate * per_row < 1.0 else math.inf
        rows = max(1.0, min(4.5 * most, settled + self.lag))
        return (
            metrics(
                "work",
                self.placed.stage("work").nodes,
                at_s=self.clock if self.frozen_at is None else self.frozen_at,
                input_rate=rate,
                processed_rate=done,
                lag=int(self.lag),
                lag_trend=self.slope,
                batch_rows=rows,
                batch_ms=1e3 * (0.5 + rows * per_row),
                max_rows=int(4.5 * most),
                busyness=min(1.0, rate / most),
                true_rate=most,
            ),
        )

    def nodes(self) -> tuple[NodeMetrics, ...]:
        busy = min(1.0, self.rate(self.clock) / self.capacity()) if self.lag < 1 else 1.0
        used = dict.fromkeys(self.placed.stage("work").nodes, 0.2 * busy)
        return tuple(
            node_metrics(node, used.get(node, 0.0), at_s=self.clock)
            for node in ("cloud", "broker", *self.nodes_at)
            if node not in self.lost
        )

    def apply(self, _app: str, plan: Plan) -> None:
        if (problem := self.fail(plan)) is not None:
            raise FogError(problem)
        then = wanted(plan, self.placed)
        if then != self.placed:
            self.applied.append(plan)
            self.sleep(self.change_takes_s)
            self.placed = then


@dataclass(frozen=True)
class Making:
    """Everything tests of the agent build their world with."""

    scene = staticmethod(scene)
    metrics = staticmethod(metrics)
    node_metrics = staticmethod(node_metrics)
    deployment = staticmethod(deployment)
    batch_mst = staticmethod(batch_mst)
    matrix = staticmethod(matrix)
    samples = SAMPLES
    now = NOW
    plant = Plant


@pytest.fixture(scope="session")
def make() -> Making:
    """Makes scenes and plants."""
    return Making()
