"""What Spark's real-time mode asks of a stage, checked before it starts; each fault one sentence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fogctl.errors import REFUSED, FogError
from fogctl.runtime.app_file import OutputMode

if TYPE_CHECKING:
    from fogctl.runtime.app import Stage

LEAST_INTERVAL_MS = 5000.0
"""spark.sql.streaming.realTimeMode.minBatchDuration."""


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What a stage's query consists of."""

    python: tuple[str, ...] = ()
    """Parts that run in Python instead of the JVM, such as `the UDF distance` or `mapInPandas`."""
    unsupported: tuple[str, ...] = ()
    """Operators the mode does not have, such as `a join of two streams`."""
    shuffle_tasks: tuple[int, ...] = ()
    """Tasks behind each shuffle: in this mode they all run at once, beside those that read."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A stage that is about to start in real-time mode."""

    stage: str
    output_mode: OutputMode
    freshness_ms: float
    partitions: tuple[int, ...]
    """Of each input."""
    replicas: int
    slots_per_replica: int
    plan: PlanFacts = PlanFacts()
    sink: str = "kafka"

    @property
    def tasks(self) -> int:
        """Tasks that must run at once: one a partition of each input, and those behind each shuffle."""
        return sum(self.partitions) + sum(self.plan.shuffle_tasks)

    @property
    def slots(self) -> int:
        """Tasks that can run at once."""
        return self.replicas * self.slots_per_replica


NOTHING_KNOWN = PlanFacts()
"""Of a query whose plan has not been looked at: its shuffles, if any, need slots on top."""


def facts(stage: Stage, replicas: int, slots_per_replica: int, plan: PlanFacts = NOTHING_KNOWN) -> Facts:
    """The facts of a stage on that many replicas."""
    return Facts(
        stage=stage.name,
        output_mode=stage.output_mode,
        freshness_ms=stage.freshness_ms,
        partitions=(stage.partitions,) * len(stage.inputs),
        replicas=replicas,
        slots_per_replica=slots_per_replica,
        plan=plan,
    )


def output_mode_problem(output_mode: OutputMode) -> str | None:
    """Why that output mode does not do, with the change that helps."""
    if output_mode is OutputMode.update:
        return None
    return "real-time mode writes every row that changed (write output_mode: update or remove the key)"


def interval_problem(freshness_ms: float) -> str | None:
    """Why that freshness does not do, with the change that helps."""
    if freshness_ms >= LEAST_INTERVAL_MS:
        return None
    return (
        f"real-time mode checkpoints every {LEAST_INTERVAL_MS / 1000:g} s or more rarely, and records do not "
        f"wait for it (write freshness: {LEAST_INTERVAL_MS / 1000:g}s)"
    )


def sink_problem(sink: str) -> str | None:
    """Why that sink does not do, with the change that helps."""
    if sink == "kafka":
        return None
    return f"real-time mode writes to Kafka, not to {sink} (write to a stream, or use mode: micro-batch)"


def native_problem(plan: PlanFacts) -> str | None:
    """Why the query's parts do not do, with the change that helps."""
    if plan.python:
        return (
            f"real-time mode runs native operators only, and the function uses {_and(plan.python)} "
            "(write it with pyspark.sql.functions, or use mode: micro-batch)"
        )
    if plan.unsupported:
        return (
            f"real-time mode has no {_and(plan.unsupported)} (change the function, or use mode: micro-batch)"
        )
    return None


def slots_problem(facts: Facts) -> str | None:
    """Why there are too few slots, with the change that helps.

    Spark says nothing when slots are missing: the partitions without one are simply never read.
    """
    if facts.tasks <= facts.slots:
        return None
    behind = sum(facts.plan.shuffle_tasks)
    room = (facts.slots - behind) // len(facts.partitions)
    needed = -(-facts.tasks // facts.slots_per_replica)
    fixes = [f"deploy it on {needed} nodes"]
    if room >= 1:
        fixes.insert(0, f"write partitions: {room}")
    tasks = (
        f"{facts.tasks} ({sum(facts.partitions)} to read, {behind} behind shuffles)"
        if behind
        else facts.tasks
    )
    return (
        f"real-time mode runs all tasks at once, {tasks}, but {_count(facts.replicas, 'replica')} of "
        f"{_count(facts.slots_per_replica, 'slot')} can run {facts.slots} ({' or '.join(fixes)})"
    )


def problems(facts: Facts) -> list[str]:
    """Everything that keeps the stage from real-time mode, each in one sentence; empty if nothing does."""
    found = (
        output_mode_problem(facts.output_mode),
        interval_problem(facts.freshness_ms),
        sink_problem(facts.sink),
        native_problem(facts.plan),
        slots_problem(facts),
    )
    return [sentence for sentence in found if sentence is not None]


def check(facts: Facts) -> None:
    """Refuse a stage that cannot run in real-time mode: FogError, one sentence a line."""
    found = problems(facts)
    if found:
        raise FogError("\n".join(f"stage {facts.stage}: {sentence}" for sentence in found), exit_code=REFUSED)


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
