"""The Go programs of these tests: built once, then found while their source is the same."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kube import programs
from tests.kube.programs import NoGoError, Program, get_program

HELLO = 'package main\n\nfunc main() { println("%s") }\n'


@pytest.fixture
def hello(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A program of a few lines, and a cache of its own."""
    folder = tmp_path / "source" / "hello"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module fogctl.test/hello\n\ngo 1.21\n")
    (folder / "main.go").write_text(HELLO % "first")
    monkeypatch.setattr(programs, "HERE", folder.parent)
    monkeypatch.setenv("FOGCTL_KUBE_CACHE", str(tmp_path / "cache"))
    return Program("hello")


def test_a_program_is_built_once_and_again_only_when_its_source_has_changed(hello: Program) -> None:
    said: list[str] = []
    try:
        first = get_program(hello, said.append)
    except NoGoError as reason:
        pytest.skip(str(reason))
    assert [line.split()[1] for line in said] == ["building,", "built"]
    made = first.stat().st_mtime_ns
    assert get_program(hello, said.append) == first
    assert (len(said), first.stat().st_mtime_ns) == (2, made), "it was found"
    (hello.folder / "notes.txt").write_text("what is no source does not count")
    assert get_program(hello, said.append) == first
    (hello.folder / "main.go").write_text(HELLO % "second")
    second = get_program(hello, said.append)
    assert second != first
    assert subprocess.run([second], capture_output=True, text=True, check=True).stderr == "second\n"
    assert sorted(first.parent.glob("hello-*")) == sorted([first, second]), "nothing half-built is left"


def test_source_that_does_not_build_leaves_nothing_and_is_quoted(hello: Program) -> None:
    (hello.folder / "main.go").write_text("package main\n\nfunc main() { nonsense }\n")
    try:
        with pytest.raises(RuntimeError, match=r"(?s)building tests/kube/hello failed.*undefined: nonsense"):
            get_program(hello, lambda _: None)
    except NoGoError as reason:
        pytest.skip(str(reason))
    assert list(programs.cache_folder().glob("*hello-*")) == []
    assert list(programs.cache_folder().glob("building-*")) == []


def test_where_go_is_too_old_the_reason_to_skip_is_one_sentence(
    hello: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = tmp_path / "bin" / "go"
    older.parent.mkdir()
    older.write_text('#!/bin/sh\necho "go version go1.19.8 linux/amd64"\n')
    older.chmod(0o755)
    monkeypatch.setenv("PATH", f"{older.parent}:{os.environ['PATH']}")
    assert shutil.which("go") == str(older)
    with pytest.raises(NoGoError) as told:
        get_program(hello)
    assert "'go version go1.19.8 linux/amd64' is too old to build Kubernetes v1.36.3" in str(told.value)
    assert "\n" not in str(told.value)
