"""The report that benchmark runners share: where its table goes, and its way from machine to machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from benchmarks.report import Part, Report, as_data, as_markdown, as_text, collect, from_data, placed  # noqa: E402
from benchmarks.row import Row  # noqa: E402

REPORT = Report(
    (
        Part("first", (Row("a sum", 2.0, "ms", target=4.0, peer=8.0, peer_name="Peer"),), 0.5),
        Part("second", (Row("a rate", 1.0, "1/s", target=3.0, more_is_better=True),), 0.25, "no luck"),
    ),
    {"cpu": "some"},
    ("the cat slept on it",),
)


def test_table_replaces_what_is_between_its_markers_and_nothing_else() -> None:
    kept = "between\n<!-- begin b -->\nkept\n<!-- end b -->\nafter\n"
    text = f"before\n<!-- begin a -->\nold\n<!-- end a -->\n{kept}"
    once = placed("TABLE\n", "a", text)
    assert "old" not in once
    assert once.startswith("before\n<!-- begin a -->\n\nTABLE\n")
    assert once.endswith(kept)
    assert placed("TABLE\n", "a", once) == once


def test_a_file_without_markers_becomes_the_table() -> None:
    assert placed("TABLE\n", "a", "anything") == "TABLE\n"


def test_the_document_has_a_place_for_every_runner() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    for section in ("testbed", "guest", "models"):
        assert placed("TABLE", section, text) != "TABLE"


def test_a_report_read_back_from_its_data_is_the_same() -> None:
    assert from_data(json.loads(json.dumps(as_data(REPORT)))) == REPORT


def test_failures_remarks_and_machine_are_said_in_text_and_markdown() -> None:
    for shown in (as_text(REPORT), as_markdown(REPORT)):
        assert "no luck" in shown
        assert "he cat slept on it" in shown
        assert "cpu some" in shown


@pytest.mark.parametrize(
    ("row", "failure", "code"),
    [
        (Row("x", 1.0, "s", target=2.0), "", 0),
        (Row("x", 3.0, "s", target=2.0), "", 1),
        (Row("x", 1.0, "s"), "broken", 1),
    ],
)
def test_exit_code_says_whether_all_ran_and_met_their_targets(row: Row, failure: str, code: int) -> None:
    assert Report((Part("p", (row,), 0.0, failure),), {}).exit_code == code


def test_a_part_without_rows_is_a_failure() -> None:
    assert collect("empty", lambda: ()).failure
