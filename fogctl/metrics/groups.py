"""Reading the control groups of a testbed's nodes, and keeping what was read for a while."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fogctl.metrics.node import (
    RESOURCES,
    Periods,
    Reading,
    node_metrics,
    read_cpu_s,
    read_memory_limit,
    read_periods,
    read_quota_cores,
    read_waited_s,
)
from fogctl.metrics.values import NodeMetrics
from fogctl.testbed import names
from fogctl.testbed.cgroups import Hierarchies

HOST_PRESSURE = "/proc/pressure"
LONGEST_WINDOW_S = 300.0


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """The control groups of one testbed's nodes."""

    testbed: str
    hierarchies: Hierarchies

    def read(self, node: str) -> Reading | None:
        """The node's counters at this moment; None if it is not there."""
        try:
            return self._read(node)
        except OSError:  # its groups went, as a whole or in the middle of the reading
            return None

    def _read(self, node: str) -> Reading:
        where = self.hierarchies
        at = (names.folder(self.testbed), node)
        usage_file = "cpu.stat" if where.usage is not None and where.usage.version == 2 else "cpuacct.usage"
        cpu_s, by_part, parts = 0.0, {}, list[str]()
        if where.usage is not None:
            group = Path(where.usage.group(*at))
            cpu_s = read_cpu_s((group / usage_file).read_text())
            parts = sorted(path.name for path in group.iterdir() if path.is_dir())
            for part in parts:
                if (text := _text(group / part / usage_file)) is not None:
                    by_part[part] = read_cpu_s(text)
        quota_cores, periods = None, dict[str, Periods]()
        if where.cpu is not None:
            group = Path(where.cpu.group(*at))
            if where.cpu.version == 2:
                quota_cores = read_quota_cores(2, (group / "cpu.max").read_text())
            else:
                texts = [(group / name).read_text() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
                quota_cores = read_quota_cores(1, *texts)
            for part in ("", *parts):
                if (text := _text(group / part / "cpu.stat")) is not None:
                    periods[part] = read_periods(text)
        memory_bytes, memory_limit = 0, None
        if where.memory is not None:
            group = Path(where.memory.group(*at))
            v2 = where.memory.version == 2
            memory_bytes = int((group / ("memory.current" if v2 else "memory.usage_in_bytes")).read_text())
            limit = group / ("memory.max" if v2 else "memory.limit_in_bytes")
            memory_limit = read_memory_limit(limit.read_text())
        waited_s = self._pressure(at)
        return Reading(
            *(time.time(), cpu_s, quota_cores, memory_bytes, memory_limit, periods, by_part, waited_s)
        )

    def _pressure(self, at: tuple[str, str]) -> dict[str, float]:
        """The node's own pressure where a version 2 tree is mounted, else the host's, else none."""
        found: dict[str, float] = {}
        for hierarchy in self.hierarchies.used:
            if hierarchy.version == 2:
                for resource in RESOURCES:
                    if (text := _text(Path(hierarchy.group(*at), f"{resource}.pressure"))) is not None:
                        found[resource] = read_waited_s(text)
        if not found:
            for resource in RESOURCES:
                if (text := _text(Path(HOST_PRESSURE, resource))) is not None:
                    found[f"host_{resource}"] = read_waited_s(text)
        return found


@dataclass(slots=True)
class NodeWindows:
    """What was read of each node in the last minutes."""

    groups: NodeGroups
    nodes: Sequence[str]
    _readings: dict[str, deque[Reading]] = field(default_factory=dict)

    def look(self) -> None:
        """Read every node once; one that is gone is forgotten."""
        for gone in self._readings.keys() - set(self.nodes):
            del self._readings[gone]
        for node in self.nodes:
            reading = self.groups.read(node)
            if reading is None:
                self._readings.pop(node, None)
                continue
            kept = self._readings.setdefault(node, deque())
            kept.append(reading)
            while kept[0].at_s < reading.at_s - LONGEST_WINDOW_S:
                kept.popleft()

    def metrics(self, window_s: float) -> tuple[NodeMetrics, ...]:
        """Every node that is there, over the window that ends with its newest reading."""
        return tuple(node_metrics(node, kept, window_s) for node, kept in sorted(self._readings.items()))


def _text(path: Path) -> str | None:
    """A file's text; None where the kernel does not have it, or not for this group."""
    try:
        return path.read_text()
    except OSError:
        return None
