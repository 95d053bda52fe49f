"""Metrics of real nodes from real control groups, whichever version this kernel has."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fognetem import LatencyMatrix

from fogctl.metrics.direct import DirectReader
from fogctl.metrics.groups import NodeGroups
from fogctl.metrics.node import node_metrics
from fogctl.metrics.values import NodeMetrics
from fogctl.testbed import model
from fogctl.testbed.model import Kind, Node, Role
from fogctl.testbed.running import Running
from fogctl.testbed.virtual import Virtual

QUOTA_CORES = 0.20
MEMORY_BYTES = 96 << 20
PART = "app-stage"
BUSY = "held = bytearray(b'x') * (16 << 20)\nprint('ready', flush=True)\nwhile True: pass"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    nodes = (
        Node("cloud", Role.control, "dc", "host", None, None),
        Node("pi1", Role.edge, "north", "rpi4-4g", QUOTA_CORES, MEMORY_BYTES),
        Node("pi2", Role.edge, "north", "rpi4-4g", QUOTA_CORES, MEMORY_BYTES),
    )
    testbed = model.Testbed(
        f"t{os.getpid()}metrics", Kind.virtual, nodes, LatencyMatrix(("cloud", "pi1", "pi2"), ())
    )
    made = Virtual(testbed, tmp_path_factory.mktemp("state") / "fogctl")
    made.up()
    yield made.running
    made.down()


@pytest.fixture
def busy(running: Running) -> Iterator[subprocess.Popen[str]]:
    """A part of pi1 that computes and holds 16 MiB, until the test is over."""
    running.add_part("pi1", PART)
    argv = running.exec_argv("pi1", [sys.executable, "-c", BUSY], PART)
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    yield child
    child.kill()
    child.wait()
    running.remove_part("pi1", PART)


def of(nodes: tuple[NodeMetrics, ...], name: str) -> NodeMetrics:
    return next(node for node in nodes if node.node == name)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_busy_node_shows_what_its_process_used_and_its_idle_neighbour_nothing(
    running: Running, busy: subprocess.Popen[str]
) -> None:
    reader = DirectReader(running)
    groups = NodeGroups(running.testbed.name, running.hierarchies)
    # Its process's own account right before and right after each look: time may pass between the two.
    first_s, before, second_s = cpu_s(busy.pid), groups.read("pi1"), cpu_s(busy.pid)
    reader.nodes()
    time.sleep(3)
    third_s, after, fourth_s = cpu_s(busy.pid), groups.read("pi1"), cpu_s(busy.pid)
    assert before is not None
    assert after is not None
    found = node_metrics("pi1", [before, after], 60)

    # The process's own account, which the kernel keeps elsewhere, in ticks of 10 ms.
    used_s = found.cpu_used_cores * found.window_s
    assert third_s - second_s - 0.1 <= used_s <= fourth_s - first_s + 0.1
    assert found.cpu_used_by_part[PART] == pytest.approx(found.cpu_used_cores, rel=0.05)
    assert found.cpu_quota_cores == QUOTA_CORES
    assert found.cpu_throttled > 0
    assert 16 << 20 < found.memory_bytes <= MEMORY_BYTES
    assert found.memory_limit_bytes == MEMORY_BYTES
    assert all(0 <= share <= 1 for share in found.pressure.values())
    if Path("/proc/pressure/cpu").exists():
        assert set(found.pressure) in ({"cpu", "memory", "io"}, {"host_cpu", "host_memory", "host_io"})
        # Held back by its quota is waiting for the processor.
        assert found.pressure.get("cpu", found.pressure.get("host_cpu", 0)) > 0

    seen = reader.nodes()
    assert [node.node for node in seen] == ["cloud", "pi1", "pi2"]
    assert of(seen, "pi1").cpu_used_cores > of(seen, "pi2").cpu_used_cores
    assert of(seen, "pi2").cpu_used_cores < 0.05
    assert of(seen, "cloud").cpu_quota_cores is None
    assert of(seen, "cloud").memory_limit_bytes is None


def test_a_lifted_quota_and_a_share_show_at_once(running: Running) -> None:
    reader = DirectReader(running)
    running.set_share("pi2", None)
    assert of(reader.nodes(), "pi2").cpu_quota_cores is None
    running.set_share("pi2", 0.5)
    assert of(reader.nodes(), "pi2").cpu_quota_cores == pytest.approx(QUOTA_CORES / 2)
    running.set_share("pi2", 1)


def test_a_part_that_is_held_back_by_its_own_share_shows_on_the_node(
    running: Running, busy: subprocess.Popen[str]
) -> None:
    running.set_share("pi1", None)
    running.set_share("pi1", 0.2, PART)
    try:
        groups = NodeGroups(running.testbed.name, running.hierarchies)
        # What was granted before may still be used up; what is overdrawn in one period is paid back later.
        time.sleep(1)
        before = groups.read("pi1")
        time.sleep(6)
        after = groups.read("pi1")
        assert before is not None
        assert after is not None
        found = node_metrics("pi1", [before, after], 60)
        assert found.cpu_throttled > 0
        assert found.cpu_used_by_part[PART] < QUOTA_CORES * 0.2 * 1.5
    finally:
        running.set_share("pi1", 1)
