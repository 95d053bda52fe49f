"""Every example in the docs runs, says something, and is mentioned where readers look for it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SCRIPTS = sorted((DOCS / "examples").glob("*.py"))


def test_there_are_examples() -> None:
    assert SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_runs_and_prints(
    script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.chdir(tmp_path)  # an example must not lean on, or litter, the folder it is started from
    code: object = 0
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as left:
        code = left.code or 0
    assert code == 0
    assert capsys.readouterr().out.strip()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_is_mentioned_in_the_docs(script: Path) -> None:
    assert f"examples/{script.name}" in (DOCS / "models.md").read_text(encoding="utf-8")
