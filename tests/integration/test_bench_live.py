"""A scalability benchmark of a real app on emulated nodes: what it sustains, and what it does not."""

from __future__ import annotations

import json

import pytest
from live_testbed import SharedTestbed, ok

from fogctl.runtime.operate import Apps

pytestmark = [pytest.mark.timeout(900), pytest.mark.alone]
NODES = ('{name: "pi1", role: edge, site: field, board: rpi4-2g}',)
BENCHMARK = """
name: live
system:
  live: {app: nexmark-q1, options: {q1: {work: 20000}}}
load: {by: rate}
"""
# A core of an emulated Pi 4 has CPU for some 150 of these records a second.
EXECUTION = """
benchmark: benchmark.yaml
loads: [20, 1500]
resources: [1]
warm_up: 10s
duration: 18s
"""


def test_a_light_load_is_sustained_and_a_heavy_one_is_not(shared_testbed: SharedTestbed) -> None:
    folder, fogctl = shared_testbed.folder, shared_testbed.fogctl
    (folder / "benchmark.yaml").write_text(BENCHMARK)
    (folder / "execution.yaml").write_text(EXECUTION)
    found = json.loads(ok(fogctl("bench", "run", "execution.yaml", "-o", "json", timeout=800)))
    lines = (folder / "bench-live" / "experiments.jsonl").read_text().splitlines()
    assert [each["answer"] for each in found["answers"]] == [1, None], lines
    assert Apps.on(shared_testbed.running).deployments() == []
    # Nothing is measured twice: this answers from what was kept, at once.
    assert json.loads(ok(fogctl("bench", "run", "execution.yaml", "-o", "json"))) == found


def test_more_replicas_than_nodes_are_refused(shared_testbed: SharedTestbed) -> None:
    folder, fogctl = shared_testbed.folder, shared_testbed.fogctl
    (folder / "benchmark.yaml").write_text(BENCHMARK)
    (folder / "many.yaml").write_text(EXECUTION.replace("[1]", "[1, 2]"))
    refused = fogctl("bench", "run", "many.yaml", "--to", "many")
    assert refused.returncode == 2
    assert "2 replicas need as many nodes, and there are 1" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_the_highest_rate_that_is_sustained_is_measured(shared_testbed: SharedTestbed) -> None:
    phases = ("--warm-up", "15", "--cool-down", "4", "--ramp-up", "6", "--observe", "15", "--trials", "3")
    found = json.loads(
        ok(
            shared_testbed.fogctl(
                *("plan", "measure", "nexmark-q1", "--set", "q1.work=20000", "--first-rate", "200"),
                *(*phases, "-o", "json"),
                timeout=800,
            )
        )
    )
    sustained = [trial for trial in found["trials"] if trial["sustained"]]
    too_much = [trial["rate_per_s"] for trial in found["trials"] if not trial["sustained"]]
    assert found["mst"] == max(trial["achieved_per_s"] for trial in sustained), found["trials"]
    assert 10 < found["mst"] < min(too_much, default=float("inf")), found["trials"]
    assert len(found["trials"]) <= 3
    (stage,) = sustained[0]["stages"]
    assert 0 < stage["busyness"] <= 1
    assert Apps.on(shared_testbed.running).deployments() == []
