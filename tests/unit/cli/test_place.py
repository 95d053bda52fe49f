"""`fogctl place`: what it prints, its exit codes, and how it speaks about bad files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from fogmodels.placement import Problem, tune_and_place
from typer.testing import CliRunner, Result

from fogctl.cli import place_view
from fogctl.cli.place import place
from fogctl.errors import FogError

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "placement.yaml"
PROBLEM: dict[str, Any] = {
    "operators": [
        {"id": "src", "parallelism": 2, "cpu": 1.0, "io": 0.0, "net": 4.0},
        {"id": "win", "parallelism": 4, "cpu": 3.0, "io": 2.0, "net": 0.0},
    ],
    "edges": [["src", "win"]],
    "workers": 2,
    "slots": 4,
}

app = typer.Typer()
app.command()(place)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(*arguments: str | Path) -> FogError:
    error = run(*arguments).exception
    assert isinstance(error, FogError), error
    assert "\n" not in str(error)
    return error


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(PROBLEM))
    return path


def answer(*arguments: str | Path) -> Any:
    result = run(*arguments, "-o", "json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def test_a_plan_is_printed_as_a_table_with_costs_limits_and_proof() -> None:
    result = run(EXAMPLE)
    assert result.exit_code == 0, result.exception
    for word in ("north1", "detect", "latency", "limit", "proven best", "limits tuned"):
        assert word in result.stdout


def test_explain_says_which_cost_decided_and_draws_every_task(file: Path) -> None:
    out = run(file, "--explain").stdout
    assert "decided" in out
    drawn = [
        line.split("│")[1]
        for line in out.splitlines()
        if line.lstrip().startswith("w") and "│A" in line + "│A"
    ]
    assert "".join(drawn).count("B") == 4


def test_explain_claims_no_more_than_is_proven(file: Path) -> None:
    out = " ".join(run(file, "--explain").stdout.split())
    assert "every other plan uses as much of some limit or more" in out
    problem = Problem.from_dict(PROBLEM)
    limits, plan = tune_and_place(problem)
    unproven = replace(plan, lower_bound=0.25)
    assert "every other plan uses at least 25.0% of one" in place_view.reason(unproven, limits)


def test_json_is_a_whole_plan(file: Path) -> None:
    plan = answer(file)
    held = [sum(tasks.get(op, 0) for tasks in plan["assignment"].values()) for op in ("src", "win")]
    assert held == [2, 4]
    assert plan["gap"] == 0
    assert all(plan["cost"][d] <= plan["limits"][d] + 1e-9 for d in ("cpu", "io", "net"))


def test_yaml_and_json_give_the_same_plan(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "job.yaml"
    other.write_text(yaml.safe_dump(PROBLEM))
    assert answer(file) == answer(other)


def test_count_counts_within_limits(file: Path) -> None:
    every, few = answer(file, "--count")["plans"], answer(file, "--count", "--limits", "io=0")["plans"]
    assert every > few > 0


def test_pareto_lists_plans_that_do_not_dominate_each_other(file: Path) -> None:
    costs = {tuple(plan["cost"].values()) for plan in answer(file, "--pareto")}
    assert costs
    assert not any(a != b and all(x <= y for x, y in zip(a, b, strict=True)) for a in costs for b in costs)
    assert run(file, "--pareto").exit_code == 0


def test_no_plan_within_the_limits_exits_3_with_a_sentence(file: Path) -> None:
    error = refused(file, "--limits", "cpu=0,io=0,net=0")
    assert error.exit_code == 3
    assert "no plan fits" in str(error)


def test_an_earlier_answer_is_the_current_placement_and_moves_are_kept(file: Path, tmp_path: Path) -> None:
    first = tmp_path / "now.json"
    first.write_text(json.dumps(answer(file)))
    again = answer(file, "--current", first, "--max-moves", "0")
    assert again["moves"] == 0
    assert again["assignment"] == json.loads(first.read_text())["assignment"]


def test_rules_that_no_plan_keeps_exit_3(file: Path, tmp_path: Path) -> None:
    now = tmp_path / "now.yaml"
    now.write_text("w1: {src: 1}\n")
    error = refused(file, "--current", now, "--max-moves", "1")
    assert error.exit_code == 3


def test_plot_writes_a_picture(file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    assert run(file, "--plot", picture).exit_code == 0
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"workers": 1}, "slots", "6 tasks do not fit in 4 slots"),
        ({"edges": [["src", "wn"]]}, "edges[0]", "unknown operator"),
        ({"pined": {}}, "pined", "did you mean pinned"),
        ({"operators": [{"id": "a", "parallelism": 1, "cpu": -1}]}, "operators[0].cpu", "not negative"),
        ({"rtt_ms": [[0, 1], [2, 0]]}, "rtt_ms", "symmetric"),
    ],
)
def test_bad_problems_name_file_and_key(file: Path, change: dict[str, Any], key: str, words: str) -> None:
    file.write_text(json.dumps({**PROBLEM, **change}))
    error = refused(file)
    assert (error.exit_code, error.key) == (2, key)
    assert error.file == str(file)
    assert words in str(error)


@pytest.mark.parametrize(
    ("text", "words"), [("{", "not JSON"), ("[]", "mapping"), ("\xff", "not JSON"), ("", "not JSON")]
)
def test_broken_files_are_refused(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    assert words in str(refused(file))


def test_broken_yaml_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("operators:\n  - {id: a\nedges: []\n")
    error = refused(path)
    assert error.exit_code == 2
    assert error.line is not None


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    error = refused(tmp_path / "none.yaml")
    assert error.exit_code == 2
    assert "none.yaml" in str(error)


@pytest.mark.parametrize("limits", ["cpu", "cpu=x", "ram=1", "cpu=-1", "cpu=nan", "latency=0.5", ""])
def test_bad_limits_exit_2(file: Path, limits: str) -> None:
    assert refused(file, "--limits", limits).exit_code == 2


def test_max_moves_without_a_current_placement_exits_2(file: Path) -> None:
    assert refused(file, "--max-moves", "2").exit_code == 2


def test_a_bad_current_placement_names_its_own_file(file: Path, tmp_path: Path) -> None:
    now = tmp_path / "now.yaml"
    now.write_text("w9: {src: 1}\n")
    error = refused(file, "--current", now)
    assert error.file == str(now)


def test_a_picture_that_cannot_be_written_is_one_sentence(file: Path, tmp_path: Path) -> None:
    assert "picture" in str(refused(file, "--plot", tmp_path / "no" / "such" / "folder.svg"))
    assert "picture" in str(refused(file, "--plot", tmp_path / "plan.xyz"))
