"""`fogctl plan parallelism`: from options or a file to tasks, and what bad input is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fogctl.cli.plan import app
from fogctl.errors import FogError

JOB = """\
budget: 16
operators:
  - {name: parse, true_rate: 1200, ratio: 1}
  - {name: join, rate: 150, busyness: 0.5, ratio: 0.4}
"""


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["parallelism", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def refused(*arguments: str) -> FogError:
    with pytest.raises(FogError) as caught:
        CliRunner().invoke(app, ["parallelism", *arguments], catch_exceptions=False)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return caught.value


def test_operators_from_options() -> None:
    data = json.loads(
        run("--operator", "parse:1200:1", "--operator", "join:300:0.4", "--budget", "16", "-o", "json")
    )
    assert data["tasks"] == {"parse": 6, "join": 10}
    assert data["source_rate"] == 7200
    assert data["total"] == 16
    assert [line["busyness"] for line in data["operators"]] == pytest.approx([1.0, 0.96])


def test_a_file_gives_the_same_and_busyness_is_turned_into_a_true_rate(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    assert json.loads(run(str(file), "-o", "json"))["tasks"] == {"parse": 6, "join": 10}
    assert json.loads(run(str(file), "--budget", "2", "-o", "json"))["tasks"] == {"parse": 1, "join": 1}


def test_json_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"budget": 3, "operators": [{"name": "map", "true_rate": 5e6, "ratio": 1}]}))
    assert json.loads(run(str(file), "-o", "json"))["source_rate"] == 15e6


def test_people_see_a_table_and_what_would_be_wasted() -> None:
    out = run("--operator", "a:3:1", "--operator", "b:1:1", "--budget", "5")
    assert "source rate 3/s with 4 of 5 tasks; 1 more would not raise it" in out
    assert "busy at that rate" in out


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (JOB.replace("1200", "fast"), 3, "operators[0].true_rate"),
        (JOB.replace("1200", "-5"), 3, "not negative"),
        (JOB.replace("1200", ".nan"), 3, "finite"),
        (JOB.replace("ratio: 1}", "ratios: 1}"), 3, "ratio"),
        (JOB.replace("busyness: 0.5, ", ""), 4, "either true_rate, or rate and busyness"),
        (JOB.replace("rate: 150, busyness: 0.5", "true_rate: 0"), 4, "measure it under load"),
        (JOB.replace("join", "parse"), None, "two operators"),
        (JOB.replace("16", "many"), 1, "budget"),
        (JOB.replace("16", "1"), None, "2 operators need at least one task each"),
        ("budget: 3\noperators: []\n", 2, "operators"),
        ("budget: [\n", None, "YAML"),
        ("", None, "empty"),
    ],
)
def test_mistakes_in_a_file_are_named_with_their_place(
    tmp_path: Path, text: str, line: int | None, words: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(FogError) as caught:
        CliRunner().invoke(app, ["parallelism", str(file)], catch_exceptions=False)
    assert caught.value.exit_code == 2
    assert str(file) in str(caught.value)
    assert words in str(caught.value)
    if line is not None:
        assert caught.value.line == line


def test_mistakes_in_options_are_named() -> None:
    assert "no operators given" in str(refused("--budget", "3"))
    assert "NAME:TRUE_RATE:RATIO" in str(refused("--operator", "parse=3", "--budget", "3"))
    assert 'true rate of "parse" must be a number' in str(refused("--operator", "parse:x:1", "--budget", "3"))
    assert "above 0" in str(refused("--operator", "parse:0:1", "--budget", "3"))
    assert "budget is missing" in str(refused("--operator", "parse:3:1"))
    assert "two operators" in str(refused("--operator", "a:3:1", "--operator", "a:3:1", "--budget", "3"))
    assert "no such file" in str(refused("nowhere.yaml"))


def test_file_and_options_do_not_mix(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    assert "not both" in str(refused(str(file), "--operator", "a:1:1"))


def test_help_has_an_example() -> None:
    assert "--operator parse:1200:1" in run("--help")
