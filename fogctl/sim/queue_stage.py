"""A real-time stage, simulated record by record as a first-come-first-served queue (Lindley's recursion)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

import numpy as np
from fogmodels.queueing import PhaseType
from numpy.typing import NDArray

from fogctl.metrics.values import StageMetrics
from fogctl.sim.replicas import Pool
from fogctl.sim.streams import QueueOutput
from fogctl.sim.trend import trend
from fogctl.sim.wiring import Wiring

Vector = NDArray[np.float64]


class QueueStage:
    """Records are served one by one; the work of each is drawn, its time depends on the speed meanwhile.

    Everything is reckoned in operational time: the work that a server which is never idle would have done.
    There the recursion is exact however often the speed changes, and stalls are simply a speed of 0.
    """

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self.stage, self.parameters, self.source = wiring.stage, wiring.parameters, wiring.source
        self.output = QueueOutput()
        self.pool = Pool()
        self._rng, start_s = wiring.rng, wiring.start_s
        self._work = PhaseType.from_moments(1.0, max(self.parameters.service_scv, 1e-3))
        self._now_s = start_s
        self._work_now = 0.0
        self._free_at = 0.0
        """Operational time at which the server has done all that arrived."""
        self._speed = 0.0
        self._blocked_until_s = start_s
        self._pending: tuple[Vector, Vector] = (np.empty(0), np.empty(0))
        """Birth and operational end of the records that are not done."""
        self._written_s = start_s
        # By piece of time: its end, records arrived and done so far, seconds in service so far.
        self._ends: list[float] = [start_s]
        self._arrived: list[float] = [0.0]
        self._done: list[float] = [0.0]
        self._served_s: list[float] = [0.0]

    def configure(self, pool: Pool) -> None:
        """From now on, these replicas."""
        self.pool = pool
        if not pool.nodes:
            self._speed = 0.0
            return
        p, n, parts = self.parameters, len(pool.nodes), self.stage.partitions
        self._speed = 1.0 / p.per_row_s(n, parts, pool.speed(parts))

    def joined(self, node: str) -> None:
        """How real-time replicas warm up was not measured: they begin warm."""

    @property
    def max_rows(self) -> int:
        """Real-time mode has no batches to bound."""
        return 0

    @property
    def processed(self) -> float:
        """Records done."""
        return self._done[-1]

    def stall(self, at_s: float, seconds: float) -> None:
        """Nothing is served for that long."""
        self._blocked_until_s = max(self._blocked_until_s, at_s) + seconds

    def advance(self, until_s: float) -> None:
        """Serve everything that can be served by then."""
        if self._now_s < self._blocked_until_s:
            self._piece(min(until_s, self._blocked_until_s), 0.0)
        if self._now_s < until_s:
            self._piece(until_s, self._speed)

    def lag(self, at_s: float) -> float:
        """Records that have arrived and are not done."""
        return max(0.0, self.source.before(at_s) - self.processed)

    def cpu_busy(self, at_s: float, window_s: float) -> float:
        """Share of the window in which the server worked."""
        first, last, span_s = self._window(at_s, window_s)
        return min(1.0, (self._served_s[last] - self._served_s[first]) / span_s)

    def metrics(self, now_s: float, window_s: float) -> StageMetrics:
        """What a live stage would say."""
        first, last, span_s = self._window(now_s, window_s)
        done = self._done[last] - self._done[first]
        served_s = self._served_s[last] - self._served_s[first]
        lag = round(self.lag(now_s))
        arrived = (self._arrived[last] - self._arrived[first]) / span_s
        slope, low, high = trend(self._lag_then, now_s - span_s, now_s, 0.0, arrived)
        rate = done / span_s
        freshness_ms = self.stage.freshness_ms
        return self._wiring.metrics(
            now_s,
            self.pool,
            lag,
            input_rate=arrived,
            processed_rate=rate,
            lag_trend=slope,
            batch_ms=freshness_ms,
            batch_split_ms={},
            batch_rows=rate * freshness_ms / 1e3,
            max_rows=0,
            busyness=min(1.0, served_s / span_s),
            true_rate=done / served_s if served_s > 0 else 0.0,
            window_s=span_s,
            lag_trend_low=low,
            lag_trend_high=high,
            newest_batch_at_s=self._ends[last],
        )

    def _lag_then(self, at_s: float) -> float:
        """The lag at an earlier moment, as far as the pieces of time tell."""
        place = bisect_left(self._ends, at_s)
        place = min(place, len(self._ends) - 1)
        return max(0.0, self._arrived[place] - self._done[place])

    def _piece(self, until_s: float, speed: float) -> None:
        """A stretch of time at one speed."""
        begin_s, begin = self._now_s, self._work_now
        end = begin + (until_s - begin_s) * speed
        arrived, born = self.source.times(begin_s, until_s)
        busy = max(0.0, min(end, self._free_at) - begin)
        if arrived.size:
            # D_k = max(A_k, D_(k-1)) + W_k, all at once: the running sum plus the largest idle correction.
            total = np.cumsum(self._work.sample(arrived.size, self._rng))
            at_work = begin + (arrived - begin_s) * speed
            idle = np.maximum.accumulate(at_work - np.concatenate([[0.0], total[:-1]]))
            ends = total + np.maximum(idle, self._free_at)
            starts = np.maximum(at_work, np.concatenate([[self._free_at], ends[:-1]]))
            busy += float(np.maximum(np.minimum(ends, end) - starts, 0.0).sum())
            self._pending = (np.append(self._pending[0], born), np.append(self._pending[1], ends))
            self._free_at = float(ends[-1])
        done = int(np.searchsorted(self._pending[1], end, side="right")) if speed > 0 else 0
        if done:
            left = begin_s + np.maximum(self._pending[1][:done] - begin, 0.0) / speed
            self._write(left + self.pool.rtt_max_ms / 1e3, self._pending[0][:done])
            self._pending = (self._pending[0][done:], self._pending[1][done:])
        self._now_s, self._work_now = until_s, end
        self._ends.append(until_s)
        self._arrived.append(self._arrived[-1] + arrived.size)
        self._done.append(self._done[-1] + done)
        self._served_s.append(self._served_s[-1] + (busy / speed if speed > 0 else 0.0))

    def _write(self, at_s: Vector, born_s: Vector) -> None:
        # A path that became shorter lets nobody overtake.
        at_s = np.maximum(np.maximum.accumulate(at_s), self._written_s)
        self._written_s = float(at_s[-1])
        ratio = self.parameters.out_per_in
        if ratio < 1.0:
            kept = self._rng.random(at_s.size) < ratio
            at_s, born_s = at_s[kept], born_s[kept]
        elif ratio != 1.0:
            times = np.full(at_s.size, math.floor(ratio)) + (
                self._rng.random(at_s.size) < ratio - math.floor(ratio)
            )
            at_s, born_s = np.repeat(at_s, times), np.repeat(born_s, times)
        self.output.write(at_s, born_s)

    def _window(self, at_s: float, window_s: float) -> tuple[int, int, float]:
        last = bisect_right(self._ends, at_s) - 1
        first = max(0, bisect_right(self._ends, at_s - window_s) - 1)
        return first, last, max(self._ends[last] - self._ends[first], 1e-9)
