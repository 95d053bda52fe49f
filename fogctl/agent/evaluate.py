"""From metrics to knowledge: is a stage overloaded, what must it sustain, what does a batch cost. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean, median

from fogmodels.scalability import LagTrend, lag_trend
from fogmodels.throughput import Sample

from fogctl.agent.knowledge import Knowledge, StageKnowledge
from fogctl.agent.observation import Observation
from fogctl.agent.settings import Guard
from fogctl.metrics.values import StageMetrics
from fogctl.runtime.deployment import StagePlacement

USUAL_STALL_S = {"out": 5.0, "in": 1.0, "share": 0.0}
"""Until one was measured: what Spark's executors take to come and go, and a share to change."""
LEAST_GROWTH = 0.02
"""Lag that grows by less than this part of the input rate does not count as growing."""
OLD_LAG = 2.0
"""Lag older than so many times the freshness bound is a backlog."""
ENOUGH_LAGS = 5
SAME_CONFIGURATION = 5
"""Samples kept of one configuration; of batches, of one configuration and size."""
MOST_SAMPLES = 60
STALLS_KEPT = 5


def evaluate(seen: Observation, known: Knowledge, guard: Guard) -> Knowledge:
    """What is known after one more look."""
    for metrics in seen.stages:
        if metrics.stage in known.stages and sound(metrics):
            placement = seen.placement(metrics.stage)
            learned = _stage(seen.at_s, metrics, placement, known, guard)
            known = known.with_stage(metrics.stage, learned)
    return known


def sound(metrics: StageMetrics) -> bool:
    """Whether the numbers can be numbers of a stage: finite and not negative."""
    rates = (metrics.input_rate, metrics.processed_rate, metrics.true_rate, metrics.busyness)
    batch = (metrics.batch_ms, metrics.batch_rows, metrics.lag)
    return all(math.isfinite(v) and v >= 0 for v in (*rates, *batch)) and math.isfinite(metrics.lag_trend)


def stall_s(stage: StageKnowledge, kind: str) -> float:
    """How many seconds of input a change of that kind lets pile up: measured, or what is usual."""
    measured = stage.stalls_s.get(kind)
    return median(measured) if measured else USUAL_STALL_S[kind]


def with_stall(stage: StageKnowledge, kind: str, seconds: float) -> StageKnowledge:
    """The stage with one more measured stall."""
    kept = (*stage.stalls_s.get(kind, ()), seconds)[-STALLS_KEPT:]
    return replace(stage, stalls_s={**stage.stalls_s, kind: kept})


def backlog(metrics: StageMetrics, stage: StageKnowledge) -> float:
    """Records that wait beyond what ordinary operation leaves: one batch that runs and one that fills."""
    usual = metrics.input_rate * 2.0 * min(metrics.batch_ms / 1e3, stage.facts.freshness_s)
    return max(0.0, metrics.lag - usual)


def catching_up(metrics: StageMetrics, stage: StageKnowledge) -> bool:
    """Whether there is a backlog and it shrinks."""
    return backlog(metrics, stage) > 0.0 and _slope(metrics, stage) < 0.0 and not stage.overloaded


def _stage(
    at_s: float, metrics: StageMetrics, placement: StagePlacement, known: Knowledge, guard: Guard
) -> StageKnowledge:
    before = known.stage(metrics.stage)
    lags = _lags(at_s, metrics, before, guard)
    stage = replace(before, lags=lags, trend=_trend(lags, metrics))
    stage = replace(stage, overloaded=_overloaded(metrics, stage))
    arriving = metrics.input_rate * (1.0 + guard.headroom)
    waiting = backlog(metrics, stage) / guard.catch_up
    piling_up = metrics.input_rate * stall_s(stage, "out") / guard.catch_up
    stage = replace(stage, needed_rate=arriving + waiting, sized_rate=arriving + waiting + piling_up)
    settled = before.changed_at_s is None or metrics.at_s - metrics.batch_ms / 1e3 >= before.changed_at_s
    if not settled or set(metrics.nodes) != set(placement.nodes) or metrics.at_s <= before.sampled_at_s:
        return stage
    return replace(_with_samples(stage, metrics, placement, known), sampled_at_s=metrics.at_s)


def _lags(
    at_s: float, metrics: StageMetrics, before: StageKnowledge, guard: Guard
) -> tuple[tuple[float, float], ...]:
    """The lags within the window and since the last change: before it, another configuration was at work."""
    oldest = max(at_s - guard.window, before.changed_at_s or 0.0)
    kept = tuple(entry for entry in before.lags if entry[0] >= oldest and entry[0] < at_s)
    return (*kept, (at_s, float(metrics.lag)))


def _trend(lags: tuple[tuple[float, float], ...], metrics: StageMetrics) -> LagTrend | None:
    if len(lags) < ENOUGH_LAGS:
        return None
    times, values = zip(*lags, strict=True)
    return lag_trend(
        times,
        values,
        tolerance_per_s=LEAST_GROWTH * metrics.input_rate,
        confidence=0.8,
        cycle_s=metrics.batch_ms / 1e3,
    )


def _slope(metrics: StageMetrics, stage: StageKnowledge) -> float:
    return stage.trend.slope_per_s if stage.trend is not None else metrics.lag_trend


def _overloaded(metrics: StageMetrics, stage: StageKnowledge) -> bool:
    """Algorithm 1 of Gesscale on an engine without back pressure: the stage's own topic fills.

    Because topics decouple stages, the one whose lag grows is the root. Lag below what a batch leaves is a
    saw-tooth, whatever its slope; lag far older than the freshness bound that does not shrink is overload,
    however flat.
    """
    if backlog(metrics, stage) <= 0.0:
        return False
    slope = _slope(metrics, stage)
    rising = stage.trend.verdict == "rising" if stage.trend is not None else False
    grows = rising or (stage.trend is None and slope > LEAST_GROWTH * metrics.input_rate)
    old = metrics.lag > OLD_LAG * stage.facts.freshness_s * max(metrics.input_rate, 1e-9)
    return grows or (old and slope > -LEAST_GROWTH * metrics.input_rate)


def _with_samples(
    stage: StageKnowledge, metrics: StageMetrics, placement: StagePlacement, known: Knowledge
) -> StageKnowledge:
    """One more sample of a batch's cost; while overloaded, one of the MST too (Gesscale, section IV-C.1)."""
    if metrics.batch_rows < 1.0 or metrics.batch_ms <= 0.0:
        return stage
    share = fmean(replica.share for replica in placement.replicas)

    def sample(rate: float) -> Sample:
        return Sample(
            replicas=len(placement.replicas),
            rtt_max_ms=known.rtt_max_ms(placement.nodes),
            mst=rate,
            batch_rows=metrics.batch_rows,
            partitions=stage.facts.partitions,
            share=round(share, 4),
        )

    batches = _kept((*stage.batches, sample(1e3 * metrics.batch_rows / metrics.batch_ms)), sizes=True)
    if not stage.overloaded or metrics.processed_rate <= 0.0:
        return replace(stage, batches=batches)
    saturated = _kept((*stage.saturated, sample(metrics.processed_rate)), sizes=False)
    return replace(stage, batches=batches, saturated=saturated)


def _kept(samples: tuple[Sample, ...], *, sizes: bool) -> tuple[Sample, ...]:
    """The newest samples of each configuration, so that hours in one do not drown what others taught."""
    counts: dict[tuple[float, ...], int] = {}
    kept: list[Sample] = []
    for sample in reversed(samples):
        size = float(int(sample.batch_rows or 0).bit_length()) if sizes else 0.0
        key = (sample.replicas, sample.rtt_max_ms, sample.share, size)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= SAME_CONFIGURATION and len(kept) < MOST_SAMPLES:
            kept.append(sample)
    return tuple(reversed(kept))
