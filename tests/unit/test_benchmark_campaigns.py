"""Campaigns of live measurements: what is kept, gone on with and foretold, and tables from the file alone."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import campaign, capacity, command, live, placement, scalability
from benchmarks.campaign import MISSING, Key, Notes, Part
from fogctl.bench.bench_file import Metric
from fogctl.bench.data import require_data
from fogctl.config import testbed
from fogctl.errors import ChangeInterruptedError, FogError, LoadInterruptedError
from fogctl.runtime import app as apps

DOCS = Path(__file__).parents[2] / "docs"


def chosen(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"only": None, "minutes": 60.0, "dry_run": False, **given})


class Fake:
    """A part that measures nothing, and stops where it is told to."""

    def __init__(self, name: str, count: int, after: tuple[str, ...] = ()) -> None:
        self.made: list[Key] = []
        self.fails_at: int | None = None
        self.fails_with: BaseException = FogError("the broker is gone")
        self.fails_again = True
        keys = tuple({"number": n} for n in range(count))
        self.part = Part(name, keys, 60.0, 0.0, self.run, after)

    def run(self, keys: Sequence[Key], notes: Notes) -> None:
        for key in keys:
            if key["number"] == self.fails_at:
                self.fails_at = self.fails_at if self.fails_again else None
                raise self.fails_with
            self.made.append(key)
            notes.add(self.part.name, key, {"value": 2 * key["number"]}, 60.0)


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "without_root", lambda _: False)


def test_a_campaign_that_was_stopped_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.jsonl"
    one, two = Fake("one", 3), Fake("two", 2, after=("one",))
    both = (one.part, two.part)
    one.fails_at = 1
    assert campaign.measure(both, file, {"v": 1}, chosen(), "x.py") == 1
    said = capsys.readouterr().err
    assert "one stopped: the broker is gone" in said
    assert "two needs one first" in said
    one.fails_at = None
    assert campaign.measure(both, file, {"v": 1}, chosen(), "x.py") == 0
    assert [key["number"] for key in one.made] == [0, 1, 2]
    assert [line["value"] for line in campaign.read(file)] == [0, 2, 4, 0, 2]
    assert "min left" in capsys.readouterr().err
    with pytest.raises(FogError, match="something else"):
        campaign.measure(both, file, {"v": 2}, chosen(), "x.py")


def test_when_the_time_is_up_what_is_measured_is_kept(tmp_path: Path) -> None:
    one = Fake("one", 3)
    assert campaign.measure((one.part,), tmp_path / "c.jsonl", {}, chosen(minutes=0.0), "x.py") == 0
    assert len(one.made) == len(campaign.read(tmp_path / "c.jsonl")) == 1


@pytest.mark.parametrize("error", [FogError("the broker is gone"), OSError("no more memory")])
def test_what_fails_once_is_begun_anew_in_the_same_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    one, two = Fake("one", 3), Fake("two", 2, after=("one",))
    one.fails_at, one.fails_again, one.fails_with = 0, False, error
    assert campaign.measure((one.part, two.part), tmp_path / "c.jsonl", {}, chosen(), "x.py") == 0
    assert [key["number"] for key in (*one.made, *two.made)] == [0, 1, 2, 0, 1]
    assert f"{error}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [LoadInterruptedError("interrupted"), ChangeInterruptedError("interrupted")]
)
def test_an_interruption_ends_the_campaign_and_not_just_the_part(tmp_path: Path, error: FogError) -> None:
    one, two = Fake("one", 3), Fake("two", 2)
    one.fails_at, one.fails_with = 1, error
    with pytest.raises(KeyboardInterrupt):
        campaign.measure((one.part, two.part), tmp_path / "c.jsonl", {}, chosen(), "x.py")
    assert (len(one.made), two.made, len(campaign.read(tmp_path / "c.jsonl"))) == (1, [], 1)
    assert command.exit_code(lambda: (_ for _ in ()).throw(KeyboardInterrupt())) == 130


def test_the_time_may_be_up_between_the_steps_of_a_measurement(tmp_path: Path) -> None:
    def steps(keys: Sequence[Key], notes: Notes) -> None:
        for number in range(5):
            notes.keep({"part": "step", "number": number})

    part = Part("one", ({"number": 1},), 60.0, 0.0, steps)
    assert campaign.measure((part,), tmp_path / "c.jsonl", {}, chosen(minutes=0.0), "x.py") == 0
    assert campaign.read(tmp_path / "c.jsonl") == [{"part": "step", "number": 0}]


def test_what_it_will_take_is_said_before_anything_is_measured_and_the_machine_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, file = Fake("one", 3), tmp_path / "c.jsonl"
    assert campaign.measure((one.part,), file, {}, chosen(), "x.py") == 0
    said = capsys.readouterr().err
    assert said.index("in all about 3 min, on emulated nodes") < said.index("one 0: kept")
    assert campaign.where_measured(file).startswith("Machine: cpu ")
    assert campaign.measure((one.part,), file, {}, chosen(), "x.py") == 0
    assert "all of it is measured" in capsys.readouterr().err
    assert len(campaign.Journal(file).read()[1]) == 1 + 3


def parts_by_app() -> tuple[Part, ...]:
    """As campaigns have them: one part needs of another what has the same app."""
    first = tuple({"app": app, "size": size} for app in ("a", "b") for size in (1, 2))
    then = tuple({"app": app, "percent": percent} for app in ("a", "b") for percent in (100, 150))
    return (
        Part("explore", first, 60.0, 0.0, lambda *_: None),
        Part("try", then, 60.0, 0.0, lambda *_: None, ("explore",)),
        Part("apart", ({"number": 1},), 60.0, 0.0, lambda *_: None),
    )


ONLY = ("explore", "try", "apart", "explore:a", "explore:2", "try:b", "try:100", "apart:1")


@given(
    st.lists(st.sampled_from(ONLY), max_size=3), st.sets(st.tuples(st.sampled_from("ab"), st.integers(1, 2)))
)
def test_what_is_chosen_is_measured_and_what_it_needs_before_it_and_nothing_else(
    only: list[str], done: set[tuple[str, int]]
) -> None:
    parts = parts_by_app()
    lines = [{"part": "explore", "app": app, "size": size} for app, size in done]
    notes = Notes(campaign.Journal(Path("none")), lines)
    every = [(part.name, tuple(key.items())) for part in parts for key in part.keys]
    wanted = set() if only else set(every)
    for each in only:
        name, _, value = each.partition(":")
        wanted |= {
            (part, key) for part, key in every
            if part == name and (not value or value in [str(v) for _, v in key])
        }  # fmt: skip
    for app in {dict(key)["app"] for part, key in wanted if part == "try"}:
        wanted |= {
            ("explore", key) for part, key in every
            if part == "explore" and dict(key)["app"] == app and (app, dict(key)["size"]) not in done
        }  # fmt: skip
    found = [
        (each.part.name, tuple(key.items()))
        for each in campaign.selected(parts, only, notes)
        for key in each.keys
    ]
    assert found == [each for each in every if each in wanted]


@pytest.mark.parametrize("wrong", ["explor", "explore:c", "try:1", ":", ""])
def test_a_choice_that_nothing_answers_to_is_told_before_a_file_is_made(wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    with pytest.raises(FogError, match="there is nothing to measure called") as told:
        campaign.measure(parts_by_app(), file, {}, chosen(only=[wrong]), "x.py")
    assert told.value.exit_code == 2
    assert not file.exists()


def test_a_dry_run_says_what_is_left_and_makes_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = Fake("one", 30), Fake("two", 30)
    file = tmp_path / "c.jsonl"
    assert campaign.measure((one.part, two.part), file, {}, chosen(dry_run=True, only=["two"]), "x.py") == 0
    assert capsys.readouterr().out.startswith("two: 30 of 30 measurements, 30 min\nin all about 30 min")
    assert not file.exists()


@pytest.mark.parametrize("bench", [placement, capacity, scalability])
def test_every_campaign_fits_two_hours_and_tells_so(bench: Any, tmp_path: Path, capsys: Any) -> None:
    assert bench.main(["measure", "--to", str(tmp_path / "no.jsonl"), "--dry-run"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert 60 < float(last.removeprefix("in all about ").partition(" ")[0]) <= 120
    assert not (tmp_path / "no.jsonl").exists()


@pytest.mark.parametrize("bench", [placement, capacity, scalability])
def test_what_is_not_measured_is_said_to_be_so(bench: Any, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "c.jsonl"
    campaign.Journal(file).open_for({"campaign": "x"})
    assert bench.main(["show", str(file), "--plot", str(tmp_path / "p.svg")]) == 0
    assert MISSING in capsys.readouterr().out
    assert bench.main(["show", str(file), "-o", "json"]) == 0
    json.loads(capsys.readouterr().out)


# All of them together


def test_all_campaigns_are_foretold_from_one_folder_and_parts_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert live.main(["measure", "--to", str(tmp_path / "live"), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("==")] == [f"== {name}" for name in live.ALL]
    only = ("--only", "placement:taxi3", "--only", "capacity:validate:nexmark-q1")
    assert live.main(["measure", "--to", str(tmp_path / "live"), "--dry-run", *only]) == 0
    told = [line.partition(" measurements")[0] for line in capsys.readouterr().out.splitlines()]
    assert told[:3] == ["== placement", "calibrate: 1 of 2", "taxi3: 40 of 40"]
    assert told[4:7] == ["== capacity", "explore: 3 of 9", "validate: 3 of 9"]
    assert not (tmp_path / "live").exists()


def test_a_campaign_named_without_a_part_is_all_of_it() -> None:
    assert live.chosen_parts(["capacity:reruns", "windows", "capacity"]) == {"capacity": [], "windows": []}
    assert live.chosen_parts(["placement:taxi3:auto", "placement:scale"]) == {
        "placement": ["taxi3:auto", "scale"]
    }
    with pytest.raises(FogError, match="there is no campaign placements"):
        live.chosen_parts(["placements:taxi3"])


def test_campaigns_run_in_processes_of_their_own_and_a_stop_ends_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = tmp_path / "began"

    def measured(self: command.Campaign, _: argparse.Namespace) -> int:
        os.environ["LEFT_BEHIND"] = self.name
        with began.open("a") as stream:
            stream.write(f"{self.name} {os.getpid()}\n")
        if self.name == "placement":
            raise KeyboardInterrupt
        return 1 if self.name == "capacity" else 0

    monkeypatch.setattr(command.Campaign, "measure", measured)
    assert live.main(["measure", "--to", str(tmp_path), "--only", "windows", "--only", "capacity"]) == 1
    assert "LEFT_BEHIND" not in os.environ
    assert live.main(["measure", "--to", str(tmp_path)]) == 130
    names, processes = zip(*(line.split() for line in began.read_text().splitlines()), strict=True)
    assert names == ("windows", "capacity", "windows", "capacity", "placement")
    assert len({*processes, str(os.getpid())}) == 6


def test_a_kill_reaches_the_campaign_which_may_clean_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(self: command.Campaign, _: argparse.Namespace) -> int:
        signal.signal(signal.SIGTERM, campaign._terminated)
        try:
            time.sleep(0.5)  # the parent minds the signal by then
            os.kill(os.getppid(), signal.SIGTERM)
            time.sleep(30)
        finally:
            (tmp_path / "cleaned").touch()
        return 0

    monkeypatch.setattr(command.Campaign, "measure", measured)
    handler = signal.getsignal(signal.SIGTERM)
    assert live.main(["measure", "--to", str(tmp_path)]) == 143
    assert (tmp_path / "cleaned").exists()
    assert signal.getsignal(signal.SIGTERM) is handler


def test_mistakes_are_told_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["measure", "--to", str(tmp_path), "--only", "capacity:all", "--dry-run"]
    assert command.exit_code(lambda: live.main(given)) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", list(live.ALL))
def test_every_campaign_has_a_place_in_its_guide(name: str) -> None:
    guide = (DOCS / live.ALL[name].guide).read_text(encoding="utf-8")
    assert f"<!-- begin {name} -->" in guide
    assert f"<!-- end {name} -->" in guide


def foretold(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert live.main(["measure", "--to", str(folder), "--only", name, "--dry-run"]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", ["placement", "scalability", "windows"])
def test_the_guides_show_what_a_dry_run_says(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = (DOCS / live.ALL[name].guide).read_text(encoding="utf-8")
    command = f"$ python benchmarks/live.py measure --only {name} --dry-run"
    assert "\n".join([command, *foretold(name, tmp_path, capsys), "$ "]) in guide


def test_the_minutes_of_the_overview_are_those_foretold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overview = (DOCS / "benchmarks.md").read_text(encoding="utf-8").partition("## Live campaigns")[2]
    for name in live.ALL:
        *parts, whole = foretold(name, tmp_path, capsys)[1:]
        minutes = [line.rpartition(", ")[2].removesuffix(" min") for line in parts]
        names = [line.partition(":")[0] for line in parts]
        same = len(set(minutes)) == 1
        listed = (
            f"{', '.join(names)} {minutes[0]} each"
            if same
            else ", ".join(map(" ".join, zip(names, minutes, strict=True)))
        )
        in_all = whole.removeprefix("in all about ").partition(" ")[0]
        assert f"| `{name}` | {listed} | {in_all} |" in overview


@pytest.mark.parametrize("name", ["placement", "equal"])
def test_the_beds_are_valid_and_leave_the_host_half_a_core(name: str) -> None:
    bed = testbed.load(campaign.BEDS / f"{name}.yaml", 2, 24 << 30)
    assert sum(node.cpu_cores or 0 for node in bed.nodes) <= 1.5
    assert campaign.BEDS.joinpath(f"{name}.yaml").read_text().startswith("#")


@pytest.mark.parametrize("app", [*placement.APPS, *capacity.APPS])
def test_there_is_data_for_every_app_of_a_campaign(app: str) -> None:
    assert require_data(apps.load(app), 100)


# Placement


def test_each_strategy_has_ten_runs_and_each_comes_first_in_some_round() -> None:
    for app in placement.APPS:
        keys = placement.keys(app)
        assert Counter(key["place"] for key in keys) == dict.fromkeys(placement.PLACES, 10)
        assert {key["place"] for key in keys[:: len(placement.PLACES)]} == set(placement.PLACES)
        assert len({tuple(key.items()) for key in keys}) == len(keys)


def compared_line(place: str, seed: int, throughput: float, latency: float | None) -> dict[str, Any]:
    figures = {
        "rate_per_s": 40.0,
        "throughput_per_s": throughput,
        "lag_end": 40.0 - throughput,
        "latency_p50_s": latency,
        "latency_p95_s": latency,
    }
    return {"part": "taxi3", "place": place, "seed": seed, "apps": {"taxi3": figures}}


def test_placements_are_told_by_medians_and_their_variance() -> None:
    lines = [compared_line("auto", seed, 40.0, 2.0) for seed in range(3)]
    lines += [compared_line("random", seed, rate, None) for seed, rate in enumerate((10.0, 20.0, 40.0))]
    rows = {row["place"]: row for row in placement.compared(lines, "taxi3", "taxi3")}
    assert (rows["auto"]["throughput"], rows["auto"]["throughput_spread"]) == (1.0, 0.0)
    assert (rows["random"]["throughput"], rows["random"]["throughput_least"]) == (0.5, 0.25)
    assert rows["random"]["throughput_spread"] == pytest.approx(0.3118, abs=1e-3)
    assert (rows["random"]["lag_worst"], rows["random"]["latency_p50_s"]) == (30.0, None)
    assert rows["pack"] == {"part": "taxi3", "app": "taxi3", "place": "pack", "runs": 0}
    assert "| taxi3 | auto | 3 | 100.0% | 100.0% | 0.0% | 0 | 0 | 2.00 s | 2.00 s |" in placement.report(
        lines
    )


def test_steps_to_converge_are_the_changes_made_since_the_load_changed() -> None:
    from benchmarks.placement_scaling import steps

    events = [
        {"what": "applied", "at_s": 90.0},
        {"what": "applied", "at_s": 112.0},
        {"what": "decision", "at_s": 115.0},
        {"what": "failed", "at_s": 118.0},
        {"what": "applied", "at_s": 141.5},
    ]
    assert steps(events, 100.0) == {"steps": 2, "last_after_s": 41.5}
    assert steps(events, 200.0) == {"steps": 0, "last_after_s": 0.0}


# Capacity


def explored(app: str, *rates: float) -> list[dict[str, Any]]:
    return [{"part": "explore", "app": app, "slots": n, "mst": rate} for n, rate in enumerate(rates, 1)]


def test_a_plan_is_promised_with_headroom_and_judged_by_what_it_must_and_must_not_sustain() -> None:
    lines = explored("nexmark-q1", 50.0, 100.0, 150.0)
    assert capacity.promise(lines[:2], "nexmark-q1") is None
    promised = capacity.promise(lines, "nexmark-q1")
    assert promised == pytest.approx(250.0 / 1.1, rel=1e-3)
    for percent, sustained in ((100, True), (120, True), (150, False)):
        lines.append({"part": "validate", "app": "nexmark-q1", "percent": percent, "sustained": sustained})
    row = next(capacity.rows(lines))
    assert row["held"] is True
    lines[-1]["sustained"] = True
    assert next(capacity.rows(lines))["held"] is False
    assert "| NO |" in capacity.report(lines)


def test_an_estimate_that_was_stopped_knows_its_trials() -> None:
    trial = {"rate_per_s": 50.0, "achieved_per_s": 50.0, "sustained": True, "reason": "", "slope_per_s": 0.0,
             "stages": []}  # fmt: skip
    key = {"app": "nexmark-q1", "slots": 2, "run": 1}
    lines = [
        {"part": "trial", "of": "reruns", **key, "trial": trial},
        {"part": "trial", "of": "reruns", **key, "run": 0, "trial": trial},
        {"part": "trial", "of": "explore", "app": "nexmark-q1", "slots": 2, "trial": trial},
    ]
    assert len(capacity._known(lines, "reruns", key)) == 1


def test_an_app_of_which_something_is_known_is_not_given_far_too_much() -> None:
    assert capacity.too_much([], "nexmark-q1", 3) == 3 * capacity.OVERLOAD_PER_NODE
    lines = [*explored("nexmark-q1", 50.0, 90.0), *explored("nexmark-q5", 10.0)]
    assert capacity.too_much(lines, "nexmark-q1", 3) == 1.5 * 3 * 50.0
    nothing = explored("nexmark-q1", 0.0)
    assert capacity.too_much(nothing, "nexmark-q1", 1) == capacity.OVERLOAD_PER_NODE


# Scalability


def experiment(load: float, resources: int, sustained: bool) -> dict[str, Any]:
    return {"part": "experiment", "of": "uc2", "load": load, "resources": resources, "repetition": 0,
            "sustained": sustained, "reasons": []}  # fmt: skip


def test_both_questions_are_answered_from_the_same_experiments() -> None:
    lines = [experiment(load, n, load <= 70 * n) for load in (30.0, 60.0, 120.0, 240.0) for n in (1, 2, 3)]
    demand = scalability.outcome(lines, "uc2", Metric.demand)
    of = scalability.outcome(lines, "uc2", Metric.capacity)
    assert demand is not None
    assert of is not None
    assert dict(demand.answers) == {30: 1, 60: 1, 120: 2, 240: None}
    assert dict(of.answers) == {1: 60, 2: 120, 3: 120}
    assert "| uc2 | 1 | 1 | 2 | more | 6 | 12 |" in scalability.report(lines)
    assert scalability.outcome(lines[:2], "uc2", Metric.demand) is None
