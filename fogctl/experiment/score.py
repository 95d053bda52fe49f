"""Scores of a run, from its folder alone: SPEC's elasticity, cost, lag, stalls, response times. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fogmodels import elasticity

from fogctl.experiment.series import (
    StageSeries,
    Vector,
    changes,
    column,
    finished,
    part_events,
    reconfigurations,
    series,
    stalls,
)


@dataclass(frozen=True, slots=True)
class PartScore:
    """One policy in one repetition. Rates are records a second; lower is better unless said otherwise."""

    policy: str
    repetition: int
    accuracy_o: float | None
    """Replicas to spare, on average, over all stages; None where no ideal curve is known."""
    accuracy_u: float | None
    accuracy_o_cpu: float | None
    """CPU to spare, in nodes at full share, against the least that n replicas at one share could do with."""
    accuracy_u_cpu: float | None
    timeshare_o: float | None
    """Fraction of the time with too many; the paper prints per cent."""
    timeshare_u: float | None
    excess_time: float | None
    """Time needed beyond the trace to finish, as a fraction of its length; None: it never finished."""
    reconfigurations: int
    share_changes: int
    node_minutes: float
    weighted_node_minutes: float
    """The same where half a node costs half: replicas × share."""
    core_minutes: float | None
    """CPU paid for: replicas × share × quota."""
    cpu_share: float | None
    """Mean share of a replica: 1 is the static allocation."""
    mean_lag: float
    largest_lag: float
    stalled_s: float
    """Seconds of input that piled up because of changes, as the agent saw them afterwards."""
    duration_s: float
    finished_s: float | None
    sent: int | None
    lost: int | None
    """Sent and never come out; None while some still wait."""
    waiting: int | None
    """Still not processed when the time to drain was over."""
    duplicates: int | None
    decisions: int
    failed: int
    """Changes that were tried and failed."""
    response_mean_s: float | None = None
    response_p95_s: float | None = None
    goal_met: bool | None = None
    saturated: float | None = None
    """Fraction of seconds in which the host was busier than tolerated; None: not measured."""


def score(
    manifest: Mapping[str, Any], metrics: pa.Table, events: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """scores.json: each finished part, and for each policy the medians over its repetitions."""
    parts = [part_score(manifest, entry, metrics, events) for entry in finished(manifest)]
    by_policy: dict[str, list[PartScore]] = {}
    for part in parts:
        by_policy.setdefault(part.policy, []).append(part)
    medians = [
        {"policy": policy, "repetitions": len(own), **median(own)} for policy, own in by_policy.items()
    ]
    return {
        "format": 1,
        "run": manifest.get("run", ""),
        "kind": manifest.get("kind", ""),
        "parts": [asdict(part) for part in parts],
        "policies": medians,
        "warnings": list(_warnings(manifest, parts)),
    }


def part_score(
    manifest: Mapping[str, Any],
    entry: Mapping[str, Any],
    metrics: pa.Table,
    events: Sequence[Mapping[str, Any]],
) -> PartScore:
    """The scores of one part."""
    stages = series(manifest, entry, metrics)
    duration = float(entry["trace_s"])
    finished_s = entry.get("finished_s")
    until = max(duration, float(finished_s) if finished_s is not None else duration)
    own = part_events(events, entry)
    scored = [
        elasticity.score(
            stage.at_s,
            stage.replicas,
            stage.ideal,
            end_s=duration,
            finished_s=finished_s,
        )
        for stage in stages.values()
        if stage.ideal is not None
    ]
    known = bool(scored) and len(scored) == len(stages)
    of_cpu = [
        elasticity.score(stage.at_s, stage.cpu, stage.ideal_cpu, end_s=duration)
        for stage in stages.values()
        if stage.ideal_cpu is not None
    ]
    known_cpu = bool(of_cpu) and len(of_cpu) == len(stages)
    lags = sum((stage.lag for stage in _aligned(stages.values())), start=np.zeros(1))
    responses = _responses(own)
    audit = entry.get("audit") or {}
    cores = [_area(stage.at_s, stage.cores, until) for stage in stages.values()]
    shares = [float(np.nanmean(stage.share)) for stage in stages.values() if not np.isnan(stage.share).all()]
    return PartScore(
        policy=str(entry["policy"]),
        repetition=int(entry["repetition"]),
        accuracy_o=sum(one.accuracy_o for one in scored) if known else None,
        accuracy_u=sum(one.accuracy_u for one in scored) if known else None,
        accuracy_o_cpu=sum(one.accuracy_o for one in of_cpu) if known_cpu else None,
        accuracy_u_cpu=sum(one.accuracy_u for one in of_cpu) if known_cpu else None,
        timeshare_o=statistics.fmean(one.timeshare_o for one in scored) if known else None,
        timeshare_u=statistics.fmean(one.timeshare_u for one in scored) if known else None,
        excess_time=None if finished_s is None else max(0.0, float(finished_s) - duration) / duration,
        reconfigurations=reconfigurations(own),
        share_changes=sum(int((np.diff(np.nan_to_num(stage.share)) != 0).sum()) for stage in stages.values()),
        node_minutes=sum(_area(stage.at_s, stage.replicas, until) for stage in stages.values()) / 60.0,
        weighted_node_minutes=sum(_area(s.at_s, s.cpu, until) for s in stages.values()) / 60.0,
        core_minutes=None if any(math.isnan(area) for area in cores) else sum(cores) / 60.0,
        cpu_share=statistics.fmean(shares) if shares else None,
        mean_lag=float(lags.mean()),
        largest_lag=float(lags.max()),
        stalled_s=sum(seconds for _, seconds in stalls(own)),
        duration_s=duration,
        finished_s=None if finished_s is None else float(finished_s),
        sent=audit.get("sent"),
        lost=audit.get("lost") if finished_s is not None else None,
        waiting=0 if finished_s is not None else audit.get("lost"),
        duplicates=audit.get("duplicates"),
        decisions=sum(event.get("what") == "decision" for event in changes(own)),
        failed=sum(event.get("what") == "failed" for event in own),
        response_mean_s=None if responses is None else float(responses["mean_s"]),
        response_p95_s=None if responses is None else float(responses["p95_s"]),
        goal_met=_goal_met(entry.get("goal") or {}, responses),
        saturated=_saturated(manifest, entry, metrics),
    )


def median(parts: Sequence[PartScore]) -> dict[str, Any]:
    """For each score the median over repetitions; None where one is unknown. Flags: whether all agree."""
    found: dict[str, Any] = {}
    for name in PartScore.__dataclass_fields__:
        if name in ("policy", "repetition"):
            continue
        values = [getattr(part, name) for part in parts]
        if any(value is None for value in values):
            found[name] = None
        elif name == "goal_met":
            found[name] = all(values)
        elif name in ("lost", "waiting", "sent", "duplicates", "failed"):
            found[name] = sum(values)
        else:
            found[name] = statistics.median(values)
    return found


def _area(at_s: Vector, values: Vector, until_s: float) -> float:
    """The integral of a step function from its first instant to `until_s`."""
    kept = at_s < until_s
    edges = np.append(at_s[kept], until_s)
    return float(values[kept] @ np.diff(edges))


def _aligned(stages: Iterable[StageSeries]) -> list[StageSeries]:
    """The same seconds for all: stages of one part are looked at together, but one may not have answered."""
    found = list(stages)
    shortest = min((stage.lag.size for stage in found), default=0)
    return [stage for stage in found if stage.lag.size == shortest] if shortest else []


def _responses(events: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The response times of the slowest path."""
    paths = [event for event in events if event.get("what") == "responses"]
    return max(paths, key=lambda event: float(event["mean_s"]), default=None)


def _goal_met(goal: Mapping[str, Any], responses: Mapping[str, Any] | None) -> bool | None:
    asked = [(goal.get("mean_s"), "mean_s"), (goal.get("p95_s"), "p95_s")]
    if responses is None or all(limit is None for limit, _ in asked):
        return None
    return all(float(responses[name]) <= float(limit) for limit, name in asked if limit is not None)


def _saturated(manifest: Mapping[str, Any], entry: Mapping[str, Any], metrics: pa.Table) -> float | None:
    mask = pc.and_(
        pc.and_(
            pc.equal(metrics["policy"], str(entry["policy"])),
            pc.equal(metrics["repetition"], int(entry["repetition"])),
        ),
        pc.equal(metrics["kind"], "host"),
    )
    busy = column(metrics.filter(mask), "busy")
    busy = busy[~np.isnan(busy)]
    if busy.size == 0:
        return None
    return float((busy > float(manifest["tolerances"]["host_busy"])).mean())


def _warnings(manifest: Mapping[str, Any], parts: Sequence[PartScore]) -> Iterable[str]:
    yield from manifest.get("warnings", [])
    yield from manifest.get("lost", [])
    limits = manifest["tolerances"]
    for part in parts:
        name = f"{part.policy}, repetition {part.repetition}"
        if part.saturated is not None and part.saturated > float(limits["saturated"]):
            yield (
                f"{name}: the host was saturated in {part.saturated:.0%} of the seconds; "
                "the figures may be the host's, not the policy's"
            )
        if part.lost:
            yield f"{name}: {part.lost} of {part.sent} records are lost"
        if part.finished_s is None:
            left = f"; {part.waiting:,} records still waited" if part.waiting else ""
            yield f"{name}: the backlog was not worked off within the time to drain{left}"
    for entry in finished(manifest):
        late = (entry.get("replay") or {}).get("error_ms_p99")
        if late is not None and float(late) > float(limits["schedule_ms"]):
            yield (
                f"{entry['policy']}, repetition {entry['repetition']}: the replay was late "
                f"(p99 {float(late):.0f} ms)"
            )
