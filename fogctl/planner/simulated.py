"""A micro-batch engine in numbers: arrivals, batches and the saw-tooth of lag, to try out and test."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from fogctl.planner.measure import StageSeen, Window

_LOOK_EVERY_S = 1.0


@dataclass(slots=True)
class SimulatedStage:
    """One stage that takes all that is there in each batch, up to what fits into its freshness.

    A batch lasts `fixed_s` and, for each row, 1 / `capacity_per_s`; both vary by `jitter`. The next begins
    at once, or `trigger_s` after the last one began. So its true maximum sustainable throughput is `mst`.
    """

    capacity_per_s: float
    fixed_s: float = 0.5
    freshness_s: float = 5.0
    trigger_s: float = 0.0
    jitter: float = 0.05
    injector_most_per_s: float = math.inf
    seed: int = 1
    stages: tuple[StageSeen, ...] = ()
    """What to tell of stages at saturation; their busyness follows the load."""
    _now: float = 0.0
    _arrived: float = 0.0
    _processed: float = 0.0
    _next: float = 0.0
    """When the batch ends; or, where none runs, when one begins."""
    _taken: float | None = None
    """Rows of the batch that runs."""
    _began: float = 0.0
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    @property
    def batch_rows(self) -> float:
        """The most rows of a batch."""
        return max(0.0, self.freshness_s - self.fixed_s) * self.capacity_per_s

    @property
    def mst(self) -> float:
        """Rows a second with batches as large as they may be."""
        return self.batch_rows / max(self.freshness_s, self.trigger_s)

    def run(self, rate_per_s: float, seconds: float) -> Window:
        """Let time pass; batches go on over the borders of windows."""
        sent_per_s = min(rate_per_s, self.injector_most_per_s)
        began, end = self._now, self._now + seconds
        ends: list[tuple[float, float]] = []
        times: list[float] = []
        lags: list[float] = []
        while self._now < end:
            look_at = min(end, self._now + _LOOK_EVERY_S)
            while self._next <= look_at:
                self._advance(self._next, sent_per_s)
                if self._taken is None:
                    self._begin_batch()
                    continue
                self._processed += self._taken
                if self._taken:
                    ends.append((self._now, self._processed))
                self._taken, self._next = None, max(self._now, self._began + self.trigger_s)
            self._advance(look_at, sent_per_s)
            times.append(self._now - began)
            lags.append(max(0.0, self._arrived - self._processed))
        span = ends[-1][0] - ends[0][0] if len(ends) > 1 else 0.0
        processed = (ends[-1][1] - ends[0][1]) / span if span > 0 else 0.0
        cycles = np.diff([at for at, _ in ends])
        return Window(
            tuple(times),
            tuple(lags),
            sent_per_s,
            processed,
            float(cycles.max()) if len(cycles) else seconds,
            "injector" if sent_per_s < rate_per_s else None,
            tuple(self._stage(stage, processed) for stage in self.stages),
        )

    def _advance(self, to: float, rate_per_s: float) -> None:
        if to > self._now:
            self._arrived += float(self._rng.poisson(rate_per_s * (to - self._now)))
            self._now = to

    def _begin_batch(self) -> None:
        self._taken = min(self._arrived - self._processed, self.batch_rows)
        self._began = self._now
        lasts = self.fixed_s + self._taken / self.capacity_per_s
        self._next = self._now + lasts * math.exp(self.jitter * float(self._rng.normal()))

    def _stage(self, stage: StageSeen, processed_per_s: float) -> StageSeen:
        """A stage at saturation scaled down to what is processed now."""
        load = min(1.0, processed_per_s / self.mst) if self.mst else 0.0
        return StageSeen(stage.name, stage.rate_per_s * load, stage.busyness * load, stage.tasks)
