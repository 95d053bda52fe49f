"""After a restart: how far a change came that was begun before, told from what is deployed now. Pure."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from fogctl.agent.plan import Plan, Scale
from fogctl.agent.state import Intent
from fogctl.runtime.deployment import Deployment, Replica


class Found(StrEnum):
    """How far a change came."""

    not_begun = "not begun"
    """Nothing of it is there: it is dropped, and the policy decides anew."""
    half_done = "half done"
    """It is carried through; making again what is there already changes nothing."""
    done = "done"
    """All of it is there."""


def found_after_restart(intent: Intent, now: Deployment) -> Found:
    """Compare what is deployed with what was before and with what was wanted."""
    if _same(now, wanted(intent.plan, intent.before)):
        return Found.done
    return Found.not_begun if _same(now, intent.before) else Found.half_done


def wanted(plan: Plan, before: Deployment) -> Deployment:
    """The deployment that a plan leads to."""
    for action in plan.actions:
        old = before.stage(action.stage)
        shares = {replica.node: replica.share for replica in old.replicas}
        if isinstance(action, Scale):
            kept = shares if action.keep_shares else {}
            nodes = dict.fromkeys(action.nodes)
            replicas = tuple(Replica(node, kept.get(node, action.share)) for node in nodes)
        else:
            replicas = tuple(
                Replica(r.node, action.share) if action.node in (None, r.node) else r for r in old.replicas
            )
        before = before.with_stage(replace(old, replicas=replicas))
    return before


def _same(a: Deployment, b: Deployment) -> bool:
    def placed(deployment: Deployment) -> dict[str, dict[str, float]]:
        return {p.stage: {r.node: round(r.share, 6) for r in p.replicas} for p in deployment.stages}

    return placed(a) == placed(b)
