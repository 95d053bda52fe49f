"""`fogctl plan measure` and `explore` when no answer can come: one sentence; what was measured is kept."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fogctl.cli.plan import app
from fogctl.cli.plan_place import Place
from fogctl.errors import FogError
from fogctl.planner import simulated_lab
from fogctl.planner.repeats import spread

MEASURE = ("measure", "simulated", "--first-rate", "2000")
EXPLORE = ("explore", "simulated", "--slots", "2,4,6", "--memory", "256,512", "--first-rate", "3000")
TRIALS = "trials.jsonl"


def run(*arguments: str) -> Any:
    ran = CliRunner().invoke(app, [*arguments, "-o", "json"], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def refused(*arguments: str) -> FogError:
    with pytest.raises(FogError) as caught:
        CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return caught.value


def lab(monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
    made = functools.partial(simulated_lab.SimulatedLab, **given)
    monkeypatch.setattr("fogctl.planner.simulated_lab.SimulatedLab", made)


def test_a_slow_injector_ends_an_exploration_which_keeps_its_budgets_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    with monkeypatch.context() as slow:
        lab(slow, injector_most_per_s=1200.0)
        error = refused(*EXPLORE, "--to", str(folder))
    assert "the injector managed only 1,200 of " in str(error)
    assert f"measured so far is kept in {folder / TRIALS}" in str(error)
    assert error.exit_code == 3
    so_far = json.loads((folder / "exploration.json").read_text())
    assert [each["task_slots"] for each in so_far["measured"]] == [2]
    assert so_far["finished"] is False
    assert len((folder / "observations.csv").read_text().splitlines()) == 2
    error = refused("boards", str(folder), "--rate", "5000")
    assert "measure at least two sizes" in str(error)
    assert "goes on where it stopped" in str(error)
    before = (folder / TRIALS).read_text()
    found = run(*EXPLORE, "--to", str(folder))
    assert (folder / TRIALS).read_text().startswith(before)
    assert found["measured"][0] == so_far["measured"][0]
    assert json.loads((folder / "exploration.json").read_text())["finished"] is True


def test_an_exploration_that_is_not_finished_can_be_planned_from_and_says_so(
    tmp_path: Path,
) -> None:
    run(*EXPLORE, "--to", str(tmp_path))
    file = tmp_path / "exploration.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"finished": False}))
    notes = run("boards", str(tmp_path), "--rate", "3000")["notes"]
    assert any(note.startswith("The exploration is not finished") for note in notes)


def test_a_slow_injector_ends_an_estimate_which_keeps_its_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modest = (*MEASURE[:3], "300")
    with monkeypatch.context() as slow:
        lab(slow, injector_most_per_s=500.0)
        error = refused(*modest, "--to", str(tmp_path))
        assert "give --to to keep trials" in str(refused(*modest))
    assert "the injector managed only 500 of 6" in str(error)
    assert f"kept in {tmp_path / TRIALS}" in str(error)
    assert error.exit_code == 3
    kept = (tmp_path / TRIALS).read_text()
    assert kept.count('"trial"') == 2
    found = run(*modest, "--to", str(tmp_path))
    assert (tmp_path / TRIALS).read_text().startswith(kept)
    assert found["trials"][0] == json.loads(kept.splitlines()[1])["trial"]
    assert (len(found["estimates"]), found["spread"]) == (1, None)


def test_stages_are_told_as_they_were_at_the_highest_rate_sustained() -> None:
    found = run(*MEASURE)
    best = max(
        (trial for trial in found["trials"] if trial["sustained"]), key=lambda trial: trial["rate_per_s"]
    )
    assert len(found["stages"]) > 1
    for stage, seen in zip(found["stages"], best["stages"], strict=True):
        true_rate = seen["rate_per_s"] / (seen["tasks"] * seen["busyness"])
        assert stage == {**seen, "true_rate_per_s": pytest.approx(true_rate)}
    people = CliRunner().invoke(app, list(MEASURE), catch_exceptions=False)
    assert people.stderr.startswith("one estimate, 6 to 22 min"), "its cost comes first"
    (line,) = (line for line in people.stdout.splitlines() if f" {found['stages'][-1]['name']} " in line)
    assert f"{found['stages'][-1]['busyness']:.0%}" in line


def test_measuring_again_tells_the_spread(tmp_path: Path) -> None:
    found = [run(*MEASURE, "--to", str(tmp_path)) for _ in range(3)]
    assert found[2]["estimates"] == [each["mst"] for each in found]
    assert found[2]["spread"] == pytest.approx(spread(found[2]["estimates"]))
    assert "3 estimates: " not in (tmp_path / TRIALS).read_text()
    assert spread([10.0, 11.0, 12.0]) == pytest.approx(2 / 11)
    assert (spread([5.0]), spread([0.0, 0.0])) == (None, None)


def test_trials_of_another_question_are_not_gone_on_with(tmp_path: Path) -> None:
    run(*MEASURE, "--to", str(tmp_path))
    error = refused("measure", "simulated", "--first-rate", "900", "--to", str(tmp_path))
    assert "holds measurements of something else: first_rate changed" in str(error)
    assert error.exit_code == 3
    (tmp_path / TRIALS).write_text((tmp_path / TRIALS).read_text() + '{"trial": {"x": 1}}\n{}\n')
    assert "is not a trial" in str(refused(*MEASURE, "--to", str(tmp_path)))


def test_an_app_far_too_slow_for_the_first_rate_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab(monkeypatch, rates={"parse": 1e-6, "join": 1e-6})
    error = refused(*EXPLORE, "--to", str(tmp_path))
    assert "the first rate was far too high" in str(error)
    assert error.exit_code == 3
    assert (tmp_path / TRIALS).exists()


def test_a_first_rate_far_too_high_is_told(tmp_path: Path) -> None:
    error = refused("measure", "simulated", "--first-rate", "1e6", "--to", str(tmp_path))
    assert "is not gone after 360 s" in str(error)
    assert "give a lower one" in str(error)
    assert error.exit_code == 3


def test_more_slots_than_nodes_are_refused_before_anything_is_deployed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def three_nodes(*_: Any) -> Place:
        untouched = simulated_lab.SimulatedLab()
        return Place(
            untouched, ("pi1", "pi2", "pi3"), "a replica", {}, lambda _: pytest.fail("deployed"), print
        )

    monkeypatch.setattr("fogctl.cli.plan_live.place_of", three_nodes)
    error = refused(*EXPLORE, "--slots", "2,9", "--to", str(tmp_path / "out"))
    assert str(error) == (
        "--slots: 9 slots need as many nodes, and there are 3 (give fewer, or a testbed with more nodes)"
    )
    assert error.exit_code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("measure", "simulated", "--first-rate", "inf"), "--first-rate: must be a finite number"),
        (("measure", "simulated", "--first-rate", "9", "--observe", "inf"), "observe_s must be above 0"),
        (("measure", "simulated", "--first-rate", "9", "--set", "a.b=1"), "has no options"),
        (("measure", "simulatd", "--first-rate", "9"), "simulatd"),
        (("measure", "logs", "--first-rate", "9"), "there is no data for the stream lines of logs"),
        (("measure", "uc2", "--first-rate", "9", "--keys", "2000000"), "2,000,000 keys are more than"),
        ((*EXPLORE[:2], *EXPLORE[4:], "--slots", "1.5,2", "--to", "x"), '"1.5,2" are not whole numbers'),
        ((*EXPLORE[:2], *EXPLORE[4:], "--slots", "1,2", "--to", "x"), "a budget of 1 slots is too small"),
        (("explore", "logs", *EXPLORE[2:], "--to", "x", "--dry-run"), "there is no data"),
        (("explore", "nowhere", *EXPLORE[2:], "--to", "x", "--dry-run"), "nowhere"),
    ],
)
def test_mistakes_are_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    error = refused(*arguments)
    assert words in str(error)
    assert error.exit_code == 2
    assert list(tmp_path.rglob("*.jsonl")) == []
