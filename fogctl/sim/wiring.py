"""What every simulated stage is made of: its app, its parameters, what it reads, its random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fogctl.metrics.values import StageMetrics
from fogctl.runtime.app import Stage
from fogctl.sim.parameters import StageParameters
from fogctl.sim.replicas import Pool
from fogctl.sim.streams import Stream


@dataclass(frozen=True, slots=True)
class Wiring:
    """A stage in its place, before it has replicas."""

    app: str
    stage: Stage
    parameters: StageParameters
    source: Stream
    topics: tuple[str, ...]
    start_s: float
    rng: np.random.Generator

    def metrics(self, now_s: float, pool: Pool, lag: int, **measured: Any) -> StageMetrics:
        """One look: who and where it is, its lag spread over its partitions, and what was measured."""
        each = [f"{topic}-{number}" for topic in self.topics for number in range(self.stage.partitions)]
        return StageMetrics(
            app=self.app,
            stage=self.stage.name,
            at_s=now_s,
            nodes=pool.nodes,
            slots=len(pool.nodes) * self.stage.slots,
            lag=lag,
            lag_by_partition=dict.fromkeys(each, round(lag / len(each))),
            **measured,
        )
