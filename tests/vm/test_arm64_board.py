"""A board of a Pi's own architecture: an arm64 guest is checked, prepared and given back over SSH."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.vm.board import CMDLINE, Board, Flashed
from tests.vm.guest import Plug
from tests.vm.image import get_image
from tests.vm.machine import ARM64
from tests.vm.shelf import Controlled, snapshot
from tests.vm.warm import SET_UP

pytestmark = pytest.mark.skipif(not os.environ.get("ARM64"), reason="arm64 is emulated: make test-vm ARM64=1")
ON_ITS_CARD = Flashed(CMDLINE, {CMDLINE: f"root=/dev/vda console={ARM64.console}\n".encode()})
# The guest has no way out to fetch a time service from.
SETTINGS = "prepare_time: keep\n"


@dataclass(frozen=True)
class Arm(Controlled):
    """The board, and what it was like."""

    board: Board
    before: str
    say: Callable[[str], None]

    def timed(self, what: str, *arguments: str) -> dict[str, Any]:
        """What a command of fogctl that must succeed says to programs, and how long it took."""
        began = time.monotonic()
        told = self.asked(0, *arguments)
        self.say(f"arm64 board: {what}: {time.monotonic() - began:.0f} s, {told.get('changed')} changed")
        return told


@pytest.fixture(scope="module")
def arm(say: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arm]:
    if not shutil.which(ARM64.emulator):
        pytest.skip(f"no {ARM64.emulator}: install tests/vm/packages-arm64.txt")
    image = get_image(ARM64, say)
    folder = tmp_path_factory.mktemp("arm")
    plug, _ = Plug.cable(folder)
    with Board(image, "arm", ON_ITS_CARD, plug, "10.98.0.1") as board:
        assert isinstance(board, Board)
        say(f"arm64 board: up after {board.boot_seconds:.0f} s")
        key = f"key={image.key}"
        (folder / "hosts.txt").write_text(f"arm root@127.0.0.1:{board.port} data=10.98.0.1 {key}\n")
        (folder / "vars.yaml").write_text(SETTINGS)
        board.run(SET_UP)
        yield Arm(folder, board, snapshot(board), say)


def test_an_arm64_board_is_found_fit(arm: Arm) -> None:
    arm.asked(0, "init", "arm", "--kind", "k3s", "--hosts", "hosts.txt", "--no-up")
    told = arm.timed("pi check", "pi", "check", "--yes")
    (facts,) = told["hosts"]
    assert facts["machine"] == "aarch64"
    assert told["blocked"] == []


def test_it_is_prepared_and_a_second_run_changes_nothing(arm: Arm) -> None:
    arguments = ("pi", "provision", "-p", "prepare", "-p", "netem", "--vars", "vars.yaml")
    assert arm.timed("prepare and netem", *arguments)["changed"] > 0
    assert "/dev/zram0" in arm.board.run("cat /proc/swaps").stdout
    assert arm.board.run("sysctl -n net.ipv4.ip_forward kernel.panic").stdout.split() == ["1", "10"]
    arm.board.run("test -e /sys/module/sch_netem")
    assert arm.timed("the same again", *arguments)["changed"] == 0


def test_k3s_for_arm64_is_the_one_that_is_looked_for(arm: Arm) -> None:
    empty = arm.folder / "release"
    empty.mkdir()
    said = arm.refused(1, "pi", "provision", "-p", "k3s", "--artefacts", str(empty))
    assert [line for line in said if line.startswith("arm: ") and "release/k3s-arm64 is not there" in line]


def test_it_is_given_back(arm: Arm) -> None:
    assert arm.timed("reset", "pi", "reset")["failures"] == {}
    assert set(snapshot(arm.board).splitlines()) ^ set(arm.before.splitlines()) == set()
    assert arm.timed("reset again", "pi", "reset")["changed"] == 0
