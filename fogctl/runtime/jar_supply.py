"""Fetches every jar ahead of time, and says for `fogctl doctor` whether they are there."""

from __future__ import annotations

from dataclasses import dataclass

from fogctl.runtime import jars
from fogctl.testbed.doctor import Finding, Verdict


@dataclass(frozen=True, slots=True)
class Supply:
    """What was fetched, and how many jars are in the cache now."""

    cache: str
    jars: int
    fetched: tuple[str, ...]
    """In Maven's notation; empty: all were there already."""


def fetch_all(on_progress: jars.Progress = jars.quietly) -> Supply:
    """Have every jar in the cache; those that are there and intact are left alone."""
    cache = jars.cache_dir()
    fetched = [jar.coordinates for part in jars.PARTS for jar in jars.fetch(part, cache, on_progress)]
    return Supply(str(cache), _pinned(), tuple(fetched))


def finding() -> Finding:
    """Whether apps can be deployed without a network."""
    cache = jars.cache_dir()
    lacking = sum(len(jars.missing(part, cache)) for part in jars.PARTS)
    if not lacking:
        return Finding("jars", Verdict.ok, f"{_pinned()} jars of Kafka and Spark's connector in {cache}")
    says = f"{lacking} of {_pinned()} jars are not in {cache}: the first app deployed fetches them"
    return Finding("jars", Verdict.lacking, says, "ahead of time: fogctl doctor --fetch")


def _pinned() -> int:
    return sum(len(jars.locked(part)) for part in jars.PARTS)
