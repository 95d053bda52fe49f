"""Guard rails between a policy and the testbed: what a plan may still do once every one has had its say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from fogctl.agent import guard_health, guard_limits, guard_timing
from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan
from fogctl.agent.settings import Guard
from fogctl.agent.wish import Context, Note, Record, Wish, wishes

Rail = Callable[[Wish, Context], tuple[Wish, str | None]]
"""A guard rail: the wish it lets through and, if that is another one, why."""

RAILS: Final[tuple[tuple[str, Rail], ...]] = (
    ("stale metrics", guard_health.stale_metrics),
    ("excluded period", guard_timing.excluded_period),
    ("cool-off", guard_timing.cool_off),
    ("stabilisation", guard_timing.stabilisation),
    ("unknown node", guard_limits.unknown_nodes),
    ("replica limits", guard_limits.replica_limits),
    ("largest step", guard_limits.largest_step),
    ("memory", guard_limits.memory),
    ("ineffective scaling", guard_health.ineffective_scaling),
    ("catching up", guard_health.catching_up),
    ("delayed scale-in", guard_timing.delayed_scale_in),
)
"""In the order they are asked: first what forbids everything, last what only postpones."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """What is left of a plan, which guard rails changed it and why, and what they remember now."""

    plan: Plan
    notes: tuple[Note, ...]
    record: Record


def check(plan: Plan, seen: Observation, known: Knowledge, guard: Guard, record: Record) -> Guarded:
    """Ask every guard rail about every stage of the plan."""
    asked = wishes(plan, seen)
    for placement in seen.deployment.stages:
        wanted = next((wish for wish in asked if wish.stage == placement.stage), Wish(placement))
        record = guard_timing.remember_scale_in(wanted, seen.at_s, record)
    context = Context(seen, known, guard, record)
    notes: list[Note] = []
    kept: list[Wish] = []
    for wish in asked:
        for name, rail in RAILS:
            if wish.empty:
                break
            wish, why = rail(wish, context)
            if why is not None:
                notes.append(Note(name, wish.stage, why))
        kept.append(wish)
    actions = tuple(action for wish in kept for action in wish.actions)
    return Guarded(replace(plan, actions=actions), tuple(notes), record)
