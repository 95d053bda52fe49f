"""Guard rails about what is seen: numbers too old, a backlog that shrinks anyway, additions without gain."""

from __future__ import annotations

from fogctl.agent import evaluate
from fogctl.agent.wish import Context, Wish


def stale_metrics(wish: Wish, at: Context) -> tuple[Wish, str | None]:
    """Nothing is changed on numbers that are missing, too old or impossible."""
    metrics = at.seen.stage(wish.stage)
    if metrics is None:
        return wish.nothing(), f"stage {wish.stage} does not answer"
    if not evaluate.sound(metrics):
        return wish.nothing(), f"the metrics of {wish.stage} are no possible numbers"
    age = at.seen.at_s - metrics.at_s
    # A stage without input has no new batches, and that is no sign of trouble.
    if age > at.guard.stale_after and (metrics.lag > 0 or metrics.input_rate > 0):
        return wish.nothing(), f"the newest batch of {wish.stage} ended {age:.0f} s ago"
    if not at.seen.nodes and wish.scale is not None:
        return wish.without_scale(), "no node answers"
    return wish, None


def ineffective_scaling(wish: Wish, at: Context) -> tuple[Wish, str | None]:
    """When additions gained nothing, more of them will not either: something else is the bottleneck."""
    record = at.record.of(wish.stage)
    if not wish.added or record.useless < at.guard.ineffective_after or record.useless_at_s is None:
        return wish, None
    left = record.useless_at_s + at.guard.ineffective_pause - at.seen.at_s
    if left <= 0 or len(wish.before.replicas) < record.useless_from:
        return wish, None
    return (
        wish.without_scale(),
        f"the last {record.useless} additions gained less than {at.guard.least_gain:.0%}; "
        f"none for another {left:.0f} s",
    )


def catching_up(wish: Wish, at: Context) -> tuple[Wish, str | None]:
    """While a backlog shrinks fast enough, replicas stay as they are: the load looks higher than it is.

    Fast enough is within the catch-up time; slower, and additions are let through. Removals never are.
    """
    metrics = at.seen.stage(wish.stage)
    if not at.guard.pause_while_catching_up or wish.scale is None or metrics is None:
        return wish, None
    stage = at.known.stage(wish.stage)
    if not evaluate.catching_up(metrics, stage):
        return wish, None
    left = evaluate.backlog(metrics, stage) / -evaluate.slope(metrics, stage)
    if wish.added and left > at.guard.catch_up:
        return wish, None
    return wish.without_scale(), f"a backlog of {metrics.lag} records is worked off in about {left:.0f} s"
