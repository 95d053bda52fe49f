"""The commands of docs/traces.md are commands that exist, with options that exist."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from fogctl.cli.trace import app

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "traces.md").read_text(encoding="utf-8")
LINES = [
    line.removeprefix("sudo ").removeprefix("fogctl trace ")
    for line in GUIDE.split("```")[1].splitlines()
    if "fogctl trace" in line
]


def test_every_command_is_shown() -> None:
    shown = {line.split()[0] for line in LINES}
    assert shown == set(get_command(app).commands) - {"fit"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_guide_is_understood(line: str) -> None:
    name, *arguments = shlex.split(line, comments=True)
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    assert command.make_context(name, arguments).params["file" if name != "fetch" else "month"] is not None
