"""From metrics to knowledge: is a stage overloaded, what must it sustain, what does a batch cost. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean, linear_regression, median

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
LONG_BATCH = 0.6
"""Of the freshness bound: the runner aims at nine tenths of it, less what batches scatter."""
ENOUGH_LAGS = 5
SAME_CONFIGURATION = 5
"""Samples kept of one configuration; of batches, of one configuration and size."""
MOST_SAMPLES = 60
ENOUGH_SAMPLES = 2
"""So many samples of a configuration are kept in any case."""
NEWS = 0.05
"""Others only if the model is off by more than this: a refit costs, and agreement teaches nothing."""
USUAL_TAKES_S = {"out": 10.0, "in": 3.0, "share": 0.0}
"""Until one was measured: how long a change takes to make."""
MOST_AHEAD = 1.0
"""A rising rate is followed ahead by at most this part of it."""
DAMPED = 0.6
"""Of the time ahead, for so much of it: no rise lasts."""
CHANCE = 4.0
"""A change of the rate within the window counts from so many times what chance does to Poisson arrivals."""
STALLS_KEPT = 5
LONGEST_STALL_S = 30.0
"""Longer ones are not waited for: what seems one may be overload."""
WARM_UP_S = 20.0
COLD_WEIGHT = 0.2
"""Samples of so long after an addition count so much: new executors are slow at first."""


def evaluate(seen: Observation, known: Knowledge, guard: Guard) -> Knowledge:
    """What is known after one more look."""
    for metrics in seen.stages:
        if metrics.stage in known.stages and sound(metrics):
            placement = seen.placement(metrics.stage)
            learned = _stage(seen.at_s, metrics, placement, _worked(seen, metrics, known), guard)
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


def takes_s(stage: StageKnowledge, kind: str) -> float:
    """How long a change of that kind takes to make: measured, or what is usual."""
    measured = stage.takes_s.get(kind)
    return median(measured) if measured else USUAL_TAKES_S[kind]


def settling_s(stage: StageKnowledge, guard: Guard) -> float:
    """How long after a change of replicas the window still holds something of before, or of the change."""
    return float(guard.window) + min(stall_s(stage, "out"), LONGEST_STALL_S)


def with_stall(stage: StageKnowledge, kind: str, seconds: float, took_s: float) -> StageKnowledge:
    """The stage with one more measured stall, and how long the change took."""
    stalls = (*stage.stalls_s.get(kind, ()), seconds)[-STALLS_KEPT:]
    takes = (*stage.takes_s.get(kind, ()), took_s)[-STALLS_KEPT:]
    return replace(stage, stalls_s={**stage.stalls_s, kind: stalls}, takes_s={**stage.takes_s, kind: takes})


def backlog(metrics: StageMetrics, stage: StageKnowledge) -> float:
    """Records that wait longer than the freshness bound explains: one batch that runs and one that fills."""
    return max(0.0, metrics.lag - 2.0 * stage.facts.freshness_s * metrics.input_rate)


def catching_up(metrics: StageMetrics, stage: StageKnowledge) -> bool:
    """Whether there is a backlog and it shrinks."""
    return backlog(metrics, stage) > 0.0 and slope(metrics, stage) < 0.0 and not stage.overloaded


def slope(metrics: StageMetrics, stage: StageKnowledge) -> float:
    """Records by which the lag grows each second: the trend seen here, or while that is short the stage's."""
    return stage.trend.slope_per_s if stage.trend is not None else metrics.lag_trend


def _stage(
    at_s: float, metrics: StageMetrics, placement: StagePlacement, known: Knowledge, guard: Guard
) -> StageKnowledge:
    before = known.stage(metrics.stage)
    if before.grown_at_s is None and not before.batches:
        # Nobody knows since when its replicas run: at first they count as new, and their batches as cold.
        before = replace(before, grown_at_s=at_s)
    lags = _lags(at_s, metrics, before, guard)
    stage = replace(
        before, lags=lags, trend=_trend(lags, metrics), rates=_rates(at_s, metrics, before, guard)
    )
    # Metrics are means over the window: before one has passed since a change and the pause that it caused,
    # they mix two configurations, and what piled up is the change's own.
    calm = _since(at_s, before.scaled_at_s) >= settling_s(before, guard)
    stage = replace(stage, overloaded=calm and _overloaded(metrics, stage))
    change_s = takes_s(stage, "out") + stall_s(stage, "out")
    soon = _expected_rate(metrics.input_rate, stage, guard, change_s)
    # What is too small again when it is there could be mended one whole change later.
    later = _expected_rate(metrics.input_rate, stage, guard, 2.0 * change_s + guard.stabilise)
    waiting = backlog(metrics, stage) / guard.catch_up if calm else 0.0
    piling_up = metrics.input_rate * stall_s(stage, "out") / guard.catch_up
    # Headroom is for what is not foreseen, so it does not come on top of what is.
    arriving = _expected_rate(metrics.input_rate, stage, guard, 0.0) * (1.0 + guard.headroom)
    sized = max(arriving, later) + waiting + piling_up
    stage = replace(stage, needed_rate=max(arriving, soon), sized_rate=sized)
    # Looks closer together than the window would count the same batches twice.
    again = metrics.at_s - before.sampled_at_s < guard.window
    settled = calm and _since(at_s, before.changed_at_s) >= guard.window
    if not settled or again or set(metrics.nodes) != set(placement.nodes):
        return stage
    warm = _since(at_s, before.grown_at_s) >= settling_s(before, guard) + WARM_UP_S
    learned = _with_samples(stage, metrics, placement, known, 1.0 if warm else COLD_WEIGHT)
    return replace(learned, sampled_at_s=metrics.at_s)


def _worked(seen: Observation, metrics: StageMetrics, known: Knowledge) -> Knowledge:
    """What is known with the CPU that the stage's replicas have used since the last look."""
    stage = known.stage(metrics.stage)
    since_s = 0.0 if stage.looked_at_s is None else max(0.0, seen.at_s - stage.looked_at_s)
    used = {node: _used_cores(seen, node, metrics.stage) for node in metrics.nodes}
    # Where CPU is not measured at all, nothing is known of how warm replicas are.
    measured = bool(stage.worked_s) or any(cores is not None for cores in used.values())
    worked = {node: stage.worked_s.get(node, 0.0) + (cores or 0.0) * since_s for node, cores in used.items()}
    learned = replace(stage, worked_s=worked if measured else {}, looked_at_s=seen.at_s)
    return known.with_stage(metrics.stage, learned)


def _used_cores(seen: Observation, node: str, stage: str) -> float | None:
    """What a stage's replica uses of a node, or the whole node where that is not told apart.

    No more than the node's quota: executors start without one, and what that takes warms nothing up.
    """
    there = seen.node(node)
    if there is None:
        return None
    parts = there.cpu_used_by_part
    used = parts.get(f"{seen.app}-{stage}") if parts else there.cpu_used_cores
    return used if used is None or there.cpu_quota_cores is None else min(used, there.cpu_quota_cores)


def _expected_rate(rate: float, stage: StageKnowledge, guard: Guard, ahead_s: float) -> float:
    """The arrival rate so many seconds ahead: one that rises goes on rising, one that falls may stop.

    The rate seen is the window's mean, half a window old.
    """
    growth = _growth(stage.rates, guard.window)
    since_s: float = guard.window / 2.0 + (DAMPED * ahead_s if growth > 0.0 else 0.0)
    return min(max(rate + growth * since_s, rate / 2.0), rate * (1.0 + MOST_AHEAD))


def _growth(rates: tuple[tuple[float, float], ...], window_s: float) -> float:
    """Slope of the arrival rate within the window, records a second each second; 0 where it may be chance."""
    if len(rates) < 3:
        return 0.0
    times, values = zip(*rates, strict=True)
    slope = linear_regression(times, values).slope
    by_chance = CHANCE * math.sqrt(max(fmean(values), 1.0) / window_s)
    return slope if abs(slope) * (times[-1] - times[0]) > by_chance else 0.0


def _since(at_s: float, event_s: float | None) -> float:
    return math.inf if event_s is None else at_s - event_s


def _lags(
    at_s: float, metrics: StageMetrics, before: StageKnowledge, guard: Guard
) -> tuple[tuple[float, float], ...]:
    """The lags within the window and since the last change: before it, another configuration was at work."""
    oldest = max(at_s - guard.window, before.changed_at_s or 0.0)
    kept = tuple(entry for entry in before.lags if entry[0] >= oldest and entry[0] < at_s)
    return (*kept, (at_s, float(metrics.lag)))


def _rates(
    at_s: float, metrics: StageMetrics, before: StageKnowledge, guard: Guard
) -> tuple[tuple[float, float], ...]:
    """The arrival rates within the window; none while the stage itself has not seen a whole one."""
    kept = tuple(seen for seen in before.rates if at_s - guard.window <= seen[0] < at_s)
    return (*kept, (at_s, metrics.input_rate)) if metrics.window_s >= 0.9 * guard.window else ()


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


def _overloaded(metrics: StageMetrics, stage: StageKnowledge) -> bool:
    """Algorithm 1 of Gesscale on an engine without back pressure: the stage's own topic fills.

    Because topics decouple stages, the one whose lag grows is the root. A rising load alone makes batches,
    and the lag that they leave, larger: that is overload only once batches are as long as they may be. Lag
    much older than the freshness bound that does not shrink is overload, however flat.
    """
    growth = slope(metrics, stage)
    least = LEAST_GROWTH * metrics.input_rate
    if backlog(metrics, stage) > 0.0 and growth > -least:
        return True
    full = metrics.batch_ms >= LONG_BATCH * 1e3 * stage.facts.freshness_s
    waits = metrics.lag > 2.0 * metrics.input_rate * min(metrics.batch_ms / 1e3, stage.facts.freshness_s)
    rising = stage.trend.verdict == "rising" if stage.trend is not None else growth > least
    return full and waits and rising


def _with_samples(
    stage: StageKnowledge,
    metrics: StageMetrics,
    placement: StagePlacement,
    known: Knowledge,
    weight: float,
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
            weight=weight,
            slots=stage.facts.slots,
            cold=round(stage.cold, 3),
        )

    batch = sample(1e3 * metrics.batch_rows / metrics.batch_ms)
    if _tells_something(batch, stage):
        stage = replace(stage, batches=_kept((*stage.batches, batch), sizes=True))
    if stage.overloaded and metrics.processed_rate > 0.0:
        saturated = _kept((*stage.saturated, sample(metrics.processed_rate)), sizes=False)
        stage = replace(stage, saturated=saturated)
    return stage


def _tells_something(sample: Sample, stage: StageKnowledge) -> bool:
    """Whether a sample is news: its configuration was hardly seen, or the model does not foretell it."""
    same = sum(
        1
        for old in stage.batches
        if _configuration(old) == _configuration(sample) and old.weight >= sample.weight
    )
    model = stage.model("batch")
    if same < ENOUGH_SAMPLES or model is None:
        return True
    foretold = model.mst(
        sample.replicas, sample.rtt_max_ms, sample.batch_rows, sample.partitions, sample.share
    )
    foretold /= 1.0 + model.parameters["kappa"] * sample.cold
    return abs(foretold / sample.mst - 1.0) > NEWS


def _configuration(sample: Sample) -> tuple[float, ...]:
    return sample.replicas, sample.rtt_max_ms, sample.share, float(int(sample.batch_rows or 0).bit_length())


def _kept(samples: tuple[Sample, ...], *, sizes: bool) -> tuple[Sample, ...]:
    """The newest samples of each configuration, so that hours in one do not drown what others taught."""
    counts: dict[tuple[float, ...], int] = {}
    kept: list[Sample] = []
    for sample in reversed(samples):
        key = _configuration(sample)[: 4 if sizes else 3]
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= SAME_CONFIGURATION and len(kept) < MOST_SAMPLES:
            kept.append(sample)
    return tuple(reversed(kept))
