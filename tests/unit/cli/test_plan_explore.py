"""`fogctl plan explore` and `measure` before anything is touched: what it costs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fogctl.cli.plan import app
from fogctl.errors import FogError
from fogctl.planner.live_lab import with_memory
from fogctl.runtime.app import load
from fogctl.runtime.app_options import with_options

EXPLORE = ("explore", "nexmark-q5", "--first-rate", "2000", "--to", "q5", "--dry-run")


def test_the_cost_is_told_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = [*EXPLORE, "--slots", "1,2,3", "--memory", "256,512", "--most", "9", "-o", "json"]
    said = json.loads(CliRunner().invoke(app, command, catch_exceptions=False).stdout)
    # Four corners and four more, or nine; a single-task run for each size of memory.
    assert (said["least_runs"], said["most_runs"], said["slots"]) == (10, 11, 3)
    assert 0 < said["least_s"] < said["most_s"]
    assert list(tmp_path.iterdir()) == []


def test_what_one_estimate_takes_is_told_without_a_testbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["measure", "nexmark-q1", "--first-rate", "2000", "--trials", "5", "--dry-run"]
    ran = CliRunner().invoke(app, command, catch_exceptions=False)
    assert ran.stdout == "one estimate, 6 to 14 min, deploying apart\n"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FogError, match="no data for the stream"):
        CliRunner().invoke(app, ["measure", "logs", *command[2:]], catch_exceptions=False)


@pytest.mark.parametrize(
    ("slots", "memory", "words"),
    [
        ("1,x", "256", '--slots: "1,x" is not a list of numbers'),
        ("1,2", "", '--memory: "" is not a list of numbers'),
        ("2", "256", "task_slots needs at least two values"),
        ("0,2", "256", "task_slots must"),
        ("1,2", "-5", "memory_mb must"),
    ],
)
def test_budgets_that_make_no_sense_are_refused(slots: str, memory: str, words: str) -> None:
    with pytest.raises(FogError) as caught:
        CliRunner().invoke(app, [*EXPLORE, f"--slots={slots}", f"--memory={memory}"], catch_exceptions=False)
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_variant_has_the_memory_asked_for_and_the_options_given(tmp_path: Path) -> None:
    given = with_options(load("nexmark-q5"), ["q5.work=7"])
    variant = with_memory(given, 512.0, tmp_path)
    (stage,) = variant.stages
    assert stage.memory_bytes == 512 << 20
    assert stage.options == given.stages[0].options
    assert dict(stage.options)["work"] == "7"
    assert variant.code.read_text() == given.code.read_text()
