"""What fogctl did not make, it neither uses nor removes; and only one fogctl changes a testbed at a time."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fogctl.testbed import lock
from fogctl.testbed.host import LinuxHost

Fogctl = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[..., Path]
Snapshot = Callable[[], dict[str, object]]

pytestmark = pytest.mark.alone


@pytest.fixture
def namespace() -> Iterator[Callable[[str], None]]:
    """Make network namespaces the way other people do."""
    made = []

    def add(name: str) -> None:
        subprocess.run(["ip", "netns", "add", name], check=True)
        made.append(name)

    yield add
    for name in made:
        subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.fixture
def group() -> Iterator[Callable[[str], Path]]:
    """Make control groups the way other people do."""
    made = []

    def add(name: str) -> Path:
        where = LinuxHost().cgroup_hierarchies().cpu
        assert where is not None
        path = Path(where.group(name))
        path.mkdir()
        made.append(path)
        return path

    yield add
    for path in made:
        path.rmdir()


def test_similar_names_of_others_survive_up_and_down(
    fogctl: Fogctl,
    testbed_file: Write,
    name: str,
    namespace: Callable[[str], None],
    group: Callable[[str], Path],
    snapshot: Snapshot,
) -> None:
    for foreign in (
        f"fog-{name}x",
        f"fog-{name}x-pi1",
        f"fog-{name}-pi",
        f"fog-{name}-pi10",
        f"other-{name}",
    ):
        namespace(foreign)
    group(f"fog-{name}x")
    testbed_file()
    before = snapshot()
    assert fogctl("up").returncode == 0
    assert fogctl("down").returncode == 0
    assert snapshot() == before
    assert Path(f"/run/netns/fog-{name}-pi10").exists()


def test_a_foreign_namespace_in_our_place_is_refused_and_nothing_is_changed(
    fogctl: Fogctl, testbed_file: Write, name: str, namespace: Callable[[str], None], snapshot: Snapshot
) -> None:
    namespace(f"fog-{name}-pi1")
    inode = Path(f"/run/netns/fog-{name}-pi1").stat().st_ino
    testbed_file()
    before = snapshot()
    done = fogctl("up")
    assert done.returncode == 3
    assert f"network namespace fog-{name}-pi1 exists and was not made by fogctl" in done.stderr
    assert fogctl("down").returncode == 0
    assert snapshot() == before
    assert Path(f"/run/netns/fog-{name}-pi1").stat().st_ino == inode


def test_a_foreign_control_group_in_our_place_is_refused_and_nothing_is_changed(
    fogctl: Fogctl, testbed_file: Write, name: str, group: Callable[[str], Path], snapshot: Snapshot
) -> None:
    path = group(f"fog-{name}")
    testbed_file()
    before = snapshot()
    done = fogctl("up")
    assert (done.returncode, str(path) in done.stderr) == (3, True)
    assert fogctl("down").returncode == 0
    assert snapshot() == before


def test_a_foreign_file_in_our_folder_stops_down_until_it_is_moved(
    fogctl: Fogctl, testbed_file: Write, name: str, snapshot: Snapshot
) -> None:
    testbed_file()
    before = snapshot()
    assert fogctl("up").returncode == 0
    foreign = Path(f"/etc/netns/fog-{name}-pi1/resolv.conf")
    foreign.write_text("nameserver 10.77.0.1\n")
    done = fogctl("down")
    assert (done.returncode, "resolv.conf" in done.stderr) == (1, True)
    assert foreign.read_text() == "nameserver 10.77.0.1\n"
    foreign.unlink()
    assert fogctl("down").returncode == 0
    assert snapshot() == before


def test_doctor_finds_orphans_and_says_how_to_remove_them(
    fogctl: Fogctl,
    testbed_file: Write,
    name: str,
    namespace: Callable[[str], None],
    group: Callable[[str], Path],
) -> None:
    namespace(f"fog-{name}-orphan")
    path = group(f"fog-{name}orphan")
    testbed_file(pis=1)
    assert fogctl("up").returncode == 0
    done = fogctl("doctor", "-o", "json")
    assert done.returncode == 1
    problems = {
        finding["says"]: finding["fix"]
        for finding in json.loads(done.stdout)
        if finding["verdict"] == "problem"
    }
    mine = {says: fix for says, fix in problems.items() if f"fog-{name}" in says}
    assert sorted(says.split()[0] for says in mine) == sorted([f"/run/netns/fog-{name}-orphan", str(path)])
    assert any(f"ip netns del fog-{name}-orphan" in fix for fix in mine.values())


def test_a_second_fogctl_is_told_who_changes_the_testbed(
    fogctl: Fogctl, testbed_file: Write, name: str, state_dir: Path, snapshot: Snapshot
) -> None:
    testbed_file()
    before = snapshot()
    with lock.held(state_dir / name):
        done = [fogctl("up"), fogctl("down")]
    for refused in done:
        assert refused.returncode == 3
        assert f"testbed {name} is being changed by `fogctl" in refused.stderr
        assert f"(pid {os.getpid()}, since " in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    assert fogctl("down").returncode == 0
    assert snapshot() == before


def test_of_two_fogctl_up_at_once_one_wins_and_the_other_is_refused_or_finds_it_done(
    fogctl: Fogctl, fogctl_argv: list[str], testbed_file: Write, snapshot: Snapshot
) -> None:
    file = testbed_file()
    before = snapshot()
    both = [
        subprocess.Popen(
            [*fogctl_argv, "up"], cwd=file.parent, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [child.communicate(timeout=120) for child in both]
    codes = sorted(child.returncode for child in both)
    assert codes in ([0, 0], [0, 3]), said
    assert fogctl("status").returncode == 0
    assert fogctl("down").returncode == 0
    assert snapshot() == before
