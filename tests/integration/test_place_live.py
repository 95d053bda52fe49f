"""An app placed by the model on emulated nodes, and profiled under load: real Kafka, real Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from live_testbed import Fogctl, Replay, SharedTestbed, Tell, eventually, ok

from fogctl.placement.profile import read_profile
from fogctl.runtime.operate import Apps
from fogctl.testbed.running import Running

pytestmark = pytest.mark.timeout(900)
NODES = (
    '{name: "near[1-3]", role: edge, site: field, board: rpi4-2g}',
    "{name: far, role: edge, site: abroad, board: rpi4-2g}",
)
STAGES = ("parse", "measure", "choose")
PLACED = ("app", "deploy", "taxi3", "--set", "measure.work=300000", "--place", "auto")
"""With 15 ms of work a record in one stage, far more than its part of what a batch costs by itself."""


@pytest.fixture
def bed(shared_testbed: SharedTestbed) -> Running:
    return shared_testbed.running


@pytest.fixture
def fogctl(shared_testbed: SharedTestbed) -> Fogctl:
    return shared_testbed.fogctl


def executors(bed: Running) -> dict[str, list[str]]:
    """The nodes of each stage, as its driver says; none while it does not answer."""
    return {
        stage["stage"]: [executor["node"] for executor in stage["executors"]]
        for stage in Apps.on(bed).status("taxi3")["stages"]
    }


def processed(bed: Running) -> list[int]:
    """Records that each stage's newest batch has behind it."""
    return [
        sum(sum(ends.values()) for source in last["sources"] for ends in source["endOffset"].values())
        if (last := stage["last"])
        else 0
        for stage in Apps.on(bed).status("taxi3")["stages"]
    ]


def test_an_app_runs_where_the_plan_says_and_its_profile_tells_which_stage_is_heavy(
    fogctl: Fogctl, fogctl_argv: list[str], bed: Running, shared_testbed: SharedTestbed, tell: Tell
) -> None:
    folder: Path = shared_testbed.folder
    ok(fogctl("net", "set", "cloud", "far", "--rtt", "150ms"))
    refused = fogctl("app", "profile", "taxi3", "--for", "5s")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "taxi3 is not deployed" in refused.stderr

    planned = json.loads(ok(fogctl(*PLACED, "--dry-run", "-o", "json")))
    assert sorted(node for (node,) in planned["nodes"].values()) == ["near1", "near2", "near3"]
    assert Apps.on(bed).deployments() == []
    ok(fogctl(*PLACED))
    eventually(lambda: executors(bed) == planned["nodes"], "every stage is where the plan says")

    idle = fogctl("app", "profile", "taxi3", "--for", "1s", "--to", "idle.json")
    assert idle.returncode == 3
    # Its looks at the ends of the second take time of their own.
    assert re.search(r"parse, measure, choose of taxi3 processed nothing in \d+ s", idle.stderr)
    assert not (folder / "idle.json").exists()

    ok(fogctl("trace", "make", "rides.csv", "--days", "0.02", "--start", "2013-05-01T08:00:00"))
    with Replay(fogctl_argv, folder, "rides.csv", "--app", "taxi3", "--speed", "5"):
        eventually(lambda: all(processed(bed)), "every stage processes records")
        said = json.loads(
            ok(fogctl("app", "profile", "taxi3", "--for", "8s", "--to", "taxi3.json", "-o", "json"))
        )
        # A node that is in use has no room for another app: around it, only the far one is left.
        other = json.loads(ok(fogctl("app", "deploy", "taxi", "--place", "auto", "--dry-run", "-o", "json")))
        assert other["nodes"] == {"nearest": ["far"]}
    made = read_profile(folder / "taxi3.json")
    assert made.model_dump(mode="json") == said
    # Longer than asked for only while a stage waits for its first records: at most four times, and a batch.
    assert 8 <= made.window_s < 8 * 4 + 16
    by_name = {stage.stage: stage for stage in made.stages}
    assert tuple(by_name) == STAGES
    for name, stage in by_name.items():
        assert [replica.node for replica in stage.replicas] == planned["nodes"][name]
        assert stage.records_per_s == pytest.approx(stage.records / made.window_s, rel=0.01)
        # Each replica has at most its node's quota, and each record is handed on as a line of text.
        (replica,) = stage.replicas
        assert 0 < replica.cpu_used_cores <= (bed.node(replica.node).cpu_cores or 0) * 1.15
        assert stage.output_records_per_record == pytest.approx(1)
        assert 5 < stage.output_bytes_per_record < 2000
        assert stage.state_bytes_per_record == 0
        assert 0 < stage.busyness <= 1
        tell(
            f"{name}: {stage.records_per_s:.1f} records/s, {stage.cpu_s_per_record * 1000:.2f} CPU ms and "
            f"{stage.output_bytes_per_record:.0f} bytes a record, busy {stage.busyness:.0%}"
        )

    assert by_name["measure"].cpu_s_per_record > 1.3 * by_name["parse"].cpu_s_per_record

    # With the profile, the plan is still about the same nodes, and stays where it is: none is better.
    again = json.loads(ok(fogctl(*PLACED, "--profile", "taxi3.json", "--dry-run", "-o", "json")))
    assert again["nodes"] == planned["nodes"]
    assert again["changes"] == []
