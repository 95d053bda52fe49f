"""Whether an experiment met its objectives. Lag of micro-batches is a saw-tooth, and no trend for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fogmodels.scalability import LagTrend, lag_trend

from fogctl.bench.bench_file import Slo, SloKind
from fogctl.planner.measure import LEAST_SAMPLES, Window, verdict


@dataclass(frozen=True, slots=True)
class Judgement:
    """What an experiment says of one objective."""

    kind: str
    met: bool
    reason: str


def judge(window: Window, rate_per_s: float, slos: Sequence[Slo]) -> tuple[Judgement, ...]:
    """Each objective's judgement, in their order."""
    if len(window.times_s) < LEAST_SAMPLES:
        few = f"only {len(window.times_s)} looks at the lag"
        return tuple(Judgement(slo.kind.value, False, few) for slo in slos)
    return tuple(_one(window, rate_per_s, slo) for slo in slos)


def _one(window: Window, rate_per_s: float, slo: Slo) -> Judgement:
    if slo.kind is SloKind.processed:
        share = window.processed_per_s / rate_per_s
        # Between two ends of batches a count may be off by a batch; the estimator knows by how much.
        met = share >= slo.limit or (slo.limit <= 0.99 and verdict(window, rate_per_s).sustained)
        return Judgement(slo.kind.value, met, f"{share:.1%} of the load was processed")
    tolerance = slo.limit * rate_per_s
    if slo.kind is SloKind.lag_trend:
        trend = _trend(window, slo.confidence, tolerance)
        return Judgement(slo.kind.value, trend.verdict != "rising", _slope(trend))
    trend = _trend(window, slo.confidence, 0.0)
    return Judgement(slo.kind.value, trend.slope_per_s <= tolerance, _slope(trend))


def _trend(window: Window, confidence: float, tolerance_per_s: float) -> LagTrend:
    return lag_trend(
        window.times_s,
        window.lags,
        confidence=confidence,
        tolerance_per_s=tolerance_per_s,
        cycle_s=window.cycle_s,
    )


def _slope(trend: LagTrend) -> str:
    return f"the lag changes by {trend.slope_per_s:+,.1f} records/s ({trend.low:+,.1f} to {trend.high:+,.1f})"
