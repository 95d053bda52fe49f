"""The ledger on a host: what was recorded first is what comes back, also after power was lost half-way."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fogctl import data


def load_ledger() -> ModuleType:
    """The collection's own module, which runs on hosts and is no package of ours."""
    file = data.path("playbooks") / "ansible_collections/fogctl/pi/plugins/module_utils/ledger.py"
    spec = importlib.util.spec_from_file_location("fogctl_pi_ledger", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


ledger_module = load_ledger()


@pytest.fixture
def ledger(tmp_path: Path):  # type: ignore[no-untyped-def]
    return ledger_module.Ledger(str(tmp_path / "ledger"))


def test_a_changed_file_comes_back_with_mode_and_time(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "cmdline.txt"
    file.write_text("console=tty1 root=/dev/sda2\n")
    file.chmod(0o640)
    os.utime(file, ns=(1_000_000_007, 2_000_000_009))
    assert ledger.record("file", str(file))
    file.write_text("something else")
    file.chmod(0o600)
    done, left = ledger.restore()
    assert (done, left) == ([f"restored {file}"], [])
    assert file.read_text() == "console=tty1 root=/dev/sda2\n"
    assert (file.stat().st_mode & 0o777, file.stat().st_mtime_ns) == (0o640, 2_000_000_009)
    assert not ledger.folder.exists()


def test_only_the_first_record_counts(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "a"
    file.write_text("first")
    assert ledger.record("file", str(file))
    file.write_text("second")
    assert not ledger.record("file", str(file))
    ledger.restore()
    assert file.read_text() == "first"


def test_what_was_not_there_goes_with_the_folders_made_for_it(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "new" / "folder" / "file"
    tree = tmp_path / "data"
    ledger.record("file", str(file))
    ledger.record("tree", str(tree))
    file.parent.mkdir(parents=True)
    file.write_text("x")
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "file").write_text("x")
    ledger.restore()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_which_somebody_else_put_something_stays(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "new" / "file"
    ledger.record("file", str(file))
    file.parent.mkdir()
    file.write_text("x")
    (tmp_path / "new" / "theirs").write_text("y")
    ledger.restore()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["theirs"]


def test_a_tree_that_was_there_is_not_touched(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("x")
    ledger.record("tree", str(tmp_path / "theirs"))
    ledger.restore()
    assert (tmp_path / "theirs" / "file").read_text() == "x"


def test_a_link_comes_back_as_a_link(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    link = tmp_path / "link"
    link.symlink_to("somewhere")
    ledger.record("file", str(link))
    link.unlink()
    link.write_text("a file now")
    ledger.restore()
    assert str(link.readlink()) == "somewhere"


def test_check_mode_writes_and_restores_nothing(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "a"
    assert ledger.record("file", str(file), check=True)
    assert not ledger.folder.exists()
    ledger.record("file", str(file))
    file.write_text("x")
    assert ledger.restore(check=True) == ([f"removed {file}"], [])
    assert file.exists()
    assert ledger.entries()


def test_power_lost_between_record_and_change_restores_to_the_same(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "a"
    file.write_text("as it was")
    ledger.record("file", str(file))
    assert ledger.restore() == ([], [])
    assert file.read_text() == "as it was"


def test_a_line_that_was_cut_short_is_no_entry(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "a"
    ledger.record("file", str(file))
    with ledger.file.open("a") as stream:
        stream.write('{"kind": "file", "na')
    assert [entry["name"] for entry in ledger.entries()] == [str(file)]
    ledger.record("file", str(tmp_path / "b"))
    assert len(ledger.entries()) == 2


def test_what_cannot_be_restored_is_said_and_stays_in_the_ledger(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "a"
    file.write_text("x")
    ledger.record("file", str(file))
    ledger.add({"kind": "spell", "name": "abracadabra"})
    file.write_text("y")
    done, left = ledger.restore()
    assert done == [f"restored {file}"]
    assert len(left) == 1
    assert "newer fogctl" in left[0]
    assert [entry["kind"] for entry in map(json.loads, ledger.file.read_text().splitlines())] == ["spell"]


def test_only_additions_count_as_new_packages() -> None:
    simulated = (
        "Reading package lists...\n"
        "Inst libc6 [2.36-9] (2.36-10 Debian:12/stable [arm64])\n"
        "Inst prometheus-node-exporter (1.5.0-1+b6 Debian:12.1/stable [arm64])\n"
        "Conf prometheus-node-exporter (1.5.0-1+b6 Debian:12.1/stable [arm64])\n"
    )
    assert ledger_module.new_packages(simulated) == ["prometheus-node-exporter"]


def test_the_ledger_is_for_root_only(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "secret"
    file.write_text("x")
    ledger.record("file", str(file))
    assert ledger.folder.stat().st_mode & 0o777 == 0o700
