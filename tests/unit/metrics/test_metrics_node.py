"""Node metrics from control group files, version 1, version 2 and a host that has both."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogctl.metrics import groups as node_groups
from fogctl.metrics.groups import NodeGroups, NodeWindows
from fogctl.metrics.node import (
    Periods,
    Reading,
    node_metrics,
    read_cpu_s,
    read_memory_limit,
    read_periods,
    read_quota_cores,
    read_waited_s,
)
from fogctl.testbed.cgroups import Hierarchies, Hierarchy

CPU_STAT_V2 = """usage_usec 9002722
user_usec 7553025
system_usec 1449697
core_sched.force_idle_usec 0
nr_periods 120
nr_throttled 30
throttled_usec 2204333
nr_bursts 0
burst_usec 0
"""
CPU_STAT_V1 = "nr_periods 120\nnr_throttled 30\nthrottled_time 2204333000\nnr_bursts 0\nburst_time 0\n"
CPU_STAT_WITHOUT_CONTROLLER = "usage_usec 9002722\nuser_usec 7553025\nsystem_usec 1449697\nnice_usec 0\n"
PRESSURE = """some avg10=15.02 avg60=12.65 avg300=4.43 total=15904811
full avg10=13.43 avg60=11.27 avg300=3.91 total=14044260
"""


def test_both_versions_of_the_kernels_files_are_read() -> None:
    assert read_cpu_s(CPU_STAT_V2) == read_cpu_s(CPU_STAT_WITHOUT_CONTROLLER) == 9.002722
    assert read_cpu_s("9002722000\n") == 9.002722
    assert read_periods(CPU_STAT_V2) == read_periods(CPU_STAT_V1) == Periods(120, 30)
    assert read_periods(CPU_STAT_WITHOUT_CONTROLLER) == Periods(0, 0)
    assert read_quota_cores(2, "25000 100000\n") == read_quota_cores(1, "25000\n", "100000\n") == 0.25
    assert read_quota_cores(2, "25000 50000\n") == read_quota_cores(1, "25000\n", "50000\n") == 0.5
    assert read_quota_cores(2, "max 100000\n") is read_quota_cores(1, "-1\n", "100000\n") is None
    assert read_memory_limit("max\n") is read_memory_limit("9223372036854771712\n") is None
    assert read_memory_limit("67108864\n") == 64 << 20
    assert read_waited_s(PRESSURE) == 15.904811
    with pytest.raises(ValueError, match="not a pressure file"):
        read_waited_s("")


def write(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


V1_CPU = {"cpu.stat": CPU_STAT_V1, "cpu.cfs_quota_us": "20000\n", "cpu.cfs_period_us": "100000\n"}
V1_MEMORY = {"memory.usage_in_bytes": "1048576\n", "memory.limit_in_bytes": "67108864\n"}
V2 = {
    "cpu.stat": CPU_STAT_V2,
    "cpu.max": "20000 100000\n",
    "memory.current": "1048576\n",
    "memory.max": "67108864\n",
    **{f"{resource}.pressure": PRESSURE for resource in ("cpu", "memory", "io")},
}


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Hierarchies]:
    """The same node and its part on hosts with version 1 only, with both, and with version 2 only."""
    v1 = {name: Hierarchy(str(tmp_path / name), 1) for name in ("cpu", "memory", "cpuacct")}
    bare, unified = Hierarchy(str(tmp_path / "bare"), 2), Hierarchy(str(tmp_path / "unified"), 2)
    for below in ("fog-city/pi1", "fog-city/pi1/taxi-nearest"):
        write(tmp_path / "cpu" / below, V1_CPU)
        write(tmp_path / "memory" / below, V1_MEMORY)
        write(tmp_path / "cpuacct" / below, {"cpuacct.usage": "9002722000\n"})
        pressure = {name: text for name, text in V2.items() if name.endswith("pressure")}
        write(tmp_path / "bare" / below, {"cpu.stat": CPU_STAT_WITHOUT_CONTROLLER, **pressure})
        write(tmp_path / "unified" / below, V2)
    write(tmp_path / "pressure", dict.fromkeys(("cpu", "memory", "io"), PRESSURE))
    monkeypatch.setattr(node_groups, "HOST_PRESSURE", str(tmp_path / "pressure"))
    return {
        "v1": Hierarchies(v1["cpu"], v1["memory"], v1["cpuacct"]),
        "both": Hierarchies(v1["cpu"], v1["memory"], bare),
        "v2": Hierarchies(unified, unified, unified),
    }


@pytest.mark.parametrize("kind", ["v1", "both", "v2"])
def test_a_node_reads_the_same_on_every_kind_of_host(trees: dict[str, Hierarchies], kind: str) -> None:
    reading = NodeGroups("city", trees[kind]).read("pi1")
    assert reading is not None
    prefix = "host_" if kind == "v1" else ""
    expected = Reading(
        at_s=reading.at_s,
        cpu_s=9.002722,
        quota_cores=0.2,
        memory_bytes=1 << 20,
        memory_limit_bytes=64 << 20,
        periods={"": Periods(120, 30), "taxi-nearest": Periods(120, 30)},
        cpu_s_by_part={"taxi-nearest": 9.002722},
        waited_s={f"{prefix}{resource}": 15.904811 for resource in ("cpu", "memory", "io")},
    )
    assert reading == expected


def test_a_node_that_is_gone_is_left_out_and_forgotten(trees: dict[str, Hierarchies]) -> None:
    windows = NodeWindows(NodeGroups("city", trees["v2"]), ["pi1", "pi2"])
    windows.look()
    assert [each.node for each in windows.metrics(30)] == ["pi1"]
    Path(trees["v2"].used[0].group("fog-city", "pi1", "cpu.stat")).unlink()
    windows.look()
    assert windows.metrics(30) == ()


@given(
    times=st.lists(st.floats(0, 100), min_size=2, max_size=20, unique=True).map(sorted),
    used=st.lists(st.floats(0, 3), min_size=20, max_size=20),
    held=st.lists(st.integers(0, 10), min_size=20, max_size=20),
    window=st.floats(1, 100),
)
def test_rates_are_sums_over_the_readings_in_the_window(
    times: list[float], used: list[float], held: list[int], window: float
) -> None:
    # What happened between each reading and the one before: CPU seconds, and of 10 periods those held back.
    readings = [
        Reading(
            at,
            sum(used[: n + 1]),
            0.5,
            7,
            None,
            {"": Periods(10 * n, 0), "a": Periods(10 * n, sum(held[:n]))},
        )
        for n, at in enumerate(times)
    ]
    found = node_metrics("pi1", readings, window)
    inside = [n for n, at in enumerate(times) if at >= times[-1] - window]
    passed = times[-1] - times[inside[0]]
    assert found.window_s == passed
    if len(inside) > 1:
        assert found.cpu_used_cores == pytest.approx(sum(used[n] for n in inside[1:]) / passed)
        between = [held[n - 1] for n in inside[1:]]
        assert found.cpu_throttled == pytest.approx(sum(between) / (10 * len(between)))
    else:
        assert (found.cpu_used_cores, found.cpu_throttled) == (0, 0)


def test_a_node_that_was_made_anew_has_no_negative_rates() -> None:
    before = Reading(0, 50, None, 7, None, {"": Periods(10, 5)}, {"main": 50.0}, {"cpu": 9.0})
    after = dataclasses.replace(
        before,
        at_s=10,
        cpu_s=1,
        periods={"": Periods(2, 1)},
        cpu_s_by_part={"main": 1.0},
        waited_s={"cpu": 0.0},
    )
    found = node_metrics("pi1", [before, after], 30)
    assert (found.cpu_used_cores, found.cpu_throttled) == (0, 0)
    assert (found.pressure, found.cpu_used_by_part) == ({"cpu": 0}, {"main": 0})
