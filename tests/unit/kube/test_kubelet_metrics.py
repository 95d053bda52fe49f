"""What a kubelet says becomes a node's metrics, the same whoever carries the numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogctl.kube import kubelet, quantity
from fogctl.kube.kubelet import CPU, HELD_BACK, MEMORY, PERIODS, ROOT, NodeSeries, Point, Series
from fogctl.kube.nodes import read_node

NAMESPACE = "fog-lab"
EXECUTOR = Series(CPU, "/kubepods/burstable/pod1/c1", "taxi-nearest-exec-1")
PARTS = {"taxi-nearest-exec-1": "taxi-nearest"}


def page(at_s: float, node_s: float, executor_s: float, periods: int = 0, held_back: int = 0) -> str:
    """A kubelet's page, with what is ours and what is not."""
    ms = int(at_s * 1000)
    ours = (
        'container="executor",id="/kubepods/burstable/pod1/c1",image="i",name="c1",'
        f'namespace="{NAMESPACE}",pod="taxi-nearest-exec-1"'
    )
    pod = ours.replace("executor", "").replace("/c1", "")
    theirs = 'container="dns",id="/kubepods/pod2/c2",image="i",name="c2",namespace="kube-system",pod="dns-1"'
    root = 'container="",id="/",image="",name="",namespace="",pod=""'
    return f"""# HELP {CPU} Cumulative cpu time consumed in seconds.
# TYPE {CPU} counter
{CPU}{{{root},cpu="total"}} {node_s} {ms}
{CPU}{{{pod},cpu="total"}} {executor_s} {ms}
{CPU}{{{ours},cpu="total"}} {executor_s} {ms}
{CPU}{{{theirs},cpu="total"}} 777 {ms}
# TYPE {PERIODS} counter
{PERIODS}{{{ours}}} {periods} {ms}
{HELD_BACK}{{{ours}}} {held_back} {ms}
# TYPE {MEMORY} gauge
{MEMORY}{{{root}}} 3.5e+08 {ms}
container_pressure_cpu_waiting_seconds_total{{{root}}} {node_s / 10} {ms}
machine_memory_bytes{{boot_id="b",machine_id="m"}} 1e+09
container_fs_usage_bytes{{{ours}}} 12 {ms}
"""


def seen(*pages: str) -> NodeSeries:
    """What the pages told, one after the other."""
    found = NodeSeries()
    for text in pages:
        found.add(kubelet.of_page(text, NAMESPACE))
    return found


def test_rates_are_over_the_kubelets_own_looks_and_the_replica_has_its_part() -> None:
    told = seen(page(1000.0, 50.0, 5.0, 100, 10), page(1010.0, 58.0, 10.0, 200, 60))
    found = kubelet.node_metrics("pi1", told, PARTS, 30.0, 3.9, 900_000_000)
    assert found is not None
    assert found.node == "pi1"
    assert found.at_s == 1010.0
    assert found.window_s == 10.0
    assert found.cpu_used_cores == pytest.approx(0.8)
    assert found.cpu_used_by_part == {"taxi-nearest": pytest.approx(0.5)}, "the pod's own group counts twice"
    assert found.cpu_throttled == pytest.approx(0.5)
    assert (found.memory_bytes, found.memory_limit_bytes, found.cpu_quota_cores) == (
        350_000_000,
        900_000_000,
        3.9,
    )
    assert found.pressure == {"cpu": pytest.approx(0.08)}


def test_a_page_that_tells_nothing_new_changes_nothing() -> None:
    once, again = page(1000.0, 50.0, 5.0), page(1010.0, 58.0, 10.0)
    often = seen(once, once, again, again, again)
    few = seen(once, again)
    assert kubelet.node_metrics("pi1", often, PARTS, 30.0) == kubelet.node_metrics("pi1", few, PARTS, 30.0)


def test_what_is_newer_than_the_nodes_own_look_does_not_count_yet() -> None:
    told = seen(page(1000.0, 50.0, 5.0), page(1010.0, 58.0, 10.0))
    before = kubelet.node_metrics("pi1", told, PARTS, 30.0)
    told.add([Point(EXECUTOR, 1013.0, 99.0)])
    assert kubelet.node_metrics("pi1", told, PARTS, 30.0) == before


def test_pods_of_ours_that_are_no_replica_are_the_rest_of_the_node() -> None:
    told = seen(page(1000.0, 50.0, 5.0), page(1010.0, 58.0, 10.0))
    found = kubelet.node_metrics("pi1", told, {}, 30.0)
    assert found is not None
    assert found.cpu_used_by_part == {kubelet.REST: pytest.approx(0.5)}


def test_a_container_that_is_gone_does_not_count_any_more() -> None:
    told = seen(page(1000.0, 50.0, 5.0), page(1010.0, 58.0, 10.0))
    later = 1010.0 + kubelet.GONE_AFTER_S + 1
    told.add([Point(Series(CPU, ROOT), later, 60.0)])
    found = kubelet.node_metrics("pi1", told, PARTS, 300.0)
    assert found is not None
    assert found.cpu_used_by_part == {}


def test_before_the_kubelet_looked_there_is_nothing_and_its_own_rate_serves_the_first_question() -> None:
    assert kubelet.node_metrics("pi1", NodeSeries(), PARTS, 30.0) is None
    cores = kubelet.rate_told({"node": {"cpu": {"usageNanoCores": 400_000_000}}})
    assert cores == pytest.approx(0.4)
    for counted_s in (50.0, 1.0):
        told = NodeSeries()
        points = list(kubelet.of_page(page(1000.0, counted_s, 0.5), NAMESPACE))
        told.add(kubelet.before_first(points, cores))
        told.add(points)
        found = kubelet.node_metrics("pi1", told, PARTS, 30.0)
        assert found is not None
        assert found.cpu_used_cores == pytest.approx(0.4)


SUMMARY_OF_A_YOUNG_KUBELET = {
    "node": {
        "nodeName": "pi1",
        "startTime": "2026-05-01T08:00:00Z",
        "cpu": {"time": "2026-05-01T08:00:03Z", "usageCoreNanoSeconds": 50_000_000_000},
        "memory": {"time": "2026-05-01T08:00:03Z", "workingSetBytes": 350_000_000},
    },
    "pods": [],
}
"""What `/stats/summary` is until the kubelet has looked twice: how much in all, but no `usageNanoCores`."""


def test_a_kubelet_that_has_looked_once_tells_no_rate() -> None:
    zero = {"node": {"cpu": {"usageNanoCores": 0}}}
    for young in ({}, {"node": {}}, {"node": {"cpu": None}}, zero, SUMMARY_OF_A_YOUNG_KUBELET):
        assert kubelet.rate_told(young) is None


def test_what_a_node_uses_is_not_known_after_one_look_and_is_never_taken_for_idle() -> None:
    found = kubelet.node_metrics("pi1", seen(page(1000.0, 50.0, 5.0, 100, 10)), PARTS, 30.0, 3.9, 900_000_000)
    assert found is not None, "it answers, so it is not lost"
    assert found.cpu_used_cores is None
    assert (found.cpu_used_by_part, found.pressure, found.window_s) == ({}, {}, 0.0)
    assert (found.memory_bytes, found.memory_limit_bytes, found.cpu_quota_cores) == (
        350_000_000,
        900_000_000,
        3.9,
    )


def test_a_replica_that_was_looked_at_once_is_not_known_though_its_node_is() -> None:
    told = seen(page(1000.0, 50.0, 5.0), page(1010.0, 58.0, 10.0))
    told.add([Point(Series(CPU, "/kubepods/burstable/pod3/c3", "taxi-sums-exec-1"), 1009.0, 0.1)])
    found = kubelet.node_metrics("pi1", told, {**PARTS, "taxi-sums-exec-1": "taxi-sums"}, 30.0)
    assert found is not None
    assert found.cpu_used_by_part == {"taxi-nearest": pytest.approx(0.5)}
    assert found.cpu_used_cores == pytest.approx(0.8)


@pytest.mark.parametrize("window_s", [1.0, 5.0, 10.0])
def test_a_window_shorter_than_the_kubelets_own_still_tells_what_was_used(window_s: float) -> None:
    told = seen(page(1000.0, 50.0, 5.0), page(1015.0, 62.0, 11.0), page(1030.0, 74.0, 17.0))
    found = kubelet.node_metrics("pi1", told, PARTS, window_s)
    assert found is not None
    assert found.cpu_used_cores == pytest.approx(0.8)
    assert found.cpu_used_by_part == {"taxi-nearest": pytest.approx(0.4)}
    assert found.window_s == 15.0


def test_a_board_that_was_started_again_is_not_known_rather_than_idle() -> None:
    told = seen(page(1000.0, 50.0, 5.0), page(1010.0, 58.0, 10.0), page(1020.0, 2.0, 0.5))
    found = kubelet.node_metrics("pi1", told, PARTS, 30.0)
    assert found is not None
    assert (found.cpu_used_cores, found.cpu_used_by_part) == (None, {})
    told.add(kubelet.of_page(page(1030.0, 8.0, 4.5), NAMESPACE))
    after = kubelet.node_metrics("pi1", told, PARTS, 30.0)
    assert after is not None
    assert after.cpu_used_cores == pytest.approx(0.6)
    assert after.cpu_used_by_part == {"taxi-nearest": pytest.approx(0.4)}


@given(
    st.lists(st.tuples(st.floats(0.5, 30.0), st.floats(0.0, 20.0)), min_size=1, max_size=20),
    st.floats(1.0, 120.0),
)
def test_the_rate_is_what_was_used_over_the_window_whatever_the_looks(
    steps: list[tuple[float, float]], window_s: float
) -> None:
    at_s, used_s = 1000.0, 10.0
    told, points = NodeSeries(), []
    for pause, spent in [(0.0, 0.0), *steps]:
        at_s, used_s = at_s + pause, used_s + spent
        points.append((at_s, used_s))
        told.add([Point(Series(CPU, ROOT), at_s, used_s)])
    found = kubelet.node_metrics("pi1", told, {}, window_s)
    assert found is not None
    inside = [point for point in points if point[0] >= at_s - window_s or point in points[-2:]]
    passed = at_s - inside[0][0]
    assert found.window_s == pytest.approx(passed)
    assert found.cpu_used_cores == pytest.approx((used_s - inside[0][1]) / passed)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4", 4.0),
        ("3900m", 3.9),
        ("1Ki", 1024.0),
        ("1.5Gi", 1.5 * 2**30),
        ("2e3", 2000.0),
        ("12M", 12e6),
        ("0", 0.0),
    ],
)
def test_amounts_are_read_as_kubernetes_writes_them(text: str, number: float) -> None:
    assert quantity.parse(text) == pytest.approx(number)


@pytest.mark.parametrize("text", ["", "m", "four", "1 Gi", "nan", "Infinity"])
def test_what_is_no_amount_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not an amount"):
        quantity.parse(text)


def test_a_node_that_stopped_reporting_says_why() -> None:
    manifest = {
        "metadata": {"name": "pi1"},
        "spec": {"unschedulable": True},
        "status": {
            "allocatable": {"cpu": "3900m", "memory": "900Mi"},
            "conditions": [
                {"type": "MemoryPressure", "status": "Unknown"},
                {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."},
            ],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.11"}],
            "nodeInfo": {"kernelVersion": "6.6.31", "machineID": "secret"},
        },
    }
    found = read_node(manifest)
    assert (found.ready, found.why, found.cordoned) == (False, "Kubelet stopped posting node status", True)
    assert (found.cpu_cores, found.memory_bytes) == (3.9, 900 << 20)
    assert (found.address, found.system) == ("10.0.0.11", {"kernelVersion": "6.6.31"})
    young = read_node({"metadata": {"name": "pi1"}})
    assert (young.ready, young.cpu_cores) == (False, None)
