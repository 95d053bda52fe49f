"""`fogctl plan slots`: from a CSV of observations to slots, an interval and a verdict."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fogctl.cli.plan import app
from fogctl.errors import FogError

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "capacity_observations.csv"


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["slots", *arguments], catch_exceptions=False)
    assert result.exit_code == code
    return result.stdout


def refused(*arguments: str) -> FogError:
    with pytest.raises(FogError) as caught:
        CliRunner().invoke(app, ["slots", *arguments], catch_exceptions=False)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return caught.value


def write(folder: Path, text: str) -> str:
    file = folder / "seen.csv"
    file.write_text(text)
    return str(file)


def test_the_example_is_answered_with_an_interval_that_holds_the_truth() -> None:
    data = json.loads(run(str(EXAMPLE), "--rate", "40000", "--memory-mb", "2048", "-o", "json"))
    # The file was made by mst = 9000 ln(1 + slots) + memory / 2 - 6000, give or take 4 %.
    truth = math.ceil(math.expm1((44_000 + 6_000 - 1024) / 9000))
    assert data["interval"]["low"] <= truth <= data["interval"]["high"]
    assert data["family"] == "log"
    assert [line["family"] for line in data["families"]] == ["linear", "sqrt", "log"]
    assert not data["decided"]
    assert "cannot tell" in data["verdict"]
    assert data["observations"] == 12


def test_people_see_each_family_its_error_and_the_verdict() -> None:
    out = run(str(EXAMPLE), "--rate", "40000", "--memory-mb", "2048")
    assert "log (chosen)" in out
    assert "ruled out" in out
    assert re.search(r"40,000/s \+ 10% with 2048 MB: \d+ slots \(90% interval \d+ to \d+\)", out)
    assert "cannot tell sqrt from log" in out


def test_clean_linear_data_are_decided(tmp_path: Path) -> None:
    file = write(
        tmp_path, "task_slots,memory_mb,mst\n" + "".join(f"{n},512,{100 * n}\n" for n in (1, 2, 5, 9, 16))
    )
    data = json.loads(run(file, "--rate", "10000", "-o", "json"))
    assert (data["family"], data["slots"], data["decided"]) == ("linear", 110, True)
    assert json.loads(run(file, "--rate", "10000", "--headroom", "0", "-o", "json"))["slots"] == 100
    assert json.loads(run(file, "--rate", "10000", "--family", "sqrt", "-o", "json"))["family"] == "sqrt"


def test_a_rate_out_of_reach_is_said_and_fails(tmp_path: Path) -> None:
    file = write(tmp_path, "task_slots,memory_mb,mst\n1,512,100\n2,512,200\n5,512,500\n")
    data = json.loads(run(file, "--rate", "1e9", "-o", "json", code=1))
    assert data["slots"] is None
    assert data["interval"] == {"low": None, "high": None, "confidence": 0.9}
    assert "more than 5000 slots" in run(file, "--rate", "1e9", code=1)


def test_other_column_names_blank_lines_and_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    file.write_text("when,n,ram,rate\n\n1,1,512,100\nx,2,512,200\n3,5,512,500\n\n", encoding="utf-8-sig")
    names = ("--slots-column", "n", "--memory-column", "ram", "--mst-column", "rate")
    assert json.loads(run(str(file), "--rate", "1000", *names, "-o", "json"))["slots"] == 11


def test_the_picture_is_drawn_and_repeatable(tmp_path: Path) -> None:
    pictures = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for picture in pictures:
        run(str(EXAMPLE), "--rate", "40000", "--memory-mb", "2048", "--plot", str(picture))
    text = pictures[0].read_text()
    assert text.startswith("<?xml")
    assert "leave-one-out error" in text
    assert text == pictures[1].read_text()
    error = refused(str(EXAMPLE), "--rate", "4", "--memory-mb", "2048", "--plot", str(tmp_path / "x.word"))
    assert ".svg" in str(error)


HEADER = "task_slots,memory_mb,mst\n"


@pytest.mark.parametrize(
    ("text", "line", "key", "words"),
    [
        (HEADER + "1,512,100\n2,512,fast\n", 3, "mst", '"fast" is not a number'),
        (HEADER + "1,512,\n", 2, "mst", "is empty"),
        (HEADER + "1.5,512,3\n", 2, "task_slots", "whole number"),
        (HEADER + "0,512,3\n", 2, "task_slots", "at least 1"),
        (HEADER + "1,-2,3\n", 2, "memory_mb", "above 0"),
        (HEADER + "1,512,nan\n", 2, "mst", "not possible"),
        (HEADER + "1,512,inf\n", 2, "mst", "not possible"),
        (HEADER + "1,512,-3\n", 2, "mst", "at least 0"),
        (HEADER + "1,512\n", 2, None, "has 2 cells but the header has 3"),
        (HEADER + '1,512,"3\n', 2, None, "not valid CSV"),
        ("slots,memory_mb,mst\n1,2,3\n", 1, "task_slots", "--slots-column"),
        ("task_slots;memory_mb;mst\n1;2;3\n", 1, "task_slots", "commas"),
        ("mst,task_slots,memory_mb,mst\n1,2,3,4\n", 1, "mst", "twice"),
        (HEADER, None, None, "no observations"),
        ("", None, None, "is empty"),
        (HEADER + "1,512,3\n2,512,3\n", None, None, "too few"),
        (HEADER + "4,512,3\n4,512,3\n4,512,4\n", None, None, "measure at least two sizes"),
    ],
)
def test_mistakes_in_the_file_are_named_with_line_and_column(
    tmp_path: Path, text: str, line: int | None, key: str | None, words: str
) -> None:
    file = write(tmp_path, text)
    error = refused(file, "--rate", "10")
    assert str(error).startswith(file)
    assert (error.line, error.key) == (line, key)
    assert words in str(error)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert "no such file" in str(refused(str(tmp_path / "nowhere.csv"), "--rate", "1"))
    assert "is a folder" in str(refused(str(tmp_path), "--rate", "1"))
    (tmp_path / "binary.csv").write_bytes(b"task_slots\n\xff\xfe")
    error = refused(str(tmp_path / "binary.csv"), "--rate", "1")
    assert "not UTF-8" in str(error)
    assert error.line == 2


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (("--rate", "many"), "--rate"),
        (("--rate", "0"), "--rate"),
        (("--rate", "nan"), "--rate"),
        (("--rate", "4", "--headroom", "lots"), "--headroom"),
        (("--rate", "4", "--headroom", "10"), "--headroom"),
        (("--rate", "4", "--family", "cubic"), "--family"),
        (
            (
                "--rate",
                "4",
            ),
            "--memory-mb",
        ),
        (("--rate", "4", "--memory-mb", "-1"), None),
        (("--rate", "4", "--memory-mb", "2048", "--confidence", "100%"), None),
        (("--rate", "4", "--memory-mb", "2048", "--max-slots", "0"), None),
        (("--rate", "4", "--memory-mb", "2048", "--max-slots", "999999999999"), None),
    ],
)
def test_mistakes_in_options_are_named(arguments: tuple[str, ...], key: str | None) -> None:
    assert refused(str(EXAMPLE), *arguments).key == key


def test_help_has_an_example() -> None:
    assert "observations.csv --rate 40000" in run("--help")
