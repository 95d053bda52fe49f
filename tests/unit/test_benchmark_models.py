"""The runner of the model benchmarks: what it prints, and that nothing missing or broken stays unseen."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

RUNNER = Path(__file__).parents[2] / "benchmarks" / "models.py"

GOOD = """
from benchmarks.row import Row
def rows():
    yield Row("a sum", 2.0, "CPU ms", target=4.0, peer=8.0, peer_name="Peer", note="same | result")
    yield Row("cases", 3, "cases", target=3, more_is_better=True)
"""


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("benchmark_models_under_test", RUNNER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PARTS", ("good",))
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.py").write_text(GOOD)
    return tmp_path


def test_rows_are_shown_with_target_peer_and_ratio(
    runner: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner.main([], folder) == 0
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if "a sum" in line)
    assert line.split() == [
        "good",
        "a",
        "sum",
        "2",
        "CPU",
        "ms",
        "≤",
        "4",
        "yes",
        "8",
        "Peer",
        "4×",
        "same",
        "|",
        "result",
    ]
    assert "≥ 3" in out
    assert "machine: cpu" in out


def test_json_carries_the_same_and_the_machine(
    runner: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner.main(["-o", "json"], folder) == 0
    data = json.loads(capsys.readouterr().out)
    assert [(row["what"], row["met"], row["ratio"]) for row in data["rows"]] == [
        ("a sum", True, 4.0),
        ("cases", True, None),
    ]
    assert data["failures"] == {}
    assert {"cpu", "cores", "python", "numpy"} <= data["machine"].keys()


def test_a_part_that_raises_is_a_failure_and_keeps_what_it_had(
    runner: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.py").write_text(GOOD + "    raise RuntimeError('no luck')\n")
    assert runner.main([], folder) == 1
    out = capsys.readouterr().out
    assert "FAILED broken: RuntimeError: no luck" in out
    assert out.count("a sum") == 2


def test_a_part_that_is_not_there_is_a_failure(
    runner: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PARTS", ("good", "absent"))
    assert runner.main([], folder) == 1
    assert "FAILED absent: no such module" in capsys.readouterr().out
    assert runner.main(["--only", "good"], folder) == 0


def test_a_missed_target_fails_the_run(
    runner: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "slow.py").write_text(
        "from benchmarks.row import Row\ndef rows():\n    yield Row('slow', 9.0, 's', target=1.0)\n"
    )
    assert runner.main(["--only", "slow"], folder) == 1
    assert "NO" in capsys.readouterr().out


def test_missing_peers_are_named(
    runner: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PEERS", {"no_such_solver_module": "Imaginary"})
    runner.main([], folder)
    assert "peers not installed here: Imaginary" in capsys.readouterr().out


def test_markdown_is_one_table_with_escaped_cells(runner: ModuleType, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "figures.md"
    assert runner.main(["--markdown", str(target)], folder) == 0
    text = target.read_text()
    assert "same \\| result" in text
    assert text.startswith("| part | what |")
