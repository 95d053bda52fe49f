"""One look at a stage and at a node: live readers and the simulator give it, policies read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StageMetrics:
    """A stage over the metric window that ends with its newest batch. Rates are records a second."""

    app: str
    stage: str
    at_s: float
    """When the newest batch ended (Unix time); old means that the stage is stuck or not reachable."""
    nodes: tuple[str, ...]
    """The nodes whose executors the driver has."""
    slots: int
    """Tasks that all executors together run at a time."""
    input_rate: float
    """Records arriving on its topics."""
    processed_rate: float
    lag: int
    """Records that arrived and are not processed."""
    lag_by_partition: Mapping[str, int]
    """By `TOPIC-PARTITION`."""
    lag_trend: float
    """Slope of the lag over the window: above 0, the stage falls behind."""
    batch_ms: float
    """Mean duration of the window's batches that had rows."""
    batch_split_ms: Mapping[str, float]
    """The same by Spark's own phases: addBatch, walCommit, queryPlanning, …"""
    batch_rows: float
    """Mean rows of those batches."""
    max_rows: int
    """Largest batch that the freshness bound allows at present."""
    busyness: float
    """Executor run time over slots × wall time, 0 to 1."""
    true_rate: float
    """Records a second if it were always busy: processed rate over the share of time spent in batches."""
    state_rows: int = 0
    state_bytes: int = 0
    watermark_delay_s: float | None = None
    """How far the watermark is behind the clock; None without one."""


@dataclass(frozen=True, slots=True)
class NodeMetrics:
    """A node over the metric window."""

    node: str
    at_s: float
    cpu_used_cores: float
    cpu_quota_cores: float | None
    """None: not limited."""
    cpu_throttled: float
    """Share of the scheduler's periods in which it was held back, 0 to 1."""
    memory_bytes: int
    memory_limit_bytes: int | None
    pressure: Mapping[str, float] = field(default_factory=dict)
    """Share of time some task waited for `cpu`, `memory` or `io`; empty where the kernel hides it."""


class Reader(Protocol):
    """Where the agent gets its numbers from."""

    def stages(self, app: str) -> tuple[StageMetrics, ...]:
        """Every stage of an app that answers."""
        ...

    def nodes(self) -> tuple[NodeMetrics, ...]:
        """Every node of the testbed that answers."""
        ...
