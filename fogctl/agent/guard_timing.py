"""Guard rails about time: periods of rest, pauses after changes and failures, scale-ins that wait."""

from __future__ import annotations

from datetime import UTC, datetime

from fogctl.agent.settings import DAYS
from fogctl.agent.wish import Context, Record, Wish

LONGEST_COOL_OFF = 10
"""A cool-off grows to at most so many times its length."""


def excluded_period(wish: Wish, at: Context) -> tuple[Wish, str | None]:
    """Nothing is changed within a period that the user excluded."""
    for period in at.guard.excluded:
        if within(period, at.seen.at_s):
            return wish.nothing(), f"nothing is changed in the period {period} UTC"
    return wish, None


def within(period: str, at_s: float) -> bool:
    """Whether a Unix time is in `[day ]HH:MM-HH:MM`; a period that ends before it begins spans midnight."""
    day, _, hours = period.rpartition(" ")
    begin, end = (int(text[:2]) * 60 + int(text[3:]) for text in hours.split("-"))
    moment = datetime.fromtimestamp(at_s, UTC)
    minute = moment.hour * 60 + moment.minute
    today = DAYS[moment.weekday()]
    yesterday = DAYS[moment.weekday() - 1]
    if begin <= end:
        return begin <= minute < end and day in ("", today)
    return (minute >= begin and day in ("", today)) or (minute < end and day in ("", yesterday))


def cool_off(wish: Wish, at: Context) -> tuple[Wish, str | None]:
    """After a change that failed the stage is left alone for a while, longer each time."""
    record = at.record.of(wish.stage)
    if record.failed_at_s is None or record.failures == 0:
        return wish, None
    pause = at.guard.cool_off * min(2.0 ** (record.failures - 1), LONGEST_COOL_OFF)
    left = record.failed_at_s + pause - at.seen.at_s
    if left <= 0:
        return wish, None
    return wish.nothing(), f"{_failures(record.failures)}; the next attempt is due in {left:.0f} s"


def _failures(count: int) -> str:
    return "the last change failed" if count == 1 else f"the last {count} changes failed"


def stabilisation(wish: Wish, at: Context) -> tuple[Wish, str | None]:
    """After a change its effect is awaited before the next of the same kind."""
    record = at.record.of(wish.stage)
    why = []
    if wish.scale is not None and record.scaled_at_s is not None:
        left = record.scaled_at_s + at.guard.stabilise - at.seen.at_s
        if left > 0:
            wish = wish.without_scale()
            why.append(f"replicas were changed {at.seen.at_s - record.scaled_at_s:.0f} s ago")
    if wish.shares and record.shared_at_s is not None:
        left = record.shared_at_s + at.guard.stabilise_share - at.seen.at_s
        if left > 0:
            wish = Wish(wish.before, wish.scale)
            why.append(f"shares were changed {at.seen.at_s - record.shared_at_s:.0f} s ago")
    return wish, " and ".join(why) or None


def remember_scale_in(wish: Wish, at_s: float, record: Record) -> Record:
    """Keep since when fewer replicas were asked for, and the largest set asked for since.

    A decision that does not ask for fewer ends the wait.
    """
    known = record.of(wish.stage)
    if not wish.removed or wish.added:
        if known.in_since_s is None:
            return record
        return record.having(wish.stage, in_since_s=None, in_nodes=())
    assert wish.scale is not None  # something is removed
    asked = wish.scale.nodes
    if known.in_since_s is None:
        return record.having(wish.stage, in_since_s=at_s, in_nodes=asked)
    merged = asked if len(asked) > len(known.in_nodes) else known.in_nodes
    return record.having(wish.stage, in_nodes=tuple(n for n in merged if n in wish.before.nodes))


def delayed_scale_in(wish: Wish, at: Context) -> tuple[Wish, str | None]:
    """Replicas go only after a while, and then all at once that were superfluous all that time."""
    if not wish.removed or wish.added:
        return wish, None
    record = at.record.of(wish.stage)
    since = at.seen.at_s if record.in_since_s is None else record.in_since_s
    left = since + at.guard.scale_in_delay - at.seen.at_s
    if left > 0:
        return (
            wish.without_scale(),
            f"fewer replicas were first asked for {at.seen.at_s - since:.0f} s ago; "
            + (f"they go in {left:.0f} s if they are not needed again"),
        )
    assert wish.scale is not None  # something is removed
    if len(record.in_nodes) <= len(wish.scale.nodes):
        return wish, None
    kept = wish.on(record.in_nodes)
    return (
        kept,
        f"{len(record.in_nodes)} replicas were needed within the last {at.guard.scale_in_delay:.0f} s",
    )
