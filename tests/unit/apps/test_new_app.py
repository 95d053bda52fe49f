"""`fogctl app new`: what it writes loads, and what is there already stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fogctl.errors import FogError
from fogctl.runtime.app import load
from fogctl.runtime.new_app import FILES, new_app


def test_a_new_app_loads_under_its_name(tmp_path: Path) -> None:
    written = new_app(tmp_path / "deep" / "mine", "mine")
    assert [path.name for path in written] == list(FILES)
    app = load(tmp_path / "deep" / "mine")
    assert app.name == "mine"
    assert app.topics == {"mine.lines": 8, "mine.counts": 8}


def test_nothing_of_the_template_s_name_is_left(tmp_path: Path) -> None:
    for path in new_app(tmp_path, "weather"):
        assert "my-app" not in path.read_text()
        assert "weather" in path.read_text()


@pytest.mark.parametrize("file", FILES)
def test_what_is_there_stays_and_nothing_is_added(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text("mine")
    with pytest.raises(FogError, match=rf"{file}: exists already"):
        new_app(tmp_path, "mine")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {file: "mine"}


def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "app.py").symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(FogError, match="exists already"):
        new_app(tmp_path, "mine")
    assert not (tmp_path / "elsewhere.py").exists()


@pytest.mark.parametrize("name", ["", "Mine", "a b", "../up", "1st", "a/b", "x" * 32, "ok\n", "ü"])
def test_a_bad_name_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(FogError, match="is not a name: use 1 to 31 lower-case letters") as caught:
        new_app(tmp_path / "folder", name)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "folder").exists()


def test_the_name_of_a_shipped_app_is_taken(tmp_path: Path) -> None:
    with pytest.raises(FogError, match=r'"taxi" is an app that comes with fogctl \(choose another name\)'):
        new_app(tmp_path / "taxi", "taxi")


def test_a_file_in_the_folder_s_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(FogError, match=r"mine: is a file \(name a folder\)"):
        new_app(tmp_path / "mine", "mine")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FogError, match="cannot be written: Permission denied"):
        new_app(tmp_path / "mine", "mine")


def test_a_folder_below_a_file_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FogError, match="cannot be written: Not a directory"):
        new_app(tmp_path / "file" / "mine", "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
