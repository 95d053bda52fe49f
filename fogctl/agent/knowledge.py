"""What the agent knows: the nodes and their distances, and what it learned of each stage. Values only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from fogmodels.scalability import LagTrend
from fogmodels.throughput import Sample, ThroughputModel, fit
from fognetem.matrix import LatencyMatrix

Form = Literal["auto", "gesscale", "batch"]

WARM_CPU_S = 8.0
"""CPU seconds of work after which a replica is 37 % as cold as at its start: 4 and 10 were measured."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node that replicas may run on."""

    name: str
    cpu_cores: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RecordCost:
    """What a record costs a stage, as profiled (`fogctl app profile`)."""

    cpu_s: float
    state_bytes: float = 0.0
    """State read and written."""
    output_bytes: float = 0.0
    """Handed on."""


@dataclass(frozen=True, slots=True)
class StageFacts:
    """What an app file says of a stage, and what was measured of it before."""

    stage: str
    partitions: int
    freshness_s: float
    """How long a batch may take."""
    inputs: tuple[str, ...] = ()
    output: str = ""
    replica_bytes: int = 0
    """Memory that one more replica takes; 0: not known."""
    slots: int = 1
    """Tasks that a replica runs at a time."""
    cost: RecordCost | None = None
    """None: not profiled."""


@dataclass(frozen=True, slots=True)
class StageKnowledge:
    """What is known of a stage: its facts, its limits, what was measured, and how it does at present."""

    facts: StageFacts
    min_replicas: int = 1
    max_replicas: int = 1_000_000
    saturated: tuple[Sample, ...] = ()
    """Throughput while overloaded: what the Gesscale paper calls a measurement of the MST."""
    batches: tuple[Sample, ...] = ()
    """Rows over duration of the batches of a window: what the batch-time form learns from, at any load."""
    stalls_s: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Seconds of input that piled up during a change, by kind of change: `out`, `in`, `share`."""
    takes_s: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Seconds from a decision until its change was made, by kind."""
    lags: tuple[tuple[float, float], ...] = ()
    """When and how much: the lags seen within the metric window, oldest first."""
    rates: tuple[tuple[float, float], ...] = ()
    """When and how much: the arrival rates seen within the metric window, oldest first."""
    trend: LagTrend | None = None
    """The trend of those lags; None while there are too few."""
    overloaded: bool = False
    """Whether the stage falls behind: its lag grows, or is old and does not fall."""
    needed_rate: float = 0.0
    """Records a second to sustain: what arrives, with headroom, and will once a change could take effect."""
    sized_rate: float = 0.0
    """The same for the size of a change: also to work off in time what waits and what piles up meanwhile."""
    changed_at_s: float | None = None
    """When its replicas or shares were last changed."""
    scaled_at_s: float | None = None
    """When its replicas were."""
    grown_at_s: float | None = None
    """When one was added: new ones are slow at first."""
    sampled_at_s: float = 0.0
    """The newest batch that a sample was made of."""
    worked_s: Mapping[str, float] = field(default_factory=dict)
    """By node with a replica: the CPU seconds that it has worked since it was first seen there."""
    looked_at_s: float | None = None
    """Up to when that was counted."""

    @property
    def cold(self) -> float:
        """How far from warm its newest replica is: 1 when it begins, 0 once it is, or nothing is known."""
        return math.exp(-min(self.worked_s.values(), default=math.inf) / WARM_CPU_S)

    def model(self, form: Form) -> ThroughputModel | None:
        """The model of what was measured so far; None before the first measurement.

        `gesscale` is fitted to what the paper measures, the throughput while overloaded; before the first
        overload, like the other forms, to every batch seen, which errs towards more replicas: small batches
        are slow.
        """
        samples = (self.saturated or self.batches) if form == "gesscale" else self.batches
        return _fitted(samples, form) if samples else None


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Everything a policy may use beside the observation. Immutable: to learn is to make another one."""

    latencies: LatencyMatrix
    origins: tuple[str, ...]
    """The nodes that every replica talks to: driver (control) and broker."""
    edge: tuple[NodeFacts, ...]
    """The nodes that replicas may run on, in the testbed's order."""
    stages: Mapping[str, StageKnowledge]
    decisions: int = 0
    """How many decisions were made so far."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    """What the policy asked to remember: JSON values (`Plan.remember`)."""

    def stage(self, name: str) -> StageKnowledge:
        """What is known of a stage; KeyError if the app has none of that name."""
        return self.stages[name]

    def with_stage(self, name: str, stage: StageKnowledge) -> Knowledge:
        """The same with one stage known better."""
        return replace(self, stages={**self.stages, name: stage})

    def distance_ms(self, node: str) -> float:
        """The round trip that counts for a replica: the longer of those to driver and broker.

        Replicas of a stage do not talk to each other, so their distance from one another costs nothing.
        """
        return max((self.latencies.rtt_ms(origin, node) for origin in self.origins), default=0.0)

    def rtt_max_ms(self, nodes: Iterable[str]) -> float:
        """ND_max of a set of nodes: the batch waits for its farthest replica; 0 for no node."""
        return max((self.distance_ms(node) for node in nodes), default=0.0)

    def nearest_first(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """These nodes by distance; those equally far in the testbed's order."""
        order = {node.name: place for place, node in enumerate(self.edge)}
        return tuple(sorted(nodes, key=lambda node: (self.distance_ms(node), order.get(node, len(order)))))


@lru_cache(maxsize=256)
def _fitted(samples: tuple[Sample, ...], form: Form) -> ThroughputModel:
    """Fitting is pure, and the same samples are asked about at every decision."""
    return fit(samples, form)
