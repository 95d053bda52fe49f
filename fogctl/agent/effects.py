"""What a change did: the stall it caused, and how the prediction compares once it has settled. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fogctl.agent import evaluate
from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan
from fogctl.agent.settings import Guard
from fogctl.agent.state import Effect
from fogctl.agent.wish import Record, Wish, wishes
from fogctl.metrics.values import StageMetrics
from fogctl.runtime.deployment import Deployment


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known after a look at the effects that were waited for."""

    known: Knowledge
    record: Record
    waiting: tuple[Effect, ...]
    events: tuple[dict[str, Any], ...]


def waiting_for(
    before: tuple[Effect, ...],
    number: int,
    plan: Plan,
    cut: Container[str],
    seen: Observation,
    known: Knowledge,
) -> tuple[Effect, ...]:
    """The effects to wait for once a plan is carried out, beside those waited for already.

    A later change of the same stage hides what an earlier one did, unless it is one of shares only. What was
    predicted for a stage in `cut` was predicted for another plan than the guard rails left.
    """
    found = list(before)
    for wish in wishes(plan, seen):
        metrics = seen.stage(wish.stage)
        if wish.empty or metrics is None:
            continue
        hidden = ("out", "in", "share") if wish.scale is not None else ("share",)
        found = [e for e in found if e.stage != wish.stage or e.kind not in hidden]
        mine = {k: v for k, v in plan.predicted.items() if k.startswith(f"{wish.stage}.")}
        found.append(
            Effect(
                number=number,
                stage=wish.stage,
                kind=kind(wish),
                replicas=len(wish.before.replicas),
                began_s=seen.at_s,
                ended_s=seen.at_s,
                lag=float(metrics.lag),
                lag_trend=metrics.lag_trend,
                input_rate=metrics.input_rate,
                processed_rate=metrics.processed_rate,
                overloaded=known.stage(wish.stage).overloaded,
                predicted={} if wish.stage in cut else mine,
                worst_lag=float(metrics.lag),
                worst_at_s=seen.at_s,
            )
        )
    return tuple(found)


def ended(effects: tuple[Effect, ...], number: int, at_s: float) -> tuple[Effect, ...]:
    """The same once the change of that decision is made: what it did is to be seen from now on."""
    return tuple(replace(e, ended_s=at_s) if e.number == number else e for e in effects)


def kind(wish: Wish) -> str:
    """`out`, `in` or `share`: what a change costs depends on it."""
    return "out" if wish.added else "in" if wish.removed else "share"


def look(
    effects: tuple[Effect, ...], seen: Observation, known: Knowledge, record: Record, guard: Guard
) -> Seen:
    """Follow each effect; those whose time has come are compared with what was predicted."""
    waiting: list[Effect] = []
    events: list[dict[str, Any]] = []
    for effect in effects:
        metrics = seen.stage(effect.stage)
        if metrics is None or effect.stage not in known.stages:
            waiting.append(effect)
            continue
        if metrics.lag > effect.worst_lag:
            effect = replace(
                effect,
                worst_lag=float(metrics.lag),
                worst_at_s=seen.at_s,
                worst_input_rate=metrics.input_rate,
            )
        stage = known.stage(effect.stage)
        pause = guard.window if effect.kind == "share" else evaluate.settling_s(stage, guard)
        if seen.at_s < effect.ended_s + pause:
            waiting.append(effect)
            continue
        stall = stall_s(effect)
        known = known.with_stage(
            effect.stage, evaluate.with_stall(stage, effect.kind, stall, effect.ended_s - effect.began_s)
        )
        useless = _useless(effect, metrics, stage.overloaded, guard)
        if effect.kind == "out":
            before = record.of(effect.stage)
            record = record.having(
                effect.stage,
                useless=before.useless + 1 if useless else 0,
                useless_from=before.useless_from if before.useless else effect.replicas,
                useless_at_s=seen.at_s if useless else None,
            )
        found = observed(effect.stage, metrics, seen.deployment, stage.overloaded)
        events.append(
            {
                "at_s": seen.at_s,
                "what": "observed",
                "app": seen.app,
                "decision": effect.number,
                "stage": effect.stage,
                "kind": effect.kind,
                "predicted": dict(effect.predicted),
                "observed": found,
                "off": _off(effect.predicted, found),
                "stall_s": round(stall, 3),
                "useless": useless,
            }
        )
    return Seen(known, record, tuple(waiting), tuple(events))


def stall_s(effect: Effect) -> float:
    """Seconds of input that piled up because of the change, never more than it took to pile up.

    What a stage that processed no more than before would have lagged behind anyway is not the change's doing.
    """
    took = effect.worst_at_s - effect.began_s
    rate = max(effect.input_rate, effect.worst_input_rate)
    if rate <= 0.0 or took <= 0.0:
        return 0.0
    behind = max(0.0, effect.lag_trend, effect.worst_input_rate - effect.processed_rate)
    return min(max(0.0, effect.worst_lag - effect.lag - behind * took) / rate, took)


def observed(stage: str, metrics: StageMetrics, deployment: Deployment, overloaded: bool) -> dict[str, float]:
    """What is seen, under the names of predictions. Only an overloaded stage shows its MST."""
    placement = deployment.stage(stage)
    rate = "mst" if overloaded else "mst_at_least"
    return {
        f"{stage}.{rate}": metrics.processed_rate,
        f"{stage}.replicas": float(len(metrics.nodes)),
        f"{stage}.share": min((replica.share for replica in placement.replicas), default=0.0),
        f"{stage}.input_rate": metrics.input_rate,
        f"{stage}.lag": float(metrics.lag),
        f"{stage}.lag_trend": metrics.lag_trend,
        f"{stage}.batch_ms": metrics.batch_ms,
    }


def _useless(effect: Effect, metrics: StageMetrics, overloaded: bool, guard: Guard) -> bool:
    """Whether replicas were added because of overload, there still is overload, and nothing was gained."""
    if effect.kind != "out" or not effect.overloaded or not overloaded or effect.processed_rate <= 0.0:
        return False
    least: float = effect.processed_rate * (1.0 + guard.least_gain)
    return metrics.processed_rate < least


def _off(predicted: Mapping[str, float], found: Mapping[str, float]) -> dict[str, float]:
    """Relative errors of what was both predicted and seen."""
    return {
        key: round(found[key] / value - 1.0, 4) for key, value in predicted.items() if key in found and value
    }
