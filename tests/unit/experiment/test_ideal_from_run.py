"""What a run teaches about n nodes, judged by the simulator that made it; and apps changed for a run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from fogctl.cli.experiment import app
from fogctl.experiment import app_variant, like, runner
from fogctl.experiment import experiment as experiments
from fogctl.experiment.experiment_file import AppChoice
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.metrics import SCHEMA
from fogctl.experiment.sim_plant import SimPlant
from fogctl.experiment.watched import Watched
from fogctl.runtime import app as apps
from fogctl.runtime.app import Mode
from fogctl.testbed.model import Kind
from tests.unit.experiment.recorded_run import recorded


class _Silent:
    def say(self, line: str) -> None:
        del line

    def part(self, number: int, total: int, part: object, whole_s: float) -> None:
        del number, total, part, whole_s

    def at(self, seconds: float) -> None:
        del seconds


def test_the_ideal_curve_of_a_live_run_is_near_the_truth_where_nodes_were_used(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text("""\
name: learning
testbed: {use: gesscale, kind: sim, nodes: 5}
app: {use: taxi, work: 60000}
trace:
  make: {days: 0.5, rides_per_day: 150000, start: "2013-05-01T04:00:00"}
  speed: 96
policies: [thr-nlaware, gesscale-spark]
guard: {window: 15s, stabilise: 10s, scale_in_delay: 10s}
every: 5s
""")
    loaded = experiments.load(file)
    folder = RunFolder(tmp_path / "run")
    with folder.held():
        manifest = runner.run(loaded, SimPlant(loaded), folder, _Silent())
    truth = manifest["mst"]["nearest"]
    learned = like.sustained_like(loaded, manifest, folder.metrics(), folder.events())
    lesson = like.Lesson(manifest, folder.metrics(), folder.events())
    batches = lesson.batches(lesson.parts(loaded.app.stages[0]))
    used = {len(batch.replicas) for batch in batches if not batch.change}
    assert len(used) >= 3
    assert f"{len(batches)} batches" in learned.source
    for n in used:
        assert learned.facts()["mst"]["nearest"][n - 1] == pytest.approx(truth[n - 1], rel=0.1), n
    for share, rates in learned.by_stage["nearest"].items():
        assert share == 1.0 or rates[0] < learned.by_stage["nearest"][1.0][0]


def test_a_run_that_was_stopped_gets_its_ideal_curve_when_it_is_reported(tmp_path: Path) -> None:
    day = experiments.load("gesscale-day", kind=Kind.sim, policies=["thr-nlaware"], seed=401)
    folder = RunFolder(tmp_path / "run")
    with folder.held():
        manifest = runner.run(day, SimPlant(day), folder, _Silent())
    truth = manifest["mst"]["nearest"]
    learned_later = ("mst", "mst_shares", "mst_from")
    folder.save_manifest({k: v for k, v in manifest.items() if k not in learned_later} | {"state": "failed"})
    ran = CliRunner().invoke(app, ["report", str(folder.path), "-o", "json"])
    assert ran.exit_code == 0, ran.output
    [policy] = json.loads(ran.stdout)["policies"]
    assert policy["accuracy_o"] is not None
    assert folder.manifest()["mst"]["nearest"][2] == pytest.approx(truth[2], rel=0.1)
    assert "this run's batches" in folder.manifest()["mst_from"]
    before = folder.manifest_file.read_text()
    assert CliRunner().invoke(app, ["report", str(folder.path)]).exit_code == 0
    assert folder.manifest_file.read_text() == before


def test_too_few_node_sets_give_no_ideal_curve(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text("""\
name: still
testbed: {use: gesscale, kind: sim, nodes: 2}
app: {use: taxi, work: 1000}
trace: {make: {days: 0.02, rides_per_day: 40000}, speed: 30}
policies: [thr-nlaware]
""")
    loaded = experiments.load(file)
    folder = RunFolder(tmp_path / "run")
    with folder.held():
        manifest = runner.run(loaded, SimPlant(loaded), folder, _Silent())
    learned = like.sustained_like(loaded, manifest, folder.metrics(), folder.events())
    assert learned.by_stage == {}
    assert learned.source == "not known (nearest: too few node sets were seen)"


def test_where_no_meter_tells_of_cpu_replicas_count_as_warm(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", {"slow": 20})
    manifest, metrics = folder.manifest(), folder.metrics()
    ended = [
        {"policy": "slow", "repetition": 1, "at_s": at_s, "kind": "batch", "name": "nearest",
         "batch_ms": 900.0, "batch_rows": 50.0}
        for at_s in (5.0, 10.0, 20.0)
    ]  # fmt: skip
    metered = pa.concat_tables([metrics, pa.Table.from_pylist(ended, schema=SCHEMA)])
    silent = metered.set_column(
        metered.column_names.index("used_cores"), "used_cores", pa.nulls(metered.num_rows, pa.float64())
    )
    far = {"pi1": 20.0, "pi2": 40.0, "pi3": 60.0}
    quotas = {"pi1": 0.16, "pi2": 0.16, "pi3": 0.16}
    entry = manifest["parts"][0]
    [_, (early, _), (late, _)] = Watched.of(metered, entry, "nearest", quotas).batches(far)
    assert 0.0 < early.replicas[0][1] < late.replicas[0][1]
    for seen, _ in Watched.of(silent, entry, "nearest", quotas).batches(far):
        assert [cpu_s for _, cpu_s in seen.replicas] == [math.inf]


def test_an_app_is_changed_in_the_runs_folder_and_nowhere_else(tmp_path: Path) -> None:
    logs = apps.load("logs")
    before = logs.file.read_text()
    choice = AppChoice(use="logs", work=123, mode=Mode.real_time, partitions=2)
    made = app_variant.write(logs, choice, tmp_path / "app")
    assert dict(made.stage("matcher").options)["work"] == "123"
    assert "work" not in dict(made.stage("parser").options)
    assert {stage.mode for stage in made.stages} == {Mode.real_time}
    assert {stage.partitions for stage in made.stages} == {2}
    assert made.file.parent == tmp_path / "app"
    assert logs.file.read_text() == before
    assert app_variant.write(logs, AppChoice(use="logs"), tmp_path / "same") is logs
