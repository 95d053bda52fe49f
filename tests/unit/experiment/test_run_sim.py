"""A whole run in the simulator: what it leaves, how it is resumed, and how it stops when it must."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fogctl.cli.experiment import app
from fogctl.errors import FogError
from fogctl.experiment import experiment as experiments
from fogctl.experiment import metrics, runner
from fogctl.experiment.experiment import Experiment, Part
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.plant import NetworkCheck
from fogctl.experiment.sim_plant import SimPlant
from fogctl.report import page

TEXT = """\
name: small
testbed: {use: gesscale, kind: sim, nodes: 4}
app: {use: taxi, work: 60000}
trace:
  make: {days: 0.1, rides_per_day: 80000, start: "2013-05-01T07:00:00"}
  speed: 144
policies: [gesscale-spark, {name: thr-nlaware, label: thresholds}]
guard: {window: 15s, stale_after: 30s, stabilise: 10s, scale_in_delay: 10s}
every: 5s
"""


class Silent:
    """Tells nobody."""

    def __init__(self, on_second: Callable[[Part, float], None] | None = None) -> None:
        self.parts: list[str] = []
        self._now: Part | None = None
        self._on_second = on_second

    def say(self, line: str) -> None:
        del line

    def part(self, number: int, total: int, part: Part, whole_s: float) -> None:
        del number, total, whole_s
        self.parts.append(part.key)
        self._now = part

    def at(self, seconds: float) -> None:
        if self._on_second is not None and self._now is not None:
            self._on_second(self._now, seconds)


@pytest.fixture
def small(tmp_path: Path) -> Experiment:
    file = tmp_path / "experiment.yaml"
    file.write_text(TEXT)
    return experiments.load(file)


def run(experiment: Experiment, folder: RunFolder, watcher: Silent | None = None) -> dict[str, Any]:
    with folder.held():
        return runner.run(experiment, SimPlant(experiment), folder, watcher or Silent())


def test_a_run_leaves_a_folder_that_tells_everything_again(small: Experiment, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    manifest = run(small, folder)
    assert manifest["state"] == "done"
    assert [entry["state"] for entry in manifest["parts"]] == ["done", "done"]
    assert manifest["config"] == TEXT
    assert manifest["network"]["asked_ms"][0][5] == 300.0
    assert manifest["host"]["cores"] >= 1
    assert manifest["versions"]["fogctl"]
    story = page.write(folder)
    scores = folder.scores()
    assert scores == json.loads(json.dumps(story.scores))
    by_policy = {entry["policy"]: entry for entry in scores["policies"]}
    assert by_policy["gesscale-spark"]["reconfigurations"] > 0
    assert by_policy["gesscale-spark"]["lost"] == 0
    decisions = [e for e in folder.events() if e["what"] == "decision" and e["actions"]]
    assert decisions
    assert all(e["reason"] and e["direction"] in ("out", "in", "move", "share") for e in decisions)
    table = folder.metrics()
    seconds = table.filter([k == "stage" for k in table["kind"].to_pylist()])
    assert seconds.num_rows >= 2 * 60
    before = folder.report_file.read_text()
    page.write(folder)
    assert folder.report_file.read_text() == before
    assert not list((folder.path / "parts").glob("*.jsonl"))


def test_the_same_seed_gives_the_same_run(small: Experiment, tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path / "a"), RunFolder(tmp_path / "b")
    run(small, first)
    run(small, second)
    assert first.metrics().equals(second.metrics())


def test_a_killed_run_resumes_at_the_next_policy_and_says_what_it_lost(
    small: Experiment, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")

    def dies(part: Part, seconds: float) -> None:
        if part.policy.label == "thresholds" and seconds >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(small, folder, Silent(dies))
    kept = folder.metrics()
    assert set(kept["policy"].to_pylist()) == {"gesscale-spark"}
    again = experiments.of_manifest(folder.manifest())
    watcher = Silent()
    manifest = run(again, folder, watcher)
    assert watcher.parts == ["thresholds.1"]
    assert manifest["state"] == "done"
    assert len(manifest["lost"]) == 1
    told = manifest["lost"][0]
    assert re.search(r"thresholds, repetition 1: lost when the run ended after 2[01] s of it", told)
    scores = page.write(folder).scores
    assert [entry["policy"] for entry in scores["policies"]] == ["gesscale-spark", "thresholds"]
    assert manifest["lost"][0] in scores["warnings"]
    entry = manifest["parts"][1]
    assert entry["attempt"] == 2
    lost = [e for e in folder.events() if e.get("part") == "thresholds.1" and e.get("attempt") == 1]
    assert lost, "what the lost attempt wrote is still there"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_killed_in_the_middle_it_leaves_a_folder_that_can_be_resumed(how: int, tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(TEXT.replace("days: 0.1", "days: 0.5").replace("speed: 144", "speed: 5"))
    argv = [sys.executable, "-m", "fogctl", "experiment", "run", str(file), "--runs", str(tmp_path / "runs")]
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and child.poll() is None:
            lines = list((tmp_path / "runs").glob("*/parts/*.jsonl"))
            if lines and lines[0].stat().st_size > 10_000:
                break
            time.sleep(0.05)
        assert child.poll() is None, "it was to be killed in the middle"
        child.send_signal(how)
        _, said = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    if how == signal.SIGTERM:
        assert child.returncode == 130
        assert "was interrupted" in said
        assert "--resume" in said
    [path] = (tmp_path / "runs").iterdir()
    folder = RunFolder(path)
    assert not folder.in_use()
    listed = CliRunner().invoke(app, ["list", "--runs", str(tmp_path / "runs"), "-o", "json"])
    state = "killed" if how == signal.SIGKILL else "failed"
    assert json.loads(listed.stdout)["runs"][0]["state"] == state
    rows = metrics.read_lines(next(path.glob("parts/*.jsonl")))
    assert rows.num_rows > 10
    assert folder.manifest()["parts"][0]["state"] == "running"


def test_latencies_that_are_off_refuse_the_run_with_exit_3_and_nothing_is_replayed(
    small: Experiment, tmp_path: Path
) -> None:
    class Off(SimPlant):
        went_down = False

        def verify(self, progress: Callable[[float], None]) -> NetworkCheck:
            good = super().verify(progress)
            return NetworkCheck(
                False, "pi2–pi4 measured 187.4 ms, asked 150 ms ± 2 ms", good.nodes, good.asked_ms, None
            )

        def down(self, say: Callable[[str], None]) -> None:
            del say
            self.went_down = True

    folder, watcher, plant = RunFolder(tmp_path / "run"), Silent(), Off(small)
    with pytest.raises(FogError, match="refused: pi2–pi4 measured") as refused, folder.held():
        runner.run(small, plant, folder, watcher)
    assert refused.value.exit_code == 3
    assert watcher.parts == []
    assert plant.went_down
    assert folder.manifest()["state"] == "failed"


def test_what_may_spoil_the_run_is_said_at_once_and_in_the_report(small: Experiment, tmp_path: Path) -> None:
    class Busy(SimPlant):
        def check(self) -> list[str]:
            return ["the host was 97% busy before the run began"]

    class Listener(Silent):
        def __init__(self) -> None:
            super().__init__()
            self.said: list[str] = []

        def say(self, line: str) -> None:
            self.said.append(line)

    folder, listener = RunFolder(tmp_path / "run"), Listener()
    with folder.held():
        runner.run(small, Busy(small), folder, listener)
    assert listener.said[0] == "warning: the host was 97% busy before the run began"
    assert page.write(folder).scores["warnings"] == ["the host was 97% busy before the run began"]
    assert "the host was 97% busy before the run began" in folder.report_file.read_text()


def test_a_full_disk_stops_the_run_in_one_sentence_and_keeps_what_it_has(
    small: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    write = metrics.RowWriter.write

    def fills(self: metrics.RowWriter, rows: Any) -> None:
        rows = list(rows)
        if rows[0].policy == "thresholds" and rows[0].at_s > 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder.path))
        write(self, rows)

    monkeypatch.setattr(metrics.RowWriter, "write", fills)
    with pytest.raises(FogError, match="No space left on device") as stopped:
        run(small, folder)
    assert "--resume" in str(stopped.value)
    assert folder.manifest()["state"] == "failed"
    assert set(folder.metrics()["policy"].to_pylist()) == {"gesscale-spark"}
    monkeypatch.undo()
    assert run(small, folder)["state"] == "done"


def test_an_unknown_policy_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(TEXT.replace("[gesscale-spark,", "[gescale-spark,"))
    folder = RunFolder(tmp_path / "run")
    loaded = experiments.load(file)
    with pytest.raises(FogError, match="there is no policy gescale-spark"), folder.held():
        runner.run(loaded, SimPlant(loaded), folder, Silent())
    assert not folder.manifest_file.exists()


def test_what_shall_go_wrong_does_so_in_every_part_and_is_told(small: Experiment, tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(TEXT + "faults: [{at: 50%, kill: pi1, lasts: 10s}]\n")
    loaded = experiments.load(file)
    folder = RunFolder(tmp_path / "broken")
    with folder.held():
        manifest = runner.run(loaded, SimPlant(loaded), folder, Silent())
    for entry in manifest["parts"]:
        told = [
            event for event in folder.events() if event["what"] == "fault" and event["part"] == entry["key"]
        ]
        assert [(event["kind"], event["node"]) for event in told] == [("kill", "pi1"), ("restore", "pi1")]
        assert told[0]["at_s"] == pytest.approx(entry["trace_s"] / 2, abs=1.0)
        assert told[1]["at_s"] - told[0]["at_s"] == pytest.approx(10.0)
        assert entry["audit"]["lost"] == 0
    del small


def test_a_truncated_trace_file_is_named_and_nothing_is_run(tmp_path: Path) -> None:
    (tmp_path / "rides.parquet").write_bytes(b"PAR1 cut short")
    file = tmp_path / "experiment.yaml"
    make = '  make: {days: 0.1, rides_per_day: 80000, start: "2013-05-01T07:00:00"}\n'
    file.write_text(TEXT.replace(make, "  file: rides.parquet\n"))
    ran = CliRunner().invoke(app, ["run", str(file), "--runs", str(tmp_path / "runs")])
    assert isinstance(ran.exception, FogError)
    assert "rides.parquet" in str(ran.exception)
    assert "brought up" not in ran.stderr
    assert not list((tmp_path / "runs").glob("*/manifest.json"))


def test_the_commands_run_report_and_compare(small: Experiment, tmp_path: Path) -> None:
    del small
    file, runs = tmp_path / "experiment.yaml", tmp_path / "runs"
    for seed in ("1", "2"):
        ran = CliRunner().invoke(
            app,
            ["run", str(file), "--policy", "thresholds", "--seed", seed, "--runs", str(runs), "-o", "json"],
        )
        assert ran.exit_code == 0, ran.output
        made = json.loads(ran.stdout)
        assert Path(made["report"]).is_file()
        assert [entry["policy"] for entry in made["policies"]] == ["thresholds"]
    first, second = sorted(path.name for path in runs.iterdir())
    ran = CliRunner().invoke(app, ["compare", first, second, "--runs", str(runs), "-o", "json"])
    told = json.loads(ran.stdout)
    rows = told["policies"]
    assert [row["run"] for row in rows] == [first, second]
    assert rows[1]["change"]["node_minutes"].endswith("%")
    assert told["replicas"][second] == []  # another seed is another trace
    figures = tmp_path / "figures"
    ran = CliRunner().invoke(app, ["report", first, "--runs", str(runs), "--figures", str(figures)])
    assert ran.exit_code == 0
    assert {file.suffix for file in figures.iterdir()} == {".svg", ".png"}
    assert (figures / "policy-0.png").read_bytes().startswith(b"\x89PNG")
    ran = CliRunner().invoke(app, ["run", "--resume", first, "--runs", str(runs)])
    assert "is done" in str(ran.exception)


def test_a_dry_run_says_the_steps_and_touches_nothing(small: Experiment, tmp_path: Path) -> None:
    del small
    runs = tmp_path / "runs"
    ran = CliRunner().invoke(
        app, ["run", str(tmp_path / "experiment.yaml"), "--dry-run", "--runs", str(runs)]
    )
    assert ran.exit_code == 0
    assert "replay 8," in ran.stdout
    assert not runs.exists()


def test_calibration_teaches_every_policy_before_it_begins(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(TEXT + "calibrate: true\n")
    loaded = experiments.load(file, policies=["gesscale-spark"])
    folder = RunFolder(tmp_path / "run")
    manifest = run(loaded, folder)
    [stage] = manifest["calibration"].values()
    assert {sample["replicas"] for sample in stage["batches"]} >= {1, 2, 4}
    truth = manifest["mst"]["nearest"]
    warm = [sample for sample in stage["batches"] if sample["weight"] == 1.0]
    assert warm
    for sample in warm:
        assert sample["mst"] == pytest.approx(truth[sample["replicas"] - 1], rel=0.35)
    started = [e for e in folder.events() if e["what"] == "agent started" and e["part"] == "gesscale-spark.1"]
    assert started[0]["samples"] >= 3
    assert [entry["policy"] for entry in page.write(folder).scores["policies"]] == ["gesscale-spark"]


def test_real_time_stages_give_response_times_and_every_record_is_served(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text("""\
name: bursty
testbed: {use: lab, kind: sim, nodes: 4}
app: {use: logs, work: 200000, mode: real-time, partitions: 1}
trace: {bursts: [{lasts: 120s, rate: 12, scv: 4, decay: 90%}]}
policies: [{name: threshold-vertical, goal: {mean: 60s}}]
every: 10s
""")
    folder = RunFolder(tmp_path / "run")
    run(experiments.load(file), folder)
    [policy] = page.write(folder).scores["policies"]
    assert policy["lost"] == 0
    assert policy["finished_s"] is not None
    assert 0.02 < policy["response_mean_s"] < policy["response_p95_s"]
    assert policy["goal_met"] is True
    assert policy["share_changes"] > 0
    assert 0.3 < policy["cpu_share"] < 1.0
    assert {e["path"] for e in folder.events() if e["what"] == "responses"} == {"counter", "matcher"}
