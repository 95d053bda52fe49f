"""A glance of each part of the testbed benchmark: every figure is there and finite, the host clean."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fognetem.choose import kernel_trouble, userspace_trouble

RUNNER = Path(__file__).parents[2] / "benchmarks" / "testbed.py"
RTTS = ("0", "1", "10", "50", "150", "300")
# What each part shows, for every backend where it says {backend}.
EXPECTED = {
    "nodes": ["3 nodes up", "3 nodes down"],
    "rtt": [
        f"{{backend}}, {load}: RTT {rtt} ms, {which} error"
        for load in ("idle", "busy")
        for rtt in RTTS
        for which in ("median", "p99")
    ],
    "tcp": [f"{{backend}}: one TCP connection, RTT {rtt} ms" for rtt in ("0", "20")],
    "packets": [
        "{backend}: UDP flood, received",
        "{backend}: UDP flood, lost",
        "{backend}: highest steady rate",
    ],
    "changes": [
        "{backend}: set, until the backend has it",
        "{backend}: set, with lock, ledger and record",
        "{backend}: packets lost by changes",
        "{backend}: packets reordered by changes",
    ],
    "shares": [
        "share, from call to cgroup file",
        *(f"CPU used at {percent} % of a core" for percent in (50, 20, 10)),
        "longest pause of a light process during 20 share changes",
    ],
}

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def backends() -> list[str]:
    troubles = {"kernel": kernel_trouble(), "userspace": userspace_trouble()}
    working = [backend for backend, trouble in troubles.items() if trouble is None]
    if not working:
        pytest.skip(f"no latency backend works here: {troubles}")
    return working


def traces(name: str) -> list[str]:
    """What a testbed of that name left on the host."""
    # By os.walk, which passes over what others remove meanwhile.
    return [
        str(Path(folder, entry))
        for place in ("/run/netns", "/etc/netns", "/sys/fs/cgroup")
        for folder, folders, files in os.walk(place)
        for entry in (*folders, *files)
        if entry.startswith(f"fog-{name}")
    ]


@pytest.mark.parametrize("part", EXPECTED)
def test_part_gives_every_figure_and_leaves_nothing(part: str, backends: list[str], state_dir: Path) -> None:
    argv = [sys.executable, str(RUNNER), "--quick", "--only", part, "--nodes", "3", "-o", "json"]
    running = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, said = running.communicate()
    # 1: a target was missed, which a test on a busy machine does not judge.
    assert running.returncode in (0, 1), said
    data = json.loads(out)
    assert data["failures"] == {}, said
    expected = [
        text
        for pattern in EXPECTED[part]
        for text in dict.fromkeys(pattern.format(backend=b) for b in backends)
    ]
    rows = {row["what"]: row for row in data["rows"]}
    assert sorted(rows) == sorted(expected)
    for row in rows.values():
        assert math.isfinite(row["ours"]), row
        assert row["ours"] >= 0, row
        assert row["peer"] is None or math.isfinite(row["peer"]), row
    assert traces(f"bench{running.pid}") == []
    assert not state_dir.exists()


def test_terminated_run_takes_its_testbed_down(state_dir: Path) -> None:
    argv = [sys.executable, str(RUNNER), "--quick", "--only", "rtt", "--only", "changes"]
    running = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    # The first figures come when the idle half is done: much is still to do.
    assert running.stderr.readline().startswith("rtt: ")
    assert traces(f"bench{running.pid}") != []
    running.terminate()
    running.communicate(timeout=120)
    assert running.returncode == 143
    assert traces(f"bench{running.pid}") == []
    assert not state_dir.exists()


def test_absent_backend_is_refused_with_the_reason(backends: list[str]) -> None:
    if "kernel" in backends:
        pytest.skip("this kernel offers sch_netem, so there is no backend to refuse")
    argv = [sys.executable, str(RUNNER), "--quick", "--backend", "kernel"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("the kernel backend does not work here: ")
    assert "Traceback" not in done.stderr
