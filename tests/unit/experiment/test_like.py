"""A run simulated with what another one taught: the same experiment, and how far the two are apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fogctl.cli.experiment import app
from fogctl.errors import FogError
from fogctl.experiment import experiment as experiments
from fogctl.experiment import runner
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.like import parameters_like
from fogctl.experiment.sim_plant import SimPlant, parameters_of
from fogctl.report import page
from fogctl.testbed.model import Kind, Role

TEXT = """\
name: shown
testbed: {use: gesscale, kind: sim, nodes: 6}
app: {use: taxi, work: 60000, start: {nearest: [pi1, pi2]}}
trace:
  make: {days: 0.5, rides_per_day: 95000, start: "2013-05-01T05:00:00"}
  speed: 120
policies: [gesscale-spark]
guard: {window: 10s, stabilise: 5s, scale_in_delay: 0s}
every: 2s
"""


class Silent:
    """Tells nobody."""

    def say(self, line: str) -> None:
        """Nothing."""

    def part(self, *_: object) -> None:
        """Nothing."""

    def at(self, seconds: float) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run whose nodes are a fifth slower, and its changes by half, than everybody believes."""
    place = tmp_path_factory.mktemp("like")
    (place / "experiment.yaml").write_text(TEXT)
    loaded = experiments.load(place / "experiment.yaml")
    usual = parameters_of(loaded.app.stages[0])
    truth = replace(
        usual, mu_per_s=0.8 * usual.mu_per_s, stalls=replace(usual.stalls, add_takes_s=15.0), noise=0.06
    )
    folder = RunFolder(place / "runs" / "shown-1")
    with folder.held():
        runner.run(loaded, SimPlant(loaded, {"nearest": truth}), folder, Silent())
        page.write(folder)
    return folder


def test_what_a_run_showed_is_learned(shown: RunFolder) -> None:
    truth = shown.manifest()["parameters"]["nearest"]
    found = parameters_like(shown)["nearest"]
    assert found.stalls.add_takes_s == pytest.approx(truth["stalls"]["add_takes_s"], abs=0.5)
    assert found.reference_cores == pytest.approx(0.16, rel=0.7)
    asked = shown.manifest()["mst"]["nearest"]
    loaded = experiments.of_manifest(shown.manifest())
    learned = SimPlant(loaded, {"nearest": found}).sustained().facts()["mst"]["nearest"]
    for n in (2, 3, 4):
        assert learned[n - 1] == pytest.approx(asked[n - 1], rel=0.1)


def test_the_same_experiment_simulated_like_it_has_the_same_replicas(shown: RunFolder) -> None:
    runs = str(shown.path.parent)
    ran = CliRunner().invoke(app, ["run", "--like", shown.name, "--runs", runs, "-o", "json"])
    assert ran.exit_code == 0, ran.output
    made = RunFolder(Path(json.loads(ran.stdout)["run"]))
    assert made.manifest()["like"] == shown.name
    told = CliRunner().invoke(app, ["compare", shown.name, made.name, "--runs", runs, "-o", "json"])
    [part] = json.loads(told.stdout)["replicas"][made.name]
    assert part["agreement"] >= 0.9
    assert part["valid"]
    off = part["scores"]["node_minutes"]
    assert off["off"] == pytest.approx(off["second"] - off["first"])
    assert abs(off["relative"]) < 0.1
    with_words = CliRunner().invoke(app, ["compare", shown.name, made.name, "--runs", runs])
    assert "same replicas" in with_words.output


def test_it_has_the_nodes_of_the_run_whatever_host_simulates_it(shown: RunFolder) -> None:
    manifest = shown.manifest()
    nodes = [{**n, "cores": 0.4} if n["role"] == "edge" else n for n in manifest["testbed"]["nodes"]]
    manifest["testbed"] = {**manifest["testbed"], "nodes": nodes}
    again = experiments.of_manifest(manifest, kind=Kind.sim)
    assert {node.cpu_cores for node in again.testbed.nodes if node.role is Role.edge} == {0.4}


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        (["--like", "shown", "--seed", "7"], "--like takes the run as it was begun, so --seed"),
        (["--like", "shown", "--kind", "virtual"], "--like takes the run as it was begun, so --kind"),
        (["--resume", "shown", "--policy", "hybrid"], "--resume takes the run as it was begun, so --policy"),
        (
            ["--resume", "shown", "--repetitions", "3", "--seed", "7"],
            "so --repetitions and --seed cannot be given with it",
        ),
    ],
)
def test_options_that_would_be_ignored_are_refused(shown: RunFolder, given: list[str], refused: str) -> None:
    with pytest.raises(FogError, match=refused):
        CliRunner().invoke(app, ["run", *given, "--runs", str(shown.path.parent)], catch_exceptions=False)


def test_real_time_stages_teach_nothing_and_it_is_said_why(shown: RunFolder, tmp_path: Path) -> None:
    text = TEXT.replace("work: 60000", "work: 60000, mode: real-time")
    folder = RunFolder(tmp_path / "real-time")
    with folder.held():
        folder.save_manifest({**shown.manifest(), "config": text})
    with pytest.raises(FogError, match="in real-time mode there are no batches to learn from"):
        parameters_like(folder)


def test_a_run_that_shows_nothing_teaches_nothing(shown: RunFolder, tmp_path: Path) -> None:
    empty = RunFolder(tmp_path / "empty")
    manifest = shown.manifest()
    with empty.held():
        empty.save_manifest({**manifest, "parts": []})
    with pytest.raises(FogError, match="does not teach how stage nearest behaves"):
        parameters_like(empty)
