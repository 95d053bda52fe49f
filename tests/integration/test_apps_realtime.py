"""Taxi and logs in Spark's real-time mode, on a real broker: nothing lost, results right."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fogapps.logs.lines import lines

from fogctl.errors import FogError
from fogctl.runtime import jars

COUNT, SEED = 300, 6


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    try:
        jars.class_path(jars.BROKER)
        jars.class_path(jars.CONNECTOR)
    except FogError as error:
        pytest.skip(f"no jars: {error}")
    folder = tmp_path_factory.mktemp("realtime")
    probe = Path(__file__).with_name("realtime_probe.py")
    argv = [sys.executable, str(probe), str(folder), str(COUNT), str(SEED)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((folder / "made.json").read_text())
    return found


def test_every_query_runs_with_a_slot_for_every_task(made: dict[str, Any]) -> None:
    assert made["active"] == ["logs.counter", "logs.matcher", "logs.parser", "taxi.nearest"]
    assert made["failures"] == []
    assert made["tasks"] == 10


@pytest.mark.parametrize(
    ("source", "sink"),
    [("taxi.rides", "taxi.places"), ("logs.lines", "logs.entries"), ("logs.lines", "logs.matches")],
)
def test_every_record_comes_out_once(made: dict[str, Any], source: str, sink: str) -> None:
    sent = made["sent"][source]
    assert len(sent) > 100
    assert Counter(key for key, _ in made["seen"][sink]) == Counter(map(str, range(len(sent))))


def test_results_are_those_of_the_generator(made: dict[str, Any]) -> None:
    truth = list(lines(COUNT, SEED, dirt=0.2))
    for key, value in made["seen"]["logs.matches"]:
        line = truth[int(key)]
        wanted = {"valid": True, "component": line.component, "matches": list(line.matches)}
        assert json.loads(value) == (wanted if line.valid else {"valid": False})
    last: dict[str, int] = {}
    for key, value in made["seen"]["logs.counts"]:
        last[key] = max(json.loads(value)["count"], last.get(key, 0))
    assert last == Counter(line.component or "(invalid)" for line in truth)
