"""What a supervisor does about what it sees: which services to start again and when, which replicas to help.

Pure: no process, no clock, no file. `supervisor.py` looks and acts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
_MOST_DOUBLINGS = 20
CALM_S = 90.0
"""A service that ran for so long ended for a new reason: its next start does not wait."""
LEAST_AGE_S = 2.0
"""A younger executor has not registered yet, even if the driver still lists the one before it."""
_ORDER = ("broker", "mqtt", "master", "driver", "executor")


@dataclass(frozen=True, slots=True)
class ServiceSeen:
    """A service that should run."""

    name: str
    node: str
    restart: bool
    pid: int | None
    """None: it does not run."""

    @property
    def app(self) -> str:
        """The app it belongs to: what its name begins with."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class History:
    """How often a service was started again lately, and how it ended."""

    attempts: int
    started_s: float
    reason: str
    total: int

    def next_start_s(self) -> float:
        """The earliest moment of the next start."""
        return self.started_s + pause_s(self.attempts)


@dataclass(frozen=True, slots=True)
class ReplicaSeen:
    """A replica that a deployment asks for."""

    node: str
    share: float
    executor_pid: int | None
    executor_age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StageSeen:
    """A stage that is deployed."""

    app: str
    stage: str
    driver_pid: int | None
    replicas: tuple[ReplicaSeen, ...]


Key = tuple[str, str, str]
"""App, stage, node."""
Print = tuple[int | None, int | None]
"""The driver and executor of a replica: when one is another, the replica starts anew."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start a service again."""

    service: ServiceSeen
    history: History


@dataclass(frozen=True, slots=True)
class Lift:
    """Take the CPU limit off a replica's node: its executor is not there yet."""

    app: str
    stage: str
    node: str


@dataclass(frozen=True, slots=True)
class Limit:
    """Give a replica the share it should have: its executor works."""

    app: str
    stage: str
    node: str
    fingerprint: Print


def pause_s(attempts: int) -> float:
    """How long to wait after that many starts that did not last: nothing, then longer each time."""
    doublings = min(attempts - 1, _MOST_DOUBLINGS)
    return 0.0 if attempts == 0 else min(FIRST_PAUSE_S * 2.0**doublings, LONGEST_PAUSE_S)


def missing(services: Iterable[ServiceSeen], held: frozenset[str], down: frozenset[str]) -> list[ServiceSeen]:
    """The services that should run and do not, unless a fault wants it so; in the order to start them."""
    lacking = [
        seen
        for seen in services
        if seen.restart and seen.pid is None and seen.name not in held and seen.node not in down
    ]
    return sorted(lacking, key=lambda seen: (_rank(seen.name), seen.name))


def starts(
    lacking: Iterable[ServiceSeen], known: Mapping[str, History], reasons: Mapping[str, str], now_s: float
) -> list[Start]:
    """Which of the missing services to start now, each with what is to be remembered of it."""
    found = []
    for seen in lacking:
        before = known.get(seen.name)
        reason = reasons.get(seen.name, "ended by itself")
        if before is None or now_s - before.started_s >= CALM_S:
            total = 0 if before is None else before.total
            found.append(Start(seen, History(1, now_s, reason, total + 1)))
        elif now_s >= before.next_start_s():
            again = replace(
                before, attempts=before.attempts + 1, started_s=now_s, reason=reason, total=before.total + 1
            )
            found.append(Start(seen, again))
    return found


def unsettled(
    stages: Iterable[StageSeen], settled: Mapping[Key, Print], down: frozenset[str]
) -> list[StageSeen]:
    """The stages with a replica that is not known to work, with only those replicas."""
    found = []
    for stage in stages:
        open_ones = tuple(
            replica
            for replica in stage.replicas
            if replica.node not in down
            and settled.get((stage.app, stage.stage, replica.node)) != fingerprint(stage, replica)
        )
        if open_ones:
            found.append(replace(stage, replicas=open_ones))
    return found


def settle(stage: StageSeen, ready: Iterable[str]) -> list[Lift | Limit]:
    """What to do about each replica of an unsettled stage; `ready` are the nodes whose executors work."""
    working = set(ready)
    found: list[Lift | Limit] = []
    for replica in stage.replicas:
        works = (
            replica.node in working
            and replica.executor_pid is not None
            and replica.executor_age_s >= LEAST_AGE_S
        )
        if works:
            found.append(Limit(stage.app, stage.stage, replica.node, fingerprint(stage, replica)))
        else:
            found.append(Lift(stage.app, stage.stage, replica.node))
    return found


def fingerprint(stage: StageSeen, replica: ReplicaSeen) -> Print:
    """Which processes the replica consists of."""
    return (stage.driver_pid, replica.executor_pid)


def why_ended(log_tail: str) -> str:
    """One sentence from the end of a service's log."""
    if "No space left on device" in log_tail:
        return "its disk is full (No space left on device)"
    lines = [line.strip() for line in log_tail.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "Exception" in line or "Error:" in line]
    return f"ended by itself; its log ends with: {errors[-1][:200]}" if errors else "ended by itself"


def _rank(name: str) -> int:
    parts = name.split(".")
    return next((place for place, word in enumerate(_ORDER) if word in parts), len(_ORDER))
