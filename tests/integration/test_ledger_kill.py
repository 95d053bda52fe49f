"""kill -9 at any point of `up` or `down`, then `down`: the host is as it was before."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from fognetem import LatencyMatrix
from fognetem import Path as NetworkPath

from fogctl.testbed import latency, model, state
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.model import Kind, Node, Role
from fogctl.testbed.virtual import Virtual, take_down

RANDOM_POINTS = 10
LEDGER_POINTS = 40
DOWN_POINTS = 10
FEWER = 5
"""An emulated processor needs ten to thirty times as long: there, every fifth point."""
SLOW_UP_CPU_S = 3.0

Snapshot = Callable[[], dict[str, object]]

pytestmark = pytest.mark.alone


@pytest.fixture
def small(name: str, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> model.Testbed:
    """Two nodes with every kind of step: limits, latencies, names."""
    nodes = (
        Node("cloud", Role.control, "dc", "host", None, None),
        Node("pi1", Role.edge, "north", "rpi4-4g", 0.1, 64 << 20),
    )
    latencies = LatencyMatrix.uniform(["cloud", "pi1"], NetworkPath(10))
    testbed = model.Testbed(name, Kind.virtual, nodes, latencies)
    # Trying the backends changes nothing and takes most of the time: once for all points is enough.
    chosen = latency.choose(testbed, str(state_dir / name / "net"), LinuxHost())
    monkeypatch.setattr(latency, "choose", lambda *_: chosen)
    return testbed


def in_child(act: Callable[[], object]) -> int:
    """Run it in a forked process, which can be killed like a fogctl of its own; answers its pid."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def kill_when(condition: Callable[[], bool], pid: int) -> bool:
    """Kill a child as soon as the condition holds; answers whether it lived until then."""
    while not condition():
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        time.sleep(0.0002)
    os.kill(pid, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def points(wanted: int, up_cpu_s: float) -> int:
    """How many points to kill at, given the CPU time of one whole `up`, which neighbours do not change."""
    return wanted if up_cpu_s < SLOW_UP_CPU_S else wanted // FEWER


def children_cpu_s() -> float:
    """CPU time of all children that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def lines(ledger: Path) -> int:
    try:
        return ledger.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


@pytest.mark.timeout(900)
def test_killed_up_leaves_nothing_behind_after_down(
    small: model.Testbed, state_dir: Path, snapshot: Snapshot
) -> None:
    folder = state.StateFolder.of(small.name, state_dir)
    before = snapshot()
    idle_cpu_s = children_cpu_s()
    assert os.waitpid(in_child(lambda: Virtual(small).up()), 0)[1] == 0
    wanted_points = points(LEDGER_POINTS, children_cpu_s() - idle_cpu_s)
    whole = lines(folder.ledger)
    assert snapshot() != before, "the picture does not show a testbed at all"
    take_down(folder, LinuxHost())
    assert snapshot() == before
    killed = 0
    for point in range(wanted_points):
        wanted = 1 + point * whole // wanted_points
        pid = in_child(lambda: Virtual(small).up())
        killed += kill_when(lambda wanted=wanted: lines(folder.ledger) >= wanted, pid)  # type: ignore[misc]
        if point % 3 == 0 and folder.ledger.exists():
            folder.ledger.write_bytes(folder.ledger.read_bytes() + b'{"step": "AddNamesp')
        take_down(folder, LinuxHost())
        assert snapshot() == before, f"killed at ledger line {wanted} of {whole}"
    assert killed >= wanted_points - 3, "most of the children ended before they were killed"


@pytest.mark.timeout(900)
def test_fogctl_up_killed_at_random_moments_leaves_nothing_behind_after_fogctl_down(
    fogctl: Callable[..., subprocess.CompletedProcess[str]],
    fogctl_argv: list[str],
    testbed_file: Callable[..., Path],
    name: str,
    snapshot: Snapshot,
) -> None:
    file = testbed_file(pis=1)
    before = snapshot()
    started, idle_cpu_s = time.monotonic(), children_cpu_s()
    assert fogctl("up").returncode == 0
    duration_s = time.monotonic() - started
    wanted_points = points(RANDOM_POINTS, children_cpu_s() - idle_cpu_s)
    assert fogctl("down").returncode == 0
    assert snapshot() == before
    moments = random.Random(name)
    for _ in range(wanted_points):
        delay_s = moments.uniform(0.3, 1.0) * duration_s
        child = subprocess.Popen(
            [*fogctl_argv, "up"], cwd=file.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(delay_s)
        child.kill()
        child.wait()
        done = fogctl("down")
        assert done.returncode == 0, done.stderr
        assert snapshot() == before, f"killed after {delay_s:.3f} s of {duration_s:.3f} s"


@pytest.mark.timeout(900)
def test_killed_down_is_finished_by_the_next_down(
    small: model.Testbed, state_dir: Path, snapshot: Snapshot
) -> None:
    folder = state.StateFolder.of(small.name, state_dir)
    before = snapshot()
    wanted_points, point = DOWN_POINTS, 0
    while point < wanted_points:
        idle_cpu_s = children_cpu_s()
        pid = in_child(lambda: Virtual(small).up())
        assert os.waitpid(pid, 0)[1] == 0
        wanted_points = min(wanted_points, points(DOWN_POINTS, children_cpu_s() - idle_cpu_s))
        whole = lines(folder.ledger)
        wanted = whole + point * whole // wanted_points
        point += 1
        pid = in_child(lambda: take_down(folder, LinuxHost()))
        kill_when(lambda wanted=wanted: lines(folder.ledger) >= wanted or not folder.exists, pid)  # type: ignore[misc]
        take_down(folder, LinuxHost())
        assert snapshot() == before, f"down was killed after {wanted - whole} of {whole} steps"


def test_up_after_a_killed_up_completes_the_testbed(
    small: model.Testbed, state_dir: Path, snapshot: Snapshot
) -> None:
    folder = state.StateFolder.of(small.name, state_dir)
    before = snapshot()
    pid = in_child(lambda: Virtual(small).up())
    assert kill_when(lambda: lines(folder.ledger) >= 12, pid)
    virtual = Virtual(small)
    assert virtual.status().state == "half-built"
    virtual.up()
    assert virtual.status().state == "up"
    virtual.down()
    assert snapshot() == before
