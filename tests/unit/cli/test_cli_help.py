from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from fogctl.cli.lazy import COMMANDS
from fogctl.cli.main import app


def _commands() -> Iterator[tuple[str, Any]]:
    root = get_command(app)
    for name in COMMANDS:
        command = root.get_command(None, name)  # type: ignore[attr-defined]
        assert command is not None, name
        inner = getattr(command, "commands", None)
        if inner:
            yield from ((f"{name} {below}", inner[below]) for below in inner)
        else:
            yield name, command


ALL = dict(_commands())


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_help_with_an_example_of_itself(name: str) -> None:
    text = ALL[name].help or ""
    assert "Example" in text
    assert f"fogctl {name}" in text


@pytest.mark.parametrize("name", ALL)
def test_every_option_says_what_it_is_for(name: str) -> None:
    for parameter in ALL[name].params:
        if parameter.name != "help":
            assert getattr(parameter, "help", None), f"{name}: {parameter.name}"


CHANGE_A_MACHINE = ["up", "down", "app deploy", "net set", "net apply", "net clear", "init"]
CHANGE_BOARDS = ["pi check", "pi provision", "pi reset", "image build"]


@pytest.mark.parametrize("name", CHANGE_A_MACHINE + CHANGE_BOARDS)
def test_what_changes_a_machine_has_a_dry_run(name: str) -> None:
    assert "dry_run" in {parameter.name for parameter in ALL[name].params}


def test_starting_fogctl_imports_nothing_heavy() -> None:
    heavy = ("numpy", "scipy", "pydantic", "pyroute2", "matplotlib", "pyspark")
    code = f"import sys, fogctl.cli.main; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_an_unknown_command_is_bad_usage() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "fogctl", "nett"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "nett" in ran.stderr
    assert "Traceback" not in ran.stderr
