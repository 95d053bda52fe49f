"""Reading the control groups of a testbed's nodes, and keeping what was read for a while."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

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
_MOST_BYTES = 4096


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
        cpu_s, by_part, parts = 0.0, {}, list[str]()
        if where.usage is not None:
            group = where.usage.group(*at)
            counter = "cpu.stat" if where.usage.version == 2 else "cpuacct.usage"
            cpu_s = read_cpu_s(_kernel_text(f"{group}/{counter}"))
            with os.scandir(group) as entries:
                parts = sorted(entry.name for entry in entries if entry.is_dir())
            for part in parts:
                if (text := _text_if_there(f"{group}/{part}/{counter}")) is not None:
                    by_part[part] = read_cpu_s(text)
        quota_cores, periods = None, dict[str, Periods]()
        if where.cpu is not None:
            group = where.cpu.group(*at)
            files = ["cpu.max"] if where.cpu.version == 2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
            texts = [_kernel_text(f"{group}/{name}") for name in files]
            quota_cores = read_quota_cores(where.cpu.version, *texts)
            for part in ("", *parts):
                if (text := _text_if_there(f"{group}/{part}/cpu.stat")) is not None:
                    periods[part] = read_periods(text)
        memory_bytes, memory_limit = 0, None
        if where.memory is not None:
            group = where.memory.group(*at)
            v2 = where.memory.version == 2
            used, limit = ("current", "max") if v2 else ("usage_in_bytes", "limit_in_bytes")
            memory_bytes = int(_kernel_text(f"{group}/memory.{used}"))
            memory_limit = read_memory_limit(_kernel_text(f"{group}/memory.{limit}"))
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
                    if (text := _text_if_there(f"{hierarchy.group(*at)}/{resource}.pressure")) is not None:
                        found[resource] = read_waited_s(text)
        if not found:
            for resource in RESOURCES:
                if (text := _text_if_there(f"{HOST_PRESSURE}/{resource}")) is not None:
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


def _kernel_text(path: str) -> str:
    """A kernel file's text, read in one go: pathlib takes four times as long, and there are many."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_BYTES).decode()
    finally:
        os.close(descriptor)


def _text_if_there(path: str) -> str | None:
    """The same; None where the kernel does not have the file, or not for this group."""
    try:
        return _kernel_text(path)
    except OSError:
        return None
