from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fogctl.java import find_java, parse_version


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_292"', 8),
        ("command not found", None),
    ],
)
def test_version_is_read_from_the_banner(banner: str, version: int | None) -> None:
    assert parse_version(banner) == version


def _pretend_java(folder: Path, version: str) -> Path:
    """A program on disk that answers -version as that Java would."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    return executable


def test_java_home_wins_over_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _pretend_java(tmp_path / "home", "21.0.1")
    on_path = _pretend_java(tmp_path / "path", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(on_path.parent), prepend=":")
    java = find_java()
    assert java is not None
    assert (java.executable, java.version, java.origin) == (home, 21, "JAVA_HOME")
    assert java.home == tmp_path / "home"


def test_too_old_a_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend_java(tmp_path / "old", "1.8.0_292")
    newer = _pretend_java(tmp_path / "newer", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(newer.parent), prepend=":")
    java = find_java()
    assert java is not None
    assert java.executable == newer


def test_a_java_that_does_not_start_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    java = find_java()
    assert java is None or java.origin != "JAVA_HOME"


def test_a_java_without_the_module_that_spark_adds_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = _pretend_java(tmp_path / "small", "21.0.1")
    small.write_text('#!/bin/sh\n[ "$1" = -version ] || exit 1\necho "openjdk version \\"21\\""\n')
    whole = _pretend_java(tmp_path / "whole", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "small"))
    monkeypatch.setenv("PATH", str(whole.parent), prepend=":")
    java = find_java()
    assert java is not None
    assert java.executable == whole
