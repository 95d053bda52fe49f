"""The live view: what it shows of a run's folder, that it survives whoever wrote it, and who may ask."""

from __future__ import annotations

import io
import json
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fogctl.cli.main import app
from fogctl.errors import FogError
from fogctl.experiment import metrics
from fogctl.experiment.experiment import Part, PolicyUse
from fogctl.experiment.folder import RunFolder
from fogctl.watch.run_source import RunSource
from fogctl.watch.terminal import curve, render
from fogctl.watch.testbed_source import agent_of
from fogctl.watch.view import View
from fogctl.watch.web import server

sys.path.append(str(Path(__file__).parents[1] / "experiment"))
import browser
import recorded_run as story


@pytest.fixture
def running(tmp_path: Path) -> RunFolder:
    """A run in the middle of its second part, as its folder looks then."""
    folder = story.recorded(tmp_path / "run")
    manifest = folder.manifest()
    manifest["state"] = "running"
    manifest["parts"][1]["state"] = "running"
    manifest["testbed"] = {
        "name": "story",
        "nodes": [
            {"name": name, "role": "edge" if name.startswith("pi") else "control", "cores": 0.16}
            for name in story.NODES
        ],
    }
    folder.save_manifest(manifest)
    part = Part(PolicyUse("quick", "quick"), 1, 1)
    table = folder.metrics()
    rows = [metrics.Row(**row) for row in table.to_pylist() if row["policy"] == "quick" and row["at_s"] <= 60]
    writer = metrics.RowWriter(folder.part_lines(part))
    writer.write(rows)
    writer.close()
    return folder


def text(view: View) -> str:
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(render(view))
    return console.export_text()


def test_a_running_part_is_shown_with_map_rates_lag_and_decisions(running: RunFolder) -> None:
    with running.held():
        view = RunSource(running).look()
    assert view.progress == pytest.approx(0.5)
    assert view.agents[0].state == "running"
    assert view.notes == ()
    [stage] = view.stages
    assert (stage.replicas, stage.input_rate) == (3, 200.0)
    assert len(stage.rates) == 61
    by_name = {node.name: node for node in view.nodes}
    assert by_name["pi3"].replicas[0].stage == "nearest"
    assert by_name["pi3"].distance_ms == 80.0
    shown = text(view)
    assert "taxi.nearest" in shown
    assert "quick, running" in shown
    assert "200 records/s need 3" in shown
    assert shown.count("●") >= 3


def test_a_killed_run_is_still_shown_and_said_to_be_dead(running: RunFolder) -> None:
    view = RunSource(running).look()  # nobody holds the folder: its writer died
    assert view.agents[0].state == "dead"
    assert "the run was killed after 60 s" in view.notes[0]
    assert "--resume run" in view.notes[0]
    assert "killed after 60 s" in text(view)
    with running.part_lines(Part(PolicyUse("quick", "quick"), 1, 1)).open("a") as lines:
        lines.write('{"policy": "quick", "at_s": 61.0, "ki')  # cut short
    assert RunSource(running).look().stages == view.stages


def test_a_finished_run_shows_its_last_part(tmp_path: Path) -> None:
    folder = story.recorded(tmp_path / "run")
    manifest = {**folder.manifest(), "testbed": {"name": "story", "nodes": []}}
    folder.save_manifest(manifest)
    view = RunSource(folder).look()
    assert "the run is done" in view.notes
    assert view.stages[0].lag == 0


def test_the_command_shows_a_run_once_as_text_and_as_json(running: RunFolder) -> None:
    runs = str(running.path.parent)
    shown = CliRunner().invoke(app, ["watch", "run", "--runs", runs, "--once"])
    assert shown.exit_code == 0, shown.output
    assert "taxi.nearest" in shown.stdout
    data = json.loads(CliRunner().invoke(app, ["watch", "run", "--runs", runs, "-o", "json"]).stdout)
    assert data["stages"][0]["stage"] == "nearest"


def test_the_page_answers_to_localhost_only(running: RunFolder) -> None:
    with server(RunSource(running)) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        assert serving.server_address[0] == "127.0.0.1"
        url = f"http://127.0.0.1:{serving.server_address[1]}"
        seen = json.load(urllib.request.urlopen(f"{url}/view.json"))
        assert seen["stages"][0]["replicas"] == 3
        for path, host, code in (("/view.json", "evil.example", 403), ("/etc/passwd", None, 404)):
            request = urllib.request.Request(url + path, headers={"Host": host} if host else {})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request)
            assert refused.value.code == code
        with pytest.raises(FogError, match="cannot be used"):
            server(RunSource(running), serving.server_address[1])
        serving.shutdown()


@pytest.mark.skipif(browser.CHROMIUM is None, reason="needs Chromium: make test-tools")
def test_the_browser_shows_nodes_stages_decisions_and_the_agents_death(
    running: RunFolder, tmp_path: Path
) -> None:
    with server(RunSource(running)) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        seen = browser.visit(f"http://127.0.0.1:{serving.server_address[1]}/", tmp_path / "profile")
        serving.shutdown()
    assert seen.console == []
    assert "taxi.nearest" in seen.dom
    assert seen.dom.count('<circle cx="') == 3
    assert "200 records/s need 3 &lt;replicas&gt;" in seen.dom
    assert "the run was killed after 60 s" in seen.dom
    assert "dead" in seen.dom


def _told(*whats: tuple[float, str]) -> list[dict[str, object]]:
    more = {"agent started": {"policy": "hybrid", "every_s": 10.0}}
    return [{"at_s": at_s, "what": what, "app": "taxi", **more.get(what, {})} for at_s, what in whats]


@pytest.mark.parametrize(
    ("told", "held", "state"),
    [
        ([(0.0, "agent started"), (90.0, "decision")], True, "running"),
        ([(0.0, "agent started"), (90.0, "decision")], False, "running"),  # an experiment's holds no lock
        ([(0.0, "agent started"), (50.0, "decision")], False, "dead"),
        ([(0.0, "agent started")], False, "dead"),
        ([(0.0, "agent started"), (20.0, "decision"), (30.0, "agent stopped")], False, "stopped"),
        # What happens to the app after its agent was stopped does not make it a dead one.
        ([(0.0, "agent started"), (20.0, "agent stopped"), (30.0, "restarted")], False, "stopped"),
        # The next one of an experiment has begun and not decided yet.
        ([(0.0, "agent started"), (20.0, "decision"), (21.0, "agent stopped"), (80.0, "agent started")],
         False, "running"),
    ],
)  # fmt: skip
def test_a_testbeds_agent_is_running_stopped_or_dead(
    told: list[tuple[float, str]], held: bool, state: str
) -> None:
    found = agent_of("taxi", _told(*told), held, 100.0)
    assert found is not None
    assert (found.policy, found.state) == ("hybrid", state)
    assert agent_of("logs", _told(*told), held, 100.0) is None


def test_a_curve_has_the_shape_of_its_values() -> None:
    assert curve([]) == ""
    assert curve([0.0, 0.0]) == "▁▁"
    rising = curve([float(value) for value in range(100)], width=8)
    assert rising == "".join(sorted(rising))
    assert len(rising) == 8
