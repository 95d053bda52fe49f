"""Folders of runs that were killed go at the next run; those in use stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fogctl.pi import scratch
from fogctl.pi.scratch import scratch_folder


def killed_run(where: Path) -> Path:
    """What a run leaves that was killed with SIGKILL."""
    program = (
        "import os, pathlib, signal, sys\n"
        "from fogctl.pi.scratch import scratch_folder\n"
        "with scratch_folder(pathlib.Path(sys.argv[1])) as folder:\n"
        "    (folder / 'variables.json').write_text('secret')\n"
        "    print(folder, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(where)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -9, done.stderr
    return Path(done.stdout.strip())


def test_what_a_killed_run_left_goes_at_the_next_run(tmp_path: Path) -> None:
    left = killed_run(tmp_path)
    assert (left / "variables.json").exists()
    with scratch_folder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_a_run_beside_keeps_its_folder(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as first, scratch_folder(tmp_path) as second:
        assert {first, second} == set(tmp_path.iterdir())


def test_a_folder_that_ansible_or_ssh_still_works_in_stays(tmp_path: Path) -> None:
    left = killed_run(tmp_path)
    argv = [sys.executable, "-c", "input()"]
    environment = {**os.environ, "ANSIBLE_CONFIG": f"{left}/ansible.cfg"}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment) as orphan:
        scratch.sweep(tmp_path)
        assert left.exists()
        orphan.communicate(b"\n")
    scratch.sweep(tmp_path)
    assert not left.exists()


def test_a_folder_without_a_lock_stays_for_a_day(tmp_path: Path) -> None:
    """It may be just being made, or of a fogctl that made no locks."""
    young, old = tmp_path / "fogpi-young", tmp_path / "fogpi-old"
    for folder in (young, old):
        folder.mkdir()
    os.utime(old, (1, 1))
    scratch.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [young]


def test_what_is_somebody_elses_or_a_link_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, kept = killed_run(tmp_path), tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "fogpi-link").symlink_to(kept)
    monkeypatch.setattr(scratch.os, "geteuid", lambda: 12345)
    scratch.sweep(tmp_path)
    assert theirs.exists()
    monkeypatch.undo()
    scratch.sweep(tmp_path)
    assert kept.exists()
