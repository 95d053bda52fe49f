"""One look at a stage and at a node: live readers and the simulator give it, policies read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

WINDOW_S = 30.0
"""How far back metrics look, unless asked for otherwise."""


@dataclass(frozen=True, slots=True)
class StageMetrics:
    """A stage over the metric window that ends at `at_s`. Rates are records a second.

    What only batches tell (their duration, split and rows, the true rate) comes from those that ended in the
    window, or from the newest one that had rows if none did: an idle stage keeps its last known figures.
    """

    app: str
    stage: str
    at_s: float
    """When the runner last looked (Unix time), at least once a second: old means that it does not answer."""
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
    """Slope of the lag over the window, records a second: above 0, the stage falls behind."""
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
    window_s: float = 0.0
    """How long the window was: shorter than asked for while the stage is young."""
    lag_trend_low: float = 0.0
    """Lower end of the trend's 95 % interval: above 0, the stage surely falls behind."""
    lag_trend_high: float = 0.0
    """Upper end of that interval: below 0, the stage surely catches up."""
    newest_batch_at_s: float | None = None
    """When the newest batch ended; old with a lag means that the stage is stuck. None before the first."""


@dataclass(frozen=True, slots=True)
class NodeMetrics:
    """A node over the metric window."""

    node: str
    at_s: float
    cpu_used_cores: float | None
    """None: not known yet, which is not idle."""
    cpu_quota_cores: float | None
    """None: not limited."""
    cpu_throttled: float
    """Share of the scheduler's periods in which it, or its most limited part, was held back, 0 to 1."""
    memory_bytes: int
    memory_limit_bytes: int | None
    pressure: Mapping[str, float] = field(default_factory=dict)
    """Share of time some task waited for `cpu`, `memory` or `io`; empty where the kernel hides it.

    Where only the whole host's pressure is known, it is `host_cpu`, `host_memory` and `host_io`.
    """
    cpu_used_by_part: Mapping[str, float] = field(default_factory=dict)
    """Cores used by each part of the node; a replica's part is called `APP-STAGE`.

    A part of which it is not known yet is left out.
    """
    window_s: float = 0.0
    """How long the window was."""


def stage_to_json(metrics: StageMetrics) -> dict[str, Any]:
    """A stage's metrics as plain JSON values."""
    return {**asdict(metrics), "nodes": list(metrics.nodes)}


def stage_from_json(data: Mapping[str, Any]) -> StageMetrics:
    """The inverse of `stage_to_json`."""
    return StageMetrics(**{**data, "nodes": tuple(data["nodes"])})


def node_to_json(metrics: NodeMetrics) -> dict[str, Any]:
    """A node's metrics as plain JSON values."""
    return asdict(metrics)


def node_from_json(data: Mapping[str, Any]) -> NodeMetrics:
    """The inverse of `node_to_json`."""
    return NodeMetrics(**data)


class Reader(Protocol):
    """Where the agent gets its numbers from."""

    def stages(self, app: str) -> tuple[StageMetrics, ...]:
        """Every stage of an app that answers."""
        ...

    def nodes(self) -> tuple[NodeMetrics, ...]:
        """Every node of the testbed that answers."""
        ...


def troubles_of(reader: Reader) -> Mapping[str, str]:
    """By node that was left out at the last look: why, in a sentence, where the reader knows."""
    found: Mapping[str, str] = getattr(reader, "troubles", {})
    return found
