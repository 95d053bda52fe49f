"""The executors a driver has, from its status store: where each is, and what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NODE_ATTRIBUTE = "NODE"
"""Of an executor: its node's name, where its host is an address. It comes from its environment."""
NODE_VARIABLE = f"SPARK_EXECUTOR_ATTRIBUTE_{NODE_ATTRIBUTE}"
_DRIVER = "driver"

Known = dict[str, tuple[str, int]]
"""Node and slots by executor: they never change, and each question to the JVM costs."""


@dataclass(frozen=True, slots=True)
class LiveExecutor:
    """One executor at one moment."""

    id: str
    node: str
    slots: int
    active_tasks: int
    completed_tasks: int
    busy_ms: int
    """What its completed tasks took, all together."""


def live_executors(context: Any, known: Known | None = None) -> list[LiveExecutor]:
    """The executors of a SparkContext, without the driver and without those that are just registering.

    Whoever asks again and again gives the same `known` each time.
    """
    known = {} if known is None else known
    listed = context._jsc.sc().statusStore().executorList(True)
    found = []
    for place in range(listed.size()):
        summary = listed.apply(place)
        name = summary.id()
        if name == _DRIVER:
            continue
        if name not in known:
            node, slots = _node(summary), summary.maxTasks()
            if not node or not slots:  # it is registering, or was just lost
                continue
            known[name] = (node, slots)
        counts = (summary.activeTasks(), summary.completedTasks(), summary.totalDuration())
        found.append(LiveExecutor(name, *known[name], *counts))
    return found


def _node(summary: Any) -> str:
    told = summary.attributes().get(NODE_ATTRIBUTE)
    return str(told.get() if told.isDefined() else summary.hostPort().rpartition(":")[0])
