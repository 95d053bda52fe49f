"""`fogctl board` and `fogctl schema` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fogctl.cli.main import app
from fogctl.config import boards, schema
from fogctl.errors import BAD_INPUT, FogError

runner = CliRunner()


def test_list_shows_every_board() -> None:
    result = runner.invoke(app, ["board", "list"])
    assert result.exit_code == 0
    assert all(name in result.stdout for name in boards.load_all())


def test_list_as_json_has_units_in_its_names() -> None:
    result = runner.invoke(app, ["board", "list", "-o", "json"])
    found = {entry["name"]: entry for entry in json.loads(result.stdout)}
    assert found["rpi4-4g"]["memory_bytes"] == 4 << 30
    assert found["rpi3b-plus"]["nic_bit_s"] == 300e6
    assert found["rock5b-8g"]["cores"] == 8


def test_show_tells_figures_traps_and_sources() -> None:
    result = runner.invoke(app, ["board", "show", "rpi5-4g"])
    assert result.exit_code == 0
    for part in ("Cortex-A76", "cgroup_enable=memory", "trap", "estimate"):
        assert part in result.stdout


def test_show_as_json_is_one_board() -> None:
    result = runner.invoke(app, ["board", "show", "rpi-zero2w", "-o", "json"])
    assert json.loads(result.stdout)["kernel_cmdline"] == ["cgroup_memory=1", "cgroup_enable=memory"]


def test_an_unknown_board_is_bad_input_with_the_nearest_name() -> None:
    result = runner.invoke(app, ["board", "show", "rpi4-3g"])
    assert isinstance(result.exception, FogError)
    assert result.exception.exit_code == BAD_INPUT
    assert 'did you mean "rpi4-4g"?' in str(result.exception)


@pytest.mark.parametrize("command", [["board", "list"], ["board", "show"], ["schema"], ["init"]])
def test_help_has_an_example(command: list[str]) -> None:
    result = runner.invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert "fogctl " + " ".join(command) in result.stdout


def test_schema_prints_or_writes_the_schema(tmp_path: Path) -> None:
    assert runner.invoke(app, ["schema", "board"]).stdout == schema.text(schema.Schema.board)
    result = runner.invoke(app, ["schema", "testbed", "--to", str(tmp_path / "t.json")])
    assert result.exit_code == 0
    assert (tmp_path / "t.json").read_text() == schema.text(schema.Schema.testbed)


def test_a_schema_that_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    result = runner.invoke(app, ["schema", "testbed", "--to", str(tmp_path / "no" / "t.json")])
    assert isinstance(result.exception, FogError)
    assert "cannot be written" in str(result.exception)
