"""What a kubelet measures of its node and pods (its page `/metrics/cadvisor`), as metrics of the node. Pure.

Whoever reads it, directly or through Prometheus, has the same series of times and values: the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from fogctl.metrics.node import RESOURCES
from fogctl.metrics.values import NodeMetrics

CPU = "container_cpu_usage_seconds_total"
PERIODS = "container_cpu_cfs_periods_total"
HELD_BACK = "container_cpu_cfs_throttled_periods_total"
MEMORY = "container_memory_working_set_bytes"
PRESSURE = {resource: f"container_pressure_{resource}_waiting_seconds_total" for resource in RESOURCES}
WANTED = (CPU, PERIODS, HELD_BACK, MEMORY, *PRESSURE.values())
ROOT = "/"
"""The control group of the whole node."""
REST = "main"
"""The part of a node that holds whatever of ours is no replica, as on emulated nodes."""
GONE_AFTER_S = 40.0
"""A container whose newest number is so much older than its node's is gone: kubelets look every 10–20 s."""
LONGEST_WINDOW_S = 300.0


@dataclass(frozen=True, slots=True)
class Series:
    """What one number belongs to."""

    name: str
    group: str
    """Its control group: the node's, or a container's."""
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """One number at the moment at which the kubelet looked."""

    series: Series
    at_s: float
    value: float


def of_page(text: str, namespace: str) -> Iterator[Point]:
    """The numbers of a node itself and of one namespace's containers, from the page as it was sent."""
    # A page has thousands of lines, and parsing one takes longer than looking at how it begins.
    lines = [line for line in text.splitlines() if line.startswith(WANTED)]
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            series = series_of(sample.name, sample.labels, namespace)
            if series is not None and sample.timestamp is not None:
                yield Point(series, float(sample.timestamp), float(sample.value))


def series_of(name: str, labels: Mapping[str, str], namespace: str) -> Series | None:
    """What a number with these labels belongs to; None if it is neither the node's nor ours."""
    group = labels.get("id", "")
    if name not in WANTED:
        return None
    if group == ROOT:
        return Series(name, ROOT)
    # A pod has a group of its own and one for each container: the containers' add up to it.
    if labels.get("namespace") == namespace and labels.get("container"):
        return Series(name, group, labels.get("pod", ""))
    return None


@dataclass(slots=True)
class NodeSeries:
    """The numbers of one node in the last minutes."""

    points: dict[Series, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, points: Iterable[Point]) -> None:
        """Keep what is new; a kubelet tells the same number until it has looked again."""
        for point in points:
            kept = self.points.setdefault(point.series, [])
            if not kept or point.at_s > kept[-1][0]:
                kept.append((point.at_s, point.value))
        newest = self.at_s
        if newest is not None:
            for series, kept in list(self.points.items()):
                kept[:] = [each for each in kept if each[0] >= newest - LONGEST_WINDOW_S]
                if not kept:
                    del self.points[series]

    @property
    def at_s(self) -> float | None:
        """When the kubelet last looked at the node; None: it has not."""
        kept = self.points.get(Series(CPU, ROOT))
        return kept[-1][0] if kept else None


def rate_told(summary: Mapping[str, Any]) -> float | None:
    """How many cores a node uses by what its kubelet tells in `/stats/summary`; None: it cannot tell yet.

    It can from its second look on, some ten seconds after its start; until then it may say 0, which no node
    uses that runs a kubelet.
    """
    told = ((summary.get("node") or {}).get("cpu") or {}).get("usageNanoCores")
    return float(told) / 1e9 if told else None


def before_first(points: Iterable[Point], cores: float, ago_s: float = 10.0) -> Iterator[Point]:
    """Where a node's CPU counter stood a while before its first number, by the rate that its kubelet tells.

    With it the first question of all has an answer too.
    """
    for point in points:
        if point.series == Series(CPU, ROOT):
            yield Point(point.series, point.at_s - ago_s, point.value - ago_s * cores)


def node_metrics(
    node: str,
    seen: NodeSeries,
    parts: Mapping[str, str],
    window_s: float,
    cores: float | None = None,
    memory_bytes: int | None = None,
) -> NodeMetrics | None:
    """A node over the `window_s` that end with the kubelet's newest look; None before the first.

    After a first look alone, what it uses is not known yet.

    Containers are looked at a little earlier or later than their node: what is newer than the node's own look
    does not count yet, so that its time alone says which numbers these are. `parts` says of each pod which
    part of the node it is; other pods of ours are its rest.
    """
    at_s = seen.at_s
    if at_s is None:
        return None
    told = {series: [each for each in kept if each[0] <= at_s] for series, kept in seen.points.items()}
    whole = _within(told[Series(CPU, ROOT)], window_s)
    by_part: dict[str, float] = {}
    unknown: set[str] = set()
    held_back = 0.0
    for series, points in told.items():
        if series.group == ROOT or not points or points[-1][0] < at_s - GONE_AFTER_S:
            continue
        if series.name == CPU:
            part = parts.get(series.pod, REST)
            if (used := _rate(_within(points, window_s))) is None:
                unknown.add(part)
            else:
                by_part[part] = by_part.get(part, 0.0) + used
        elif series.name == HELD_BACK:
            periods = told.get(Series(PERIODS, series.group, series.pod), [])
            held_back = max(held_back, _ratio(_within(points, window_s), _within(periods, window_s)))
    memory = told.get(Series(MEMORY, ROOT))
    waited = {
        resource: _rate(_within(told.get(Series(name, ROOT), []), window_s))
        for resource, name in PRESSURE.items()
    }
    return NodeMetrics(
        node=node,
        at_s=at_s,
        cpu_used_cores=_rate(whole),
        cpu_quota_cores=cores,
        cpu_throttled=held_back,
        memory_bytes=int(memory[-1][1]) if memory else 0,
        memory_limit_bytes=memory_bytes,
        pressure={resource: min(1.0, share) for resource, share in waited.items() if share is not None},
        cpu_used_by_part={part: by_part[part] for part in sorted(by_part.keys() - unknown)},
        window_s=whole[-1][0] - whole[0][0],
    )


def _within(points: Sequence[tuple[float, float]], window_s: float) -> Sequence[tuple[float, float]]:
    """Those of the window that ends with the newest, and the one before that in any case.

    A window may be shorter than the time between two looks of a kubelet. What a counter said before it began
    anew (a board was started again) is left out.
    """
    found: list[tuple[float, float]] = []
    for point in reversed(points):
        begun_anew = bool(found) and point[1] > found[-1][1]
        if begun_anew or (len(found) > 1 and point[0] < points[-1][0] - window_s):
            break
        found.append(point)
    return found[::-1]


def _rate(points: Sequence[tuple[float, float]]) -> float | None:
    """How much a counter grows a second; None: one number alone does not tell."""
    if len(points) < 2:
        return None
    return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


def _ratio(some: Sequence[tuple[float, float]], all_of: Sequence[tuple[float, float]]) -> float:
    if not some or not all_of:
        return 0.0
    periods = all_of[-1][1] - all_of[0][1]
    return min(1.0, max(0.0, some[-1][1] - some[0][1]) / periods) if periods > 0 else 0.0
