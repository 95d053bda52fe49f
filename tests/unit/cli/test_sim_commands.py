"""Commands on a testbed of kind sim: each does the useful thing, or says what to do instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fogctl.cli import agent, app, fault, net, testbed
from fogctl.errors import FogError

TEXT = """\
name: toy
kind: sim
scale: {cpu: 10%, memory: 40%}
nodes:
  - {name: cloud, role: control, site: dc, board: host}
  - {name: broker, role: broker, site: dc, board: host}
  - {name: pi1, role: edge, site: near, board: rpi4-2g}
  - {name: pi2, role: edge, site: far, board: rpi4-2g}
latency:
  sites: [{between: [dc, near], rtt: 5ms}, {between: [dc, far], rtt: 40ms}]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with such a testbed.yaml."""
    (tmp_path / "testbed.yaml").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOGCTL_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


def answer(command: testbed.typer.Typer, *words: str) -> dict[str, object]:
    ran = CliRunner().invoke(command, [*words, "-o", "json"])
    assert ran.exit_code == 0, (ran.output, ran.exception)
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def test_a_model_is_always_up_and_shows_its_nodes(here: Path) -> None:
    del here
    assert answer(testbed.app, "up")["nodes"] == ["cloud", "broker", "pi1", "pi2"]
    status = answer(testbed.app, "status")
    assert (status["kind"], status["state"]) == ("sim", "up")
    assert isinstance(status["nodes"], list)
    far = status["nodes"][3]
    assert (far["name"], far["rtt_to_control_ms"], far["cpu_quota_cores"]) == ("pi2", 40.0, 0.4)
    assert answer(testbed.app, "down")["removed"] == []
    ran = CliRunner().invoke(testbed.app, ["up"])
    assert "is a model" in ran.output
    assert "fogctl experiment run smoke --kind sim" in ran.output


def test_its_latencies_are_shown_and_need_no_measuring(here: Path) -> None:
    shown = answer(net.app, "show")
    assert shown["backend"] == "the model"
    assert "40" in json.dumps(shown["matrix"])
    assert answer(net.app, "verify", "--testbed", str(here / "testbed.yaml"))["ok"] is True


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (testbed.app, ["exec", "pi1", "--", "true"]),
        (net.app, ["set", "pi1", "pi2", "--rtt", "10ms"]),
        (net.app, ["apply"]),
        (app.app, ["deploy", "taxi", "--on", "pi1"]),
        (app.app, ["status", "taxi"]),
        (agent.app, ["run", "--app", "taxi", "--policy", "gesscale"]),
        (fault.app, ["kill", "pi1"]),
    ],
)
def test_what_needs_a_machine_says_what_to_do_instead(here: Path, command, words: list[str]) -> None:
    del here
    ran = CliRunner().invoke(command, words)
    assert isinstance(ran.exception, FogError), ran.output
    assert "is a model (kind: sim): no machine stands behind its nodes" in str(ran.exception)
    assert "fogctl experiment run FILE --kind sim" in str(ran.exception)
    assert ran.exception.exit_code == 2
