"""The planning guide shows what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fogctl.cli.plan import app

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "planning.md").read_text(encoding="utf-8")
FENCED = re.findall(r"^ *```\n(.*?)^ *```$", GUIDE, re.MULTILINE | re.DOTALL)


def shown() -> list[tuple[list[str], list[str]]]:
    """Each command with the lines below it; an ellipsis leaves some out."""
    found: list[tuple[list[str], list[str]]] = []
    for block in FENCED:
        for line in (line.strip() for line in block.splitlines()):
            if line.startswith("$ fogctl plan "):
                found.append((shlex.split(line)[3:], []))
            elif line != "…":
                found[-1][1].append(line)
    return found


def test_commands_print_what_the_guide_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = shown()
    assert len(commands) >= 6
    for arguments, lines in commands:
        # The spread is shown after the fifth estimate.
        times = 5 if arguments[0] == "measure" else 1
        for _ in range(times):
            ran = CliRunner().invoke(app, arguments, catch_exceptions=False)
            assert ran.exit_code == 0
        printed = iter([line.rstrip() for line in ran.output.splitlines()])
        for line in lines:
            assert line in printed, f"{shlex.join(arguments)} does not print, in this order: {line}"


def test_what_needs_a_testbed_is_marked_and_shown_without_output() -> None:
    assert "sudo" not in "".join(FENCED)
    assert GUIDE.count("sudo fogctl plan") == GUIDE.count("*(testbed)*:\n   `sudo fogctl plan")
