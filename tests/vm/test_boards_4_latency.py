"""Boards over SSH, latencies: kernel netem on the cable between two machines, verified, never in the way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fogctl.config import testbed
from fogctl.kube.running import KubeRunning
from tests.vm.board import Board
from tests.vm.shelf import Shelf


@pytest.fixture(scope="module")
def bed(shelf: Shelf) -> Iterator[str]:
    """The testbed as `up` leaves it, but for the cluster: there is no k3s on these boards."""
    shelf.asked(0, "pi", "provision", "-p", "netem")
    KubeRunning.without_cluster(
        testbed.load(shelf.folder / "testbed.yaml"), Path(shelf.environment["FOGCTL_STATE_DIR"])
    )
    yield "shelf"
    shelf.fogctl("down", "shelf")


def eventually(holds: Callable[[], bool], limit_s: float = 120) -> bool:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(1)
    return False


def impaired(board: Board) -> bool:
    return "netem" in board.run("tc qdisc show dev eth1").stdout


def verified(shelf: Shelf, bed: str) -> None:
    """`net verify` finds what was asked for; it refuses while guests have no time to answer."""
    said = ""

    def passes() -> bool:
        nonlocal said
        done = shelf.fogctl("net", "verify", "-t", bed, "--tolerance", "15ms", "-o", "json")
        assert done.returncode in (0, 3), done.stdout + done.stderr
        (pair,) = json.loads(done.stdout)["pairs"]
        said = done.stderr
        return pair["ok"] and done.returncode == 0 and abs(pair["error_ms"]) < 15

    assert eventually(passes, limit_s=300), said


def sent(board: Board) -> int:
    """How many bytes the tree on the cable has let out."""
    return int(board.run("tc -s qdisc show dev eth1 root").stdout.split("Sent")[1].split()[0])


def test_a_latency_between_two_boards_is_the_one_that_was_asked_for(shelf: Shelf, bed: str) -> None:
    shelf.asked(0, "net", "set", "north", "south", "--rtt", "80ms", "-t", bed)
    verified(shelf, bed)
    # SSH comes by another way, and would be let through on this one too.
    assert not any("eth0" in board.run("fog-netem show").stdout for board in shelf.boards)


def test_a_change_is_made_in_place_and_verified_again(shelf: Shelf, bed: str) -> None:
    before = sent(shelf.north)
    shelf.asked(0, "net", "set", "north", "south", "--rtt", "160ms", "-t", bed)
    # A tree that was made anew would count from 0.
    assert sent(shelf.north) >= before > 0
    verified(shelf, bed)


def test_losing_everything_between_nodes_locks_nobody_out(shelf: Shelf, bed: str) -> None:
    shelf.asked(0, "net", "set", "north", "south", "--loss", "100%", "-t", bed)
    assert shelf.north.run("ping -q -c 3 -i 0.3 -W 2 10.98.0.2", check=False).code == 1
    # Even over the impaired cable itself SSH and the API server's port answer.
    reach = "timeout 60 bash -c 'exec 3<>/dev/tcp/10.98.0.2/22; head -c 7 <&3'"
    assert shelf.north.run(reach).stdout == "SSH-2.0"
    shelf.asked(0, "net", "verify", "-t", bed)  # what was asked for is what there is


def test_latencies_that_nobody_renews_are_cleared(shelf: Shelf, bed: str) -> None:
    """The job that renews them is gone, as after a crash of the controlling machine."""
    assert all(impaired(board) for board in shelf.boards)
    stop_renewal(shelf)
    for board in shelf.boards:
        board.run("fog-netem renew 5")
    assert all(eventually(lambda board=board: not impaired(board)) for board in shelf.boards)  # type: ignore[misc]
    said = shelf.refused(1, "net", "verify", "-t", bed)
    assert "fogctl net apply" in said[-1]


def test_down_clears_every_machine(shelf: Shelf, bed: str) -> None:
    shelf.asked(0, "net", "set", "north", "south", "--loss", "0%", "--rtt", "20ms", "-t", bed)
    shelf.asked(0, "net", "apply", "-t", bed)
    done = shelf.fogctl("down", bed)
    assert done.returncode == 0, done.stderr
    assert not any(impaired(board) for board in shelf.boards)
    for board in shelf.boards:
        assert board.run("systemctl list-units --all --plain --no-legend 'fog-netem-*'").stdout == ""


def stop_renewal(shelf: Shelf) -> None:
    from fogctl.kube.background import Jobs
    from fogctl.kube.latency import RENEWAL

    Jobs(Path(shelf.environment["FOGCTL_STATE_DIR"]) / "shelf").stop(RENEWAL)
