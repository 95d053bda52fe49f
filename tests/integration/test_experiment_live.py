"""An experiment on a real virtual testbed: brought up, watched, audited, scored, told, and nothing left."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.root, pytest.mark.timeout(900)]

TEXT = """\
name: {name}
testbed: {{use: gesscale, nodes: 2}}
app: {{use: taxi, work: 2000, start: {{nearest: [pi1]}}}}
trace:
  make: {{days: 0.01, rides_per_day: 60000, start: "2013-05-01T08:00:00"}}
  speed: 60
policies: [ds2]
guard: {{window: 10s, stale_after: 30s, stabilise: 10s, scale_in_delay: 10s}}
every: 5s
drain: 2min
tolerances: {{rtt: 20ms}}
"""


def test_an_experiment_runs_live_and_leaves_nothing_but_its_folder(
    tmp_path: Path, state_dir: Path, name: str, fogctl_argv: list[str]
) -> None:
    (tmp_path / "experiment.yaml").write_text(TEXT.format(name=name))
    environment = {**os.environ, "FOGCTL_STATE_DIR": str(state_dir)}
    child = subprocess.Popen(
        [*fogctl_argv, "experiment", "run", "experiment.yaml", "-o", "json"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        view = _watched(
            child, [*fogctl_argv, "watch", "--testbed", name, "-o", "json"], environment, tmp_path
        )
        # The broker dies in the middle of it: the supervisor starts it again, and nothing is lost.
        broken = subprocess.run(
            [*fogctl_argv, "fault", "kill", "broker", "--testbed", name],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert broken.returncode == 0, broken.stderr
        said, trouble = child.communicate(timeout=240)
    finally:
        if child.poll() is None:
            child.terminate()  # takes the testbed down
            child.wait(timeout=60)
    assert child.returncode == 0, trouble
    assert view["agents"][0]["policy"] == "ds2"
    assert view["stages"][0]["stage"] == "nearest"
    assert [node["name"] for node in view["nodes"] if node["replicas"]] == ["pi1"]
    made = json.loads(said)
    [policy] = made["policies"]
    assert policy["sent"] > 300
    assert policy["lost"] == 0
    assert policy["finished_s"] is not None
    assert policy["response_mean_s"] > 0
    folder = tmp_path / made["run"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["state"] == "done"
    assert manifest["network"]["ok"]
    measured = manifest["network"]["measured_ms"]
    assert all(value is not None for row in measured for value in row)
    assert manifest["parts"][0]["replay"]["records"] == policy["sent"]
    assert (folder / "report.html").stat().st_size > 20_000
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert any(event["what"] == "decision" and event["reason"] for event in events)
    assert [event["fault"] for event in events if event["what"] == "fault"] == ["kill"]
    assert any(event["what"] == "restarted" and event["service"] == "broker" for event in events)
    assert not (state_dir / name).exists()
    assert not list(Path("/var/run/netns").glob(f"fog-{name}-*"))
    print(f"replay p99 {manifest['parts'][0]['replay']['error_ms_p99']:.1f} ms, {manifest['mst_from']}")


def test_latencies_that_are_off_refuse_the_run_with_exit_3_and_nothing_is_left(
    tmp_path: Path, state_dir: Path, name: str, fogctl_argv: list[str]
) -> None:
    # No emulation is exact to a thousandth of a millisecond.
    (tmp_path / "experiment.yaml").write_text(TEXT.format(name=name).replace("20ms", "0.001ms"))
    ran = subprocess.run(
        [*fogctl_argv, "experiment", "run", "experiment.yaml"],
        cwd=tmp_path,
        env={**os.environ, "FOGCTL_STATE_DIR": str(state_dir)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ran.returncode == 3, ran.stderr
    assert "the run is refused" in ran.stderr
    [folder] = (tmp_path / "runs").iterdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["network"]["ok"] is False
    assert manifest["parts"][0]["state"] == "waiting"
    assert not (state_dir / name).exists()
    assert not list(Path("/var/run/netns").glob(f"fog-{name}-*"))


def _watched(
    child: subprocess.Popen[str], argv: list[str], environment: dict[str, str], folder: Path
) -> dict[str, Any]:
    """What `fogctl watch` shows once the agent has decided something."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and child.poll() is None:
        logs = list(folder.glob("runs/*/events.jsonl"))
        if logs and '"decision"' in logs[0].read_text():
            ran = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stderr
            seen: dict[str, Any] = json.loads(ran.stdout)
            return seen
        time.sleep(0.5)
    raise AssertionError("no decision was made" if child.poll() is None else child.communicate()[1])
