"""`fogctl agent` as a user meets it, as far as no testbed is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fogctl.agent import policy
from fogctl.agent.events import FileLog
from fogctl.cli.main import app
from fogctl.errors import BAD_INPUT, FogError

runner = CliRunner()


def test_policies_lists_each_with_its_settings() -> None:
    result = runner.invoke(app, ["agent", "policies", "-o", "json"])
    assert result.exit_code == 0, result.output
    found = {entry["policy"]: entry for entry in json.loads(result.stdout)}
    assert set(policy.BUILT_IN) <= set(found)
    assert found["thr-nlaware"]["settings"] == {
        "scale_out_above": 0.9,
        "scale_in_below": 0.5,
        "utilisation": "load",
    }
    assert all(entry["what"] for entry in found.values())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--policy", "gescale"], 'did you mean "gesscale"'),
        (["--policy", "gesscale", "--set", "spare=1"], "policy gesscale has no setting spare"),
        (["--policy", "gesscale", "--set", "spare"], "spare is not KEY=VALUE"),
        (["--policy", "gesscale", "--for", "10"], "the unit is missing (did you mean 10s?)"),
        (["--policy", "gesscale", "--every", "0s"], "must be longer than 0 s"),
        (["--policy", "gesscale", "--config", "none.yaml"], "no such file"),
    ],
)
def test_bad_usage_is_one_sentence_before_anything_is_touched(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOGCTL_STATE_DIR", str(tmp_path / "state"))
    result = runner.invoke(app, ["agent", "run", "--app", "taxi", *arguments])
    assert isinstance(result.exception, FogError)
    assert sentence in str(result.exception)
    assert result.exception.exit_code == BAD_INPUT


EVENTS = [
    {
        "at_s": 1.0,
        "what": "agent started",
        "app": "taxi",
        "policy": "ds2",
        "every_s": 5.0,
        "model": "none yet",
    },
    {
        "at_s": 2.0,
        "what": "decision",
        "app": "taxi",
        "decision": 1,
        "outcome": "kept",
        "changes": "no change",
        "actions": [],
        "reason": "keeps up",
        "guards": [],
    },
    {
        "at_s": 3.0,
        "what": "decision",
        "app": "taxi",
        "decision": 2,
        "outcome": "kept",
        "changes": "no change",
        "actions": [],
        "reason": "add pi2",
        "guards": [{"guard": "memory", "stage": "nearest", "why": "pi2 has 4 MiB free"}],
    },
    {
        "at_s": 4.0,
        "what": "applied",
        "app": "taxi",
        "decision": 3,
        "changes": "nearest on pi1",
        "seconds": 4.2,
    },
    {
        "at_s": 5.0,
        "what": "observed",
        "app": "taxi",
        "decision": 3,
        "predicted": {"nearest.mst": 100.0},
        "observed": {"nearest.mst": 90.0},
        "off": {"nearest.mst": -0.1},
        "stall_s": 1.5,
    },
    {"at_s": 6.0, "what": "node down", "node": "pi3"},
    {"at_s": 7.0, "what": "applied", "app": "other", "decision": 1, "changes": "x", "seconds": 1.0},
]


def test_events_show_what_was_decided_and_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOGCTL_STATE_DIR", str(tmp_path))
    log = FileLog(tmp_path / "city" / "events.jsonl")
    for event in EVENTS:
        log.write(event)
    shown = runner.invoke(app, ["agent", "events", "taxi", "--testbed", "city"])
    assert shown.exit_code == 0, shown.output
    assert "keeps up" not in shown.stdout
    assert "memory: pi2 has 4 MiB free" in shown.stdout
    assert "nearest.mst 100 predicted, 90 seen; stall 1.5 s" in shown.stdout
    assert "node down" in shown.stdout
    assert "in 1.0 s" not in shown.stdout
    everything = runner.invoke(app, ["agent", "events", "taxi", "--all", "--testbed", "city", "-o", "json"])
    assert json.loads(everything.stdout) == EVENTS[:-1]
    last = runner.invoke(app, ["agent", "events", "--testbed", "city", "-n", "1"])
    assert "in 1.0 s" in last.stdout
