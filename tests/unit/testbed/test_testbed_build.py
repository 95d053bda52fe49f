"""Making and undoing steps on real files: order, repair, foreign objects, failures, the lock, the record."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from pathlib import Path

import pytest
from fognetem import LatencyMatrix
from fognetem import Path as NetworkPath

from fogctl.errors import FogError
from fogctl.testbed import lock, model, state
from fogctl.testbed.build import make, missing, outdated, refuse_foreign, undo
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.ledger import Ledger
from fogctl.testbed.model import Kind, LatencyChange, Node, Role
from fogctl.testbed.steps import STEP_TYPES, LinkFile, MakeFolder, MakeSharedFolder, Step, WriteFile

HOST = LinuxHost()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl", STEP_TYPES, "boot")


@pytest.fixture
def steps(tmp_path: Path) -> list[Step]:
    folder = f"{tmp_path}/made"
    return [MakeFolder(folder), WriteFile(f"{folder}/hosts", "x\n"), LinkFile(f"{folder}/link", "hosts")]


def test_made_once_then_nothing_is_missing_then_undone(
    tmp_path: Path, ledger: Ledger, steps: list[Step]
) -> None:
    assert make(steps, ledger, HOST) == steps
    assert missing(steps, HOST) == []
    assert make(steps, ledger, HOST) == []
    undo(list(reversed(ledger.steps)), ledger, HOST)
    assert ledger.steps == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.jsonl"]


def test_only_what_is_missing_is_made_again(tmp_path: Path, ledger: Ledger, steps: list[Step]) -> None:
    make(steps, ledger, HOST)
    (tmp_path / "made/hosts").write_text("changed by hand\n")
    assert make(steps, ledger, HOST) == steps[1:2]
    assert (tmp_path / "made/hosts").read_text() == "x\n"


def test_undoing_what_is_gone_does_no_harm(tmp_path: Path, ledger: Ledger, steps: list[Step]) -> None:
    for step in steps:
        ledger.record(step)
    undo(list(reversed(steps)), ledger, HOST)
    assert ledger.steps == ()


def test_a_foreign_object_is_refused_before_anything_is_written_down(
    tmp_path: Path, ledger: Ledger, steps: list[Step]
) -> None:
    (tmp_path / "made").mkdir()
    with pytest.raises(FogError, match="was not made by fogctl") as refused:
        make(steps, ledger, HOST)
    assert refused.value.exit_code == 3
    assert ledger.steps == ()
    assert not ledger.file.exists()


def test_an_object_of_ours_with_other_content_is_not_foreign(
    tmp_path: Path, ledger: Ledger, steps: list[Step]
) -> None:
    make(steps, ledger, HOST)
    changed = [steps[0], WriteFile(f"{tmp_path}/made/hosts", "y\n"), steps[2]]
    refuse_foreign(changed, ledger, HOST)
    assert outdated(ledger, changed) == [steps[1]]


def test_a_dangling_link_of_others_is_foreign_too(tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "place").symlink_to("nowhere")
    with pytest.raises(FogError, match="was not made by fogctl"):
        make([WriteFile(f"{tmp_path}/place", "x")], ledger, HOST)


def test_one_step_that_cannot_be_undone_does_not_stop_the_others(
    tmp_path: Path, ledger: Ledger, steps: list[Step]
) -> None:
    make([*steps, WriteFile(f"{tmp_path}/other", "x")], ledger, HOST)
    (tmp_path / "made/foreign").write_text("mine")
    with pytest.raises(FogError, match="holds files that fogctl did not make") as failed:
        undo(list(reversed(ledger.steps)), ledger, HOST)
    assert failed.value.exit_code == 1
    assert ledger.steps == (steps[0],)
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["foreign"]


def test_a_shared_folder_is_ours_only_if_we_or_another_testbed_made_it(
    tmp_path: Path, ledger: Ledger
) -> None:
    shared = MakeSharedFolder(f"{tmp_path}/shared")
    (tmp_path / "shared").mkdir()
    make([shared], ledger, HOST)
    assert shared not in ledger
    make([shared], ledger, HOST, siblings=frozenset([shared]))
    assert shared in ledger
    (tmp_path / "shared/used").touch()
    undo([shared], ledger, HOST)
    assert (tmp_path / "shared").is_dir()


def test_a_shared_folder_that_somebody_makes_in_the_same_moment_is_theirs(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared").mkdir()
    monkeypatch.setattr(MakeSharedFolder, "present", lambda *_: False)
    shared = MakeSharedFolder(f"{tmp_path}/shared")
    assert make([shared], ledger, HOST) == []
    assert shared not in ledger


def test_progress_counts_to_the_end(ledger: Ledger, steps: list[Step]) -> None:
    seen: list[tuple[int, int]] = []
    make(steps, ledger, HOST, lambda done, total, _: seen.append((done, total)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_second_holder_is_told_who_and_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/fogctl", "up", "--testbed", "city.yaml"])
    folder = tmp_path / "city"
    with lock.held(folder), pytest.raises(FogError) as refused, lock.held(folder):
        pass
    assert (
        f"testbed city is being changed by `fogctl up --testbed city.yaml` (pid {os.getpid()}, since "
        in str(refused.value)
    )
    assert refused.value.exit_code == 3
    with lock.held(folder):
        assert lock.holder(folder) is not None
    assert lock.holder(folder) is None


def test_a_lock_whose_folder_was_removed_meanwhile_is_taken_anew(tmp_path: Path) -> None:
    folder = state.StateFolder(tmp_path / "state/city")
    with lock.held(folder.folder):
        folder.remove()
        assert not folder.exists
        with lock.held(folder.folder):
            assert (folder.folder / "lock").exists()


def test_who_only_asks_for_the_holder_keeps_nobody_from_the_lock(tmp_path: Path) -> None:
    asking = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(asking, fcntl.LOCK_SH)  # as `holder` does for a moment
    done = threading.Timer(0.1, os.close, [asking])
    done.start()
    with lock.held(tmp_path):
        assert lock.holder(tmp_path) is not None
    done.join()


def test_what_testbeds_share_has_one_lock_for_every_state_directory() -> None:
    second = os.open(lock.HOST, os.O_RDONLY)
    try:
        with lock.shared_parts(), pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(second, fcntl.LOCK_EX)
    finally:
        os.close(second)


def test_the_record_of_a_testbed_reads_back(tmp_path: Path) -> None:
    nodes = (
        Node("cloud", Role.control, "dc", "host", None, None),
        Node("pi1", Role.edge, "north", "rpi4-4g", 0.2, 1 << 28),
    )
    asked = LatencyMatrix(("cloud", "pi1"), (("cloud", "pi1", NetworkPath(20, 2, 0.001, 1e8)),))
    schedule = (LatencyChange(60.0, "cloud", "pi1", NetworkPath(300)),)
    testbed = model.Testbed("city", Kind.virtual, nodes, asked, schedule, 1.5)
    record = state.Record(testbed, asked.with_path("cloud", "pi1", NetworkPath(80)), "kernel")
    folder = state.StateFolder.of("city", tmp_path)
    folder.folder.mkdir()
    folder.save(record)
    assert folder.load() == record


@pytest.mark.parametrize("name", ["../etc", "a/b", "", "-x", "Fog", "a b"])
def test_a_name_that_could_leave_the_state_directory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FogError):
        state.StateFolder.of(name, tmp_path)
