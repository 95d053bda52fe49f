"""A micro-batch stage, simulated batch by batch."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from fogctl.metrics.driver import LOOK_EVERY_S
from fogctl.metrics.values import StageMetrics
from fogctl.runtime.batch_size import Batch, Bound, first_limit
from fogctl.sim.replicas import Pool, longest
from fogctl.sim.streams import BatchOutput
from fogctl.sim.trend import trend
from fogctl.sim.wiring import Wiring

_DRAWS = 4096
_TOLD_S = 0.4
"""How long after its end a live batch is told of: what it teaches comes too late for the next one."""
_WARM = 0.02
"""Replicas that are slower by less than this are warm."""


class BatchStage:
    """One query: while there are rows it runs batch after batch, each as large as freshness allows.

    How large that is it finds out as a live one does, by the same rule.
    """

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self.stage, self.parameters, self.source = wiring.stage, wiring.parameters, wiring.source
        self.output = BatchOutput()
        self.pool = Pool()
        self.processed = 0.0
        slots = wiring.stage.slots
        self._bound = Bound(wiring.stage.freshness_ms, slots, first_limit(slots))
        self._told: tuple[float, Batch] | None = None
        """The newest batch, and when it will be told of."""
        start_s = wiring.start_s
        self._noise: list[float] = []
        self._free_s = start_s
        """When the next batch may start."""
        self._parts: list[tuple[float, float]] = []
        """What replicas take without rows and for each row, of those that can be the last to finish."""
        self._start_s = self._per_row_s = self._idle_s = 0.0
        self._stalled_s = wiring.parameters.stalls.first_s
        """What the next batch waits for besides its own work."""
        self._spent: dict[str, float] = {}
        """By node that is still warming up, the CPU seconds that its replica has worked."""
        # One entry a batch, beginning with an empty one: a window needs the end of the batch before it.
        self._ends: list[float] = [start_s]
        self._rows: list[float] = [0.0]
        self._total: list[float] = [0.0]
        self._durations: list[float] = [0.0]
        self._busy: list[float] = [0.0]
        self._cpu: list[float] = [0.0]
        self._lags: list[float] = [0.0]
        self._replicas: list[int] = [0]

    @property
    def max_rows(self) -> int:
        """The largest batch at present."""
        return self._bound.rows

    def configure(self, pool: Pool) -> None:
        """From the next batch on, these replicas."""
        self.pool = pool
        if not pool.nodes:
            return
        p, n, tasks, slots = self.parameters, len(pool.nodes), self.stage.partitions, self.stage.slots
        each, left_over = divmod(tasks, n)
        nearest_first = sorted(range(n), key=pool.rtts_ms.__getitem__)
        parts = []
        for order, place in enumerate(nearest_first):
            own = each + (order < left_over)
            spent = self._spent.get(pool.nodes[place])
            slow = 1.0 if spent is None else p.slowdown(spent)
            if own:
                parts.append(p.part(own, tasks, pool.rtts_ms[place], pool.speeds[place], slots, slow))
        self._parts = longest(parts)
        # On average over the replicas: CPU in a batch without rows and for each row, and waiting for others.
        self._start_s = p.start_s(-(-tasks // n), pool.speed(tasks, slots))
        self._per_row_s = p.per_row_s(n, tasks, pool.speed(tasks, slots))
        waits = [p.wait_s(-(-tasks // n), rtt_ms, slots) for rtt_ms in pool.rtts_ms]
        self._idle_s = p.driver_s + max(waits) - sum(waits) / n

    def joined(self, node: str) -> None:
        """A replica there begins: cold."""
        if self.parameters.cold > _WARM:
            self._spent[node] = 0.0

    def stall(self, at_s: float, seconds: float) -> None:  # noqa: ARG002
        """The next batch takes so much longer; one that runs is finished first."""
        self._stalled_s += seconds

    def advance(self, until_s: float) -> None:
        """Start every batch that starts before then; the last one may end later."""
        at_s = self._free_s
        if not self.pool.nodes:
            self._free_s = max(at_s, until_s)
            return
        p = self.parameters
        source, output, ratio = self.source, self.output, p.out_per_in
        while at_s < until_s:
            waiting = math.floor(source.before(at_s) - self.processed + 1e-9)
            if waiting < 1:
                # Idle until the next record: Spark asks for new offsets every few milliseconds.
                at_s = max(at_s, source.reaches(self.processed + 1.0))
                if at_s < until_s and source.before(at_s) - self.processed < 1.0 - 1e-9:
                    at_s += 1e-6  # rounding put the instant just before the record
                continue
            if self._told is not None and at_s >= self._told[0]:
                self._bound.observe(self._told[1], len(self.pool.nodes))
                self._told = None
            rows = min(waiting, self._bound.rows)
            stretch = self._next_noise()
            longest_s = max(fixed_s + rows * row_s for fixed_s, row_s in self._parts)
            duration = (p.driver_s + longest_s) * stretch + self._stalled_s
            computing = (rows * self._per_row_s + p.startup_cpu * self._start_s) * stretch
            self._stalled_s = 0.0
            at_s += duration
            self.processed += rows
            if self._told is not None:
                self._bound.observe(self._told[1], len(self.pool.nodes))
            self._told = (at_s + _TOLD_S, Batch(rows, 1e3 * duration))
            if self._spent:
                self._warm_up(computing)
            if ratio:
                output.write(at_s, rows * ratio)
            self._ends.append(at_s)
            self._rows.append(rows)
            self._total.append(self.processed)
            self._durations.append(duration)
            self._busy.append(max(0.0, duration - self._idle_s))
            self._cpu.append(computing)
            self._lags.append(source.before(at_s) - self.processed)
            self._replicas.append(len(self.pool.nodes))
        self._free_s = at_s if at_s != math.inf else until_s

    def lag(self, at_s: float) -> float:
        """Records that have arrived and are not processed."""
        ended = bisect_right(self._ends, at_s)
        return max(0.0, self.source.before(at_s) - self._total[ended - 1])

    def cpu_busy(self, at_s: float, window_s: float) -> float:
        """Share of the window in which its replicas computed, 0 to 1."""
        window_s = min(window_s, at_s - self._ends[0])
        return min(1.0, self._inside(self._cpu, at_s - window_s, at_s) / window_s) if window_s > 0 else 0.0

    def metrics(self, now_s: float, window_s: float) -> StageMetrics:
        """What a live stage would say of itself, by the same rules (`fogctl.metrics.stage`)."""
        # The app is there before the load begins, so its first window reaches back to when nothing came. A
        # live window begins with its first look, and looks come once a second.
        span_s = max(window_s - LOOK_EVERY_S / 2.0, window_s / 2.0)
        start_s = now_s - span_s
        newest = bisect_right(self._ends, now_s) - 1
        # What runs tells its rows only when it is over: the rate is that up to its start.
        in_batch = newest + 1 < len(self._ends)
        end_s = self._ends[newest] if in_batch and now_s - self._ends[newest] <= span_s / 2 else now_s
        first = max(1, bisect_right(self._ends, start_s))
        if first > newest:  # none ended in the window: the newest there is
            first = max(1, newest)
        rows, time_s = sum(self._rows[first : newest + 1]), sum(self._durations[first : newest + 1])
        batches = newest + 1 - first
        processed = self._inside(self._rows, start_s, end_s) / max(end_s - start_s, 1e-9)
        arrived = (self.source.before(now_s) - self.source.before(start_s)) / span_s
        lag = round(self.lag(now_s))
        cycle_s = max(self._durations[first : newest + 1], default=0.0)
        slope, low, high = trend(self.lag, start_s, now_s, cycle_s, arrived)
        batch_ms = 1e3 * time_s / batches if batches else 0.0
        return self._wiring.metrics(
            now_s,
            self.pool,
            lag,
            input_rate=arrived,
            processed_rate=processed,
            lag_trend=slope,
            batch_ms=batch_ms,
            batch_split_ms={"addBatch": batch_ms} if batches else {},
            batch_rows=rows / batches if batches else 0.0,
            max_rows=self.max_rows,
            busyness=max(0.0, min(1.0, self._inside(self._busy, start_s, now_s) / span_s)),
            true_rate=rows / time_s if time_s > 0 else 0.0,
            window_s=window_s,
            lag_trend_low=low,
            lag_trend_high=high,
            newest_batch_at_s=self._ends[newest] if newest else None,
        )

    def batches(self) -> dict[str, Sequence[float]]:
        """Every batch so far: `end_s`, `rows`, `duration_s`, its `replicas` and the `lag` it left."""
        return {
            "end_s": self._ends[1:],
            "rows": self._rows[1:],
            "duration_s": self._durations[1:],
            "lag": self._lags[1:],
            "replicas": self._replicas[1:],
        }

    def _inside(self, amounts: list[float], start_s: float, end_s: float) -> float:
        """The batches' amounts between two moments: a batch counts by as much of it as lies there."""
        first = max(1, bisect_right(self._ends, start_s))
        last = bisect_left(self._ends, end_s, first) if first < len(self._ends) else first
        total = sum(amounts[first:last])
        for place in {first, last}:
            if place < len(self._ends):
                began, ended = self._ends[place] - self._durations[place], self._ends[place]
                inside = max(0.0, min(ended, end_s) - max(began, start_s)) / self._durations[place]
                total += amounts[place] * (inside if place == last else inside - 1.0)
        return total

    def _warm_up(self, computing_s: float) -> None:
        """Each cold replica has worked so much longer, with the CPU it has."""
        for node, cores in zip(self.pool.nodes, self.pool.cores, strict=True):
            if node in self._spent:
                self._spent[node] += computing_s * cores
                if self.parameters.slowdown(self._spent[node]) < 1.0 + _WARM:
                    del self._spent[node]
        self.configure(self.pool)

    def _next_noise(self) -> float:
        if not self._noise:
            sigma = self.parameters.noise
            # A factor of mean 1, so that noise costs nothing by itself.
            drawn = np.exp(sigma * self._wiring.rng.standard_normal(_DRAWS) - 0.5 * sigma * sigma)
            self._noise = drawn.tolist()
        return self._noise.pop()
