"""`fogctl plan boards` from a simulated exploration: the table, the JSON and the page tell the same."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fogctl.cli.plan import app
from fogctl.config import boards
from fogctl.errors import FogError
from fogctl.planner.capacity_plan import shown
from fogctl.planner.simulated_lab import SimulatedLab

sys.path.append(str(Path(__file__).parents[1] / "experiment"))
import browser

EXPLORE = ("explore", "simulated", "--slots", "2,4,6,9", "--memory", "256,512", "--first-rate", "3000")
ASKED = ("--rate", "2000,20000", "--board", "rpi4-4g", "--board", "rpi5-8g")


def run(*arguments: str, code: int = 0) -> str:
    ran = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert ran.exit_code == code, ran.output
    return ran.stdout


def refused(*arguments: str) -> FogError:
    with pytest.raises(FogError) as caught:
        CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan") / "try"
    run(*EXPLORE, "--to", str(folder))
    return folder


@pytest.fixture(scope="module")
def planned(explored: Path) -> tuple[dict[str, Any], Path]:
    page = explored / "plan.html"
    return json.loads(run("boards", str(explored), *ASKED, "--page", str(page), "-o", "json")), page


def test_every_rate_memory_and_board_has_a_row(planned: tuple[dict[str, Any], Path]) -> None:
    data, _ = planned
    asked = [(row["rate"], row["memory_mb"], row["board"]) for row in data["rows"]]
    assert len(asked) == len(set(asked)) == 2 * 2 * 2
    for row in data["rows"]:
        assert row["low"] <= row["slots"] <= row["high"]
        assert row["boards_low"] <= row["boards"] <= row["boards_high"]
        assert set(row["tasks"]) == {"parse", "join"}
        board = boards.load_all()[row["board"]]
        assert row["boards"] * board.idle_watts < row["watts"] <= row["boards"] * board.load_watts


def test_the_interval_holds_what_the_simulated_lab_really_needs(
    planned: tuple[dict[str, Any], Path],
) -> None:
    lab = SimulatedLab()
    for row in planned[0]["rows"]:
        if row["board"] != "rpi4-4g":
            continue

        def enough(slots: int, row: dict[str, Any] = row) -> bool:
            best = max(lab.mst({"parse": n, "join": slots - n}, row["memory_mb"]) for n in range(1, slots))
            return best >= 1.1 * row["rate"]

        truth = next(slots for slots in range(2, 1000) if enough(slots))
        assert row["low"] <= truth <= row["high"]


def test_people_read_the_numbers_of_the_json(explored: Path, planned: tuple[dict[str, Any], Path]) -> None:
    out = run("boards", str(explored), *ASKED)
    lines = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in out.splitlines()
        if line.startswith("│")
    ]
    data, _ = planned
    assert lines == [list(shown(row, data["max_slots"]).values()) for row in data["rows"]]
    assert data["verdict"] in out
    for note in data["notes"]:
        assert note in out


def test_what_the_figures_rest_on_is_said(planned: tuple[dict[str, Any], Path]) -> None:
    notes = " ".join(planned[0]["notes"])
    assert "a task of a simulated engine; it is taken for 1 core of a Raspberry Pi 4" in notes
    assert "beyond the 9 slots that were measured" in notes
    assert "rpi4-4g: 2.7 W idle, 6.4 W with all cores busy, measured" in notes
    assert "rpi5-8g: 4 W idle, 9 W with all cores busy, estimate" in notes


def test_memory_that_keeps_cores_idle_is_said(explored: Path) -> None:
    asked = (
        "boards",
        str(explored),
        "--rate",
        "2000",
        "--board",
        "rpi-zero2w",
        "--memory-mb",
        "256",
        "-o",
        "json",
    )
    notes = json.loads(run(*asked))["notes"]
    assert "rpi-zero2w has memory for 1 task of 256 MB on its 4 cores." in notes


def _check_cells(text: str, data: dict[str, Any]) -> None:
    """Every cell shows its figure of the JSON, and every figure of the JSON has its cell."""
    cells = browser.Cells(text).found
    wanted: dict[str, tuple[Any, str]] = {}
    for place, row in enumerate(data["rows"]):
        exact = row | {
            "interval": [row["low"], row["high"]],
            "boards_interval": [row["boards_low"], row["boards_high"]],
        }
        for name, said in shown(row, data["max_slots"]).items():
            wanted[f"rows.{place}.{name}"] = (exact[name], said)
    for place, row in enumerate(data["measured"]):
        for name, said in (("task_slots", f"{row['task_slots']}"), ("mst", f"{row['mst']:,.4g}")):
            wanted[f"measured.{place}.{name}"] = (row[name], said)
    for key, (value, said) in wanted.items():
        shown_value, shown_text = cells[key]
        assert (json.loads(str(shown_value)), shown_text) == (value, said), key


def test_the_numbers_on_the_page_are_those_of_the_json(planned: tuple[dict[str, Any], Path]) -> None:
    data, page = planned
    _check_cells(page.read_text(), data)


@pytest.mark.skipif(browser.CHROMIUM is None, reason="needs Chromium: make test-tools")
def test_a_browser_shows_the_page_without_complaint(
    planned: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    data, page = planned
    seen = browser.visit(page.as_uri(), tmp_path / "profile")
    assert seen.console == []
    _check_cells(seen.dom, data)
    assert seen.dom.count("<svg") == 2


def test_the_page_loads_nothing_and_needs_no_colours(planned: tuple[dict[str, Any], Path]) -> None:
    text = planned[1].read_text()
    rest = re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert not re.search(r"https?://|@import|<link|<img|<script|src=", rest)
    links = re.findall(r'href="([^"]*)"', text)
    assert links
    assert all(link.startswith("#") for link in links)
    # The families are told apart by their dashes, other memory by hollow dots, all by a legend.
    assert len(set(re.findall(r"stroke-dasharray: ([\d. ,]+)", text))) >= 3
    assert "measured, other memory" in text


def test_names_are_escaped(tmp_path: Path) -> None:
    file = tmp_path / "a<b>&c.csv"
    file.write_text("task_slots,memory_mb,mst\n1,512,100\n2,512,200\n5,512,500\n")
    run("boards", str(file), "--rate", "900", "--page", str(tmp_path / "p.html"))
    text = (tmp_path / "p.html").read_text()
    assert "a&lt;b&gt;&amp;c" in text
    assert "a<b>" not in text


def test_a_csv_is_enough_but_says_nothing_of_stages(explored: Path) -> None:
    where = str(explored / "observations.csv")
    data = json.loads(run("boards", where, "--rate", "2000", "--memory-mb", "512", "-o", "json"))
    (row,) = data["rows"]
    assert (row["tasks"], row["board"]) == ({}, "rpi4-4g")
    assert any("Tasks of each stage are not known" in note for note in data["notes"])


def test_a_slot_worth_half_a_core_needs_half_the_boards(explored: Path) -> None:
    def count(*more: str) -> int:
        asked = ("boards", str(explored), "--rate", "20000", "--memory-mb", "512", "-o", "json", *more)
        return int(json.loads(run(*asked))["rows"][0]["boards"])

    assert count("--slot-speed", "0.5") == pytest.approx(count() / 2, abs=1)


def test_a_rate_out_of_reach_is_told_and_fails(explored: Path) -> None:
    out = run("boards", str(explored), "--rate", "1e6", "--max-slots", "50", code=1)
    assert "> 50" in out
    assert "not reached" in out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--rate", "many"), '--rate: must be a number, not "many"'),
        (("--rate", "1,,2"), "--rate: must be a number"),
        (("--rate", "0"), "--rate: must be above 0"),
        (("--rate", "9", "--board", "rpi4-3g"), 'unknown board "rpi4-3g" (did you mean'),
        (("--rate", "9", "--memory-mb", "300"), "--memory-mb: 300 MB was not measured (measured: 256, 512)"),
        (("--rate", "9", "--headroom", "10"), "--headroom"),
        (("--rate", "9", "--confidence", "100%"), "confidence"),
        (("--rate", "9", "--slot-speed", "nan"), "--slot-speed"),
        (("--rate", "9", "--page", "nowhere/p.html"), "cannot be written"),
    ],
)
def test_mistakes_are_told_in_one_sentence(explored: Path, more: tuple[str, ...], words: str) -> None:
    error = refused("boards", str(explored), *more)
    assert words in str(error)
    assert error.exit_code == (1 if "cannot be written" in words else 2)


def test_folders_and_files_without_an_exploration_are_told(tmp_path: Path) -> None:
    assert "has no exploration.json" in str(refused("boards", str(tmp_path), "--rate", "9"))
    assert "no such file" in str(refused("boards", str(tmp_path / "nowhere"), "--rate", "9"))
    (tmp_path / "exploration.json").write_text('{"app": 3}')
    assert "is not an exploration" in str(refused("boards", str(tmp_path), "--rate", "9"))
