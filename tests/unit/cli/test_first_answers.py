"""`fogctl plan --help` and `fogctl bench --help` lead to a first answer: what they show runs, and in time."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from fogctl.bench.load import load
from fogctl.bench.search import bounds
from fogctl.cli import bench, plan
from fogctl.planner.estimator import Phases

DEPLOYED_S = 45.0
"""About what deploying and removing an app takes on 2 cores."""
PATIENCE_S = 15 * 60


def shown(group: ModuleType, prefix: str) -> list[list[str]]:
    """The commands of a group's help that begin so, without the program's name."""
    lines = str(group.HELP).replace("\\\n", " ").splitlines()
    return [
        shlex.split(line.strip())[len(prefix.split()) :] for line in lines if line.startswith(f"  {prefix}")
    ]


def test_the_planner_shows_what_its_guide_shows_and_tests() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "planning.md").read_text()
    commands = shown(plan, "fogctl plan")
    assert len(commands) == 2
    for arguments in commands:
        assert f"$ fogctl plan {shlex.join(arguments)}\n" in guide


def test_a_benchmark_that_needs_no_testbed_runs_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = shown(bench, "fogctl bench")
    assert len(commands) == 2
    for arguments in commands:
        ran = CliRunner().invoke(bench.app, arguments, catch_exceptions=False)
        assert ran.exit_code == 0, ran.output


def test_one_estimate_as_shown_takes_less_than_fifteen_minutes() -> None:
    (arguments,) = shown(plan, "sudo fogctl plan")
    given = dict(zip(arguments[2::2], arguments[3::2], strict=True))
    phases = Phases(
        warm_up_s=float(given["--warm-up"]),
        ramp_up_s=float(given["--ramp-up"]),
        observe_s=float(given["--observe"]),
        most_trials=int(given["--trials"]),
    )
    assert phases.most_s + DEPLOYED_S < PATIENCE_S


def test_a_benchmark_as_shown_takes_less_than_fifteen_minutes() -> None:
    (arguments,) = shown(bench, "sudo fogctl bench")
    execution = load(arguments[1]).execution
    most = bounds(execution)[1] * execution.repetitions
    assert most * (execution.warm_up + execution.duration + DEPLOYED_S) < PATIENCE_S
