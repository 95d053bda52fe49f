"""What a node uses, from the texts of the kernel's control group files, version 1 or 2. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fogctl.metrics.values import NodeMetrics
from fogctl.testbed.cgroups import PERIOD_US, read_limit, read_quota

RESOURCES = ("cpu", "memory", "io")


@dataclass(frozen=True, slots=True)
class Periods:
    """The scheduler's periods of a group that has a CPU quota, counted since it exists."""

    all: int = 0
    held_back: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of a node at one moment."""

    at_s: float
    cpu_s: float
    """CPU time used since the node exists."""
    quota_cores: float | None
    """None: not limited."""
    memory_bytes: int
    memory_limit_bytes: int | None
    periods: Mapping[str, Periods]
    """Of the node itself (an empty name) and of its parts."""
    cpu_s_by_part: Mapping[str, float] = field(default_factory=dict)
    waited_s: Mapping[str, float] = field(default_factory=dict)
    """Time in which some task waited, by resource; `host_…` is the whole host's."""


def read_cpu_s(text: str) -> float:
    """CPU time in the text of cpuacct.usage (v1: nanoseconds) or cpu.stat (v2: usage_usec)."""
    if "usage_usec" in text:
        return _table(text)["usage_usec"] / 1e6
    return int(text) / 1e9


def read_periods(text: str) -> Periods:
    """Periods in the text of cpu.stat; none where the group has no controller."""
    found = _table(text)
    return Periods(found.get("nr_periods", 0), found.get("nr_throttled", 0))


def read_quota_cores(version: int, text: str, period_text: str | None = None) -> float | None:
    """Cores in cpu.max (v2), or in cpu.cfs_quota_us and cpu.cfs_period_us (v1); None: not limited."""
    quota = read_quota(version, text)
    if quota is None:
        return None
    period = int(period_text) if version == 1 and period_text is not None else PERIOD_US
    return quota / period


def read_memory_limit(text: str) -> int | None:
    """Bytes in memory.limit_in_bytes (v1) or memory.max (v2); None: not limited."""
    return read_limit(text)


def read_waited_s(text: str) -> float:
    """Time in which some task waited, from a pressure file: `some avg10=0.00 … total=12345` (µs)."""
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "some":
            return int(dict(pair.split("=") for pair in rest.split())["total"]) / 1e6
    raise ValueError(f"not a pressure file: {text[:60]!r}")


def node_metrics(node: str, readings: Sequence[Reading], window_s: float) -> NodeMetrics:
    """A node over the `window_s` that end with the newest of its readings, of which there is at least one."""
    last = readings[-1]
    first = next(reading for reading in readings if reading.at_s >= last.at_s - window_s)
    passed_s = last.at_s - first.at_s
    return NodeMetrics(
        node=node,
        at_s=last.at_s,
        cpu_used_cores=_per_second(first.cpu_s, last.cpu_s, passed_s),
        cpu_quota_cores=last.quota_cores,
        cpu_throttled=max(
            (_held_back(first.periods.get(part, Periods()), end) for part, end in last.periods.items()),
            default=0.0,
        ),
        memory_bytes=last.memory_bytes,
        memory_limit_bytes=last.memory_limit_bytes,
        pressure={
            resource: min(1.0, _per_second(first.waited_s[resource], end, passed_s))
            for resource, end in last.waited_s.items()
            if resource in first.waited_s
        },
        cpu_used_by_part={
            part: _per_second(first.cpu_s_by_part.get(part, 0.0), end, passed_s)
            for part, end in last.cpu_s_by_part.items()
        },
        window_s=passed_s,
    )


def _per_second(first: float, last: float, passed_s: float) -> float:
    # A group that was made anew counts from 0 again.
    return max(0.0, last - first) / passed_s if passed_s > 0 else 0.0


def _held_back(first: Periods, last: Periods) -> float:
    periods = last.all - first.all
    return min(1.0, max(0, last.held_back - first.held_back) / periods) if periods > 0 else 0.0


def _table(text: str) -> dict[str, int]:
    """`name number` lines."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
