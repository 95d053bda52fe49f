"""What is exposed can be read back to the last bit, from the text that Prometheus scrapes."""

from __future__ import annotations

import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from fogctl.metrics.exposition import (
    NODE,
    STAGE,
    Sample,
    node_families,
    read_nodes,
    read_stages,
    stage_families,
)
from fogctl.metrics.http import _Collector
from fogctl.metrics.values import (
    NodeMetrics,
    StageMetrics,
    node_from_json,
    node_to_json,
    stage_from_json,
    stage_to_json,
)

numbers = st.floats(0, 1e12)
counts = st.integers(0, 2**53)
milliseconds = st.integers(0, 10**10).map(lambda us: round(us / 1000, 3))
words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
stages = st.builds(
    StageMetrics,
    app=st.just("taxi"),
    stage=words,
    at_s=numbers,
    nodes=st.lists(words, max_size=4).map(lambda found: tuple(sorted(found))),
    slots=counts,
    input_rate=numbers,
    processed_rate=numbers,
    lag=counts,
    lag_by_partition=st.dictionaries(words, counts, max_size=5),
    lag_trend=st.floats(-1e9, 1e9),
    batch_ms=milliseconds,
    batch_split_ms=st.dictionaries(words, milliseconds, max_size=5),
    batch_rows=numbers,
    max_rows=counts,
    busyness=st.floats(0, 1),
    true_rate=numbers,
    state_rows=counts,
    state_bytes=counts,
    watermark_delay_s=st.none() | numbers,
    window_s=numbers,
    lag_trend_low=st.floats(-1e9, 1e9),
    lag_trend_high=st.floats(-1e9, 1e9),
    newest_batch_at_s=st.none() | numbers,
)
nodes = st.builds(
    NodeMetrics,
    node=words,
    at_s=numbers,
    cpu_used_cores=numbers,
    cpu_quota_cores=st.none() | numbers,
    cpu_throttled=st.floats(0, 1),
    memory_bytes=counts,
    memory_limit_bytes=st.none() | counts,
    pressure=st.dictionaries(words, st.floats(0, 1), max_size=3),
    cpu_used_by_part=st.dictionaries(words, numbers, max_size=3),
    window_s=numbers,
)


def scraped(collector: _Collector) -> list[Sample]:
    """The samples as Prometheus would read them from the page."""
    registry = CollectorRegistry()
    registry.register(collector)
    text = generate_latest(registry).decode()
    return [
        Sample(sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


@settings(max_examples=60, deadline=None)
@given(found=st.lists(stages, max_size=3, unique_by=lambda each: each.stage))
def test_stages_come_back_from_the_page_to_the_last_bit(found: list[StageMetrics]) -> None:
    read = read_stages(scraped(_Collector(lambda: stage_families(found))))
    assert read == tuple(sorted(found, key=lambda each: each.stage))
    for each in found:
        assert stage_from_json(json.loads(json.dumps(stage_to_json(each)))) == each


@settings(max_examples=60, deadline=None)
@given(found=st.lists(nodes, max_size=3, unique_by=lambda each: each.node))
def test_nodes_come_back_from_the_page_to_the_last_bit(found: list[NodeMetrics]) -> None:
    read = read_nodes(scraped(_Collector(lambda: node_families(found))))
    assert read == tuple(sorted(found, key=lambda each: each.node))
    for each in found:
        assert node_from_json(json.loads(json.dumps(node_to_json(each)))) == each


def test_a_stage_that_was_scraped_in_part_is_left_out() -> None:
    labels = {"app": "taxi", "stage": "nearest"}
    assert read_stages([Sample("fogctl_stage_slots", labels, 3), Sample("up", labels, 1)]) == ()
    assert read_nodes([Sample("fogctl_node_memory_bytes", {"node": "pi1"}, 3)]) == ()


def test_every_field_is_exposed_once_with_its_unit_in_the_name() -> None:
    units = (
        "_seconds",
        "_bytes",
        "_ratio",
        "_cores",
        "_records",
        "_per_second",
        "_rows",
        "_slots",
        "_replicas",
    )
    for kind, table, owner in ((StageMetrics, STAGE, {"app", "stage"}), (NodeMetrics, NODE, {"node"})):
        assert {gauge.field for gauge in table} | owner == set(kind.__dataclass_fields__)
        assert len({gauge.name for gauge in table}) == len(table)
        for gauge in table:
            assert gauge.name.endswith(units), gauge.name


def test_seconds_and_milliseconds_do_not_drift() -> None:
    gauge = next(gauge for gauge in STAGE if gauge.field == "batch_ms")
    for microseconds in (0, 1, 333, 1001, 123456789, 10**12 + 1):
        value = round(microseconds / 1000, 3)
        assert gauge.back(gauge.out(value)) == value
        assert math.isclose(gauge.out(value), microseconds / 1e6)
