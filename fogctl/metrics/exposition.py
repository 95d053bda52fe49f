"""Metrics in Prometheus' words and back: one table says which name, label and unit each value has. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from prometheus_client.core import GaugeMetricFamily

from fogctl.metrics.values import NodeMetrics, StageMetrics


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of an exposition."""

    name: str
    labels: Mapping[str, str]
    value: float


def _same(value: float) -> float:
    return value


def _to_seconds(milliseconds: float) -> float:
    return milliseconds / 1000


def _to_milliseconds(seconds: float) -> float:
    # Stages give them to the microsecond, so rounding brings back exactly what was sent.
    return round(seconds * 1000, 3)


@dataclass(frozen=True, slots=True)
class Gauge:
    """How one field of the metrics is exposed."""

    field: str
    name: str
    help: str
    label: str | None = None
    """A field that holds several values has one sample each, told apart by this label."""
    out: Callable[[float], float] = _same
    back: Callable[[float], Any] = _same


def _ms(field: str, name: str, text: str, label: str | None = None) -> Gauge:
    return Gauge(field, name, text, label, _to_seconds, _to_milliseconds)


def _count(field: str, name: str, text: str, label: str | None = None) -> Gauge:
    return Gauge(field, name, text, label, back=int)


_S = "fogctl_stage_"
STAGE = (
    Gauge("at_s", f"{_S}sampled_timestamp_seconds", "When the runner looked (Unix time)."),
    Gauge("window_s", f"{_S}window_seconds", "Length of the window that ends then."),
    _count("nodes", f"{_S}replicas", "Executors that the driver has, by node.", "node"),
    _count("slots", f"{_S}slots", "Tasks that all executors together run at a time."),
    Gauge("input_rate", f"{_S}input_records_per_second", "Records arriving on its topics."),
    Gauge("processed_rate", f"{_S}processed_records_per_second", "Records processed."),
    Gauge("true_rate", f"{_S}true_records_per_second", "Records processed a second spent in batches."),
    _count("lag", f"{_S}lag_records", "Records that arrived and are not processed."),
    _count("lag_by_partition", f"{_S}partition_lag_records", "The same by partition.", "partition"),
    Gauge("lag_trend", f"{_S}lag_trend_records_per_second", "Slope of the lag over the window."),
    Gauge("lag_trend_low", f"{_S}lag_trend_low_records_per_second", "Lower end of its 95 % interval."),
    Gauge("lag_trend_high", f"{_S}lag_trend_high_records_per_second", "Upper end of its 95 % interval."),
    _ms("batch_ms", f"{_S}batch_duration_seconds", "Mean duration of the batches that had rows."),
    _ms("batch_split_ms", f"{_S}batch_phase_duration_seconds", "The same by Spark's phases.", "phase"),
    Gauge("batch_rows", f"{_S}batch_records", "Mean rows of those batches."),
    _count("max_rows", f"{_S}batch_limit_records", "Largest batch that the freshness bound allows."),
    Gauge("busyness", f"{_S}busy_ratio", "Executor run time over slots times wall time."),
    _count("state_rows", f"{_S}state_rows", "Rows that stateful operators keep."),
    _count("state_bytes", f"{_S}state_bytes", "Memory that these take."),
    Gauge("watermark_delay_s", f"{_S}watermark_delay_seconds", "How far the watermark is behind the clock."),
    Gauge("newest_batch_at_s", f"{_S}newest_batch_timestamp_seconds", "When the newest batch ended."),
)

_N = "fogctl_node_"
NODE = (
    Gauge("at_s", f"{_N}sampled_timestamp_seconds", "When the exporter looked (Unix time)."),
    Gauge("window_s", f"{_N}window_seconds", "Length of the window that ends then."),
    Gauge("cpu_used_cores", f"{_N}cpu_used_cores", "CPU used, in cores."),
    Gauge(
        "cpu_used_by_part", f"{_N}part_cpu_used_cores", "The same by part: a replica's is APP-STAGE.", "part"
    ),
    Gauge("cpu_quota_cores", f"{_N}cpu_quota_cores", "CPU it may use; absent without a limit."),
    Gauge("cpu_throttled", f"{_N}cpu_throttled_ratio", "Share of scheduler periods it was held back in."),
    _count("memory_bytes", f"{_N}memory_bytes", "Memory used, page cache included."),
    _count("memory_limit_bytes", f"{_N}memory_limit_bytes", "Memory it may use; absent without a limit."),
    Gauge("pressure", f"{_N}pressure_ratio", "Share of time some task waited for a resource.", "resource"),
)


def stage_families(metrics: Iterable[StageMetrics]) -> Iterator[GaugeMetricFamily]:
    """Stages as Prometheus' metric families."""
    return _families(STAGE, {(each.app, each.stage): each for each in metrics}, ("app", "stage"))


def node_families(metrics: Iterable[NodeMetrics]) -> Iterator[GaugeMetricFamily]:
    """Nodes as Prometheus' metric families."""
    return _families(NODE, {(each.node,): each for each in metrics}, ("node",))


def read_stages(samples: Iterable[Sample]) -> tuple[StageMetrics, ...]:
    """The inverse of `stage_families`; a stage of which something is missing is left out."""
    found = _read(STAGE, samples, ("app", "stage"))
    stages = []
    for (app, stage), values in sorted(found.items()):
        values["nodes"] = tuple(sorted(Counter(values.get("nodes", {})).elements()))
        if _complete(StageMetrics, values, {"app", "stage"}):
            stages.append(StageMetrics(app=app, stage=stage, **values))
    return tuple(stages)


def read_nodes(samples: Iterable[Sample]) -> tuple[NodeMetrics, ...]:
    """The inverse of `node_families`; a node of which something is missing is left out."""
    found = _read(NODE, samples, ("node",))
    nodes = []
    for (node,), values in found.items():
        values.setdefault("cpu_quota_cores", None)
        values.setdefault("memory_limit_bytes", None)
        if _complete(NodeMetrics, values, {"node"}):
            nodes.append(NodeMetrics(node=node, **values))
    return tuple(sorted(nodes, key=lambda each: each.node))


def _families(
    table: Iterable[Gauge], metrics: Mapping[tuple[str, ...], Any], labels: tuple[str, ...]
) -> Iterator[GaugeMetricFamily]:
    for gauge in table:
        family = GaugeMetricFamily(
            gauge.name, gauge.help, labels=[*labels, *([gauge.label] if gauge.label else [])]
        )
        for owner, each in metrics.items():
            value = getattr(each, gauge.field)
            if gauge.label is not None:
                parts = Counter(value) if isinstance(value, tuple) else value
                for part, number in parts.items():
                    family.add_metric([*owner, part], gauge.out(number))
            elif value is not None:
                family.add_metric([*owner], gauge.out(value))
        yield family


def _read(
    table: Iterable[Gauge], samples: Iterable[Sample], labels: tuple[str, ...]
) -> dict[tuple[str, ...], dict[str, Any]]:
    by_name = {gauge.name: gauge for gauge in table}
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for sample in samples:
        gauge = by_name.get(sample.name)
        if gauge is None:
            continue
        values = found.setdefault(tuple(sample.labels[label] for label in labels), {})
        if gauge.label is not None:
            values.setdefault(gauge.field, {})[sample.labels[gauge.label]] = gauge.back(sample.value)
        else:
            values[gauge.field] = gauge.back(sample.value)
    for values in found.values():
        for gauge in table:
            if gauge.label is not None:
                values.setdefault(gauge.field, {})
    return found


def _complete(kind: type, values: Mapping[str, Any], given: set[str]) -> bool:
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    return needed <= values.keys() | given
