"""Everything that can break under a running app breaks in turn; it recovers by itself and no record is lost.

One testbed, one deployment, records flowing all the time. After each fault the time is printed until a record
that was sent after it is processed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_testbed import PATIENCE_S, Fogctl, Replay, Tell, audited, eventually, ok, records_in

from fogctl.runtime import faults, supervised, supervisor_report
from fogctl.runtime.control import ask, stage_socket
from fogctl.testbed import processes
from fogctl.testbed.running import Running

pytestmark = pytest.mark.timeout(900)
APP, INPUT = "identity", "identity.records"
CUT_S = 30.0


@pytest.fixture
def bed(bring_up: Callable[..., Running]) -> Iterator[Running]:
    """A control node, a broker whose disk is small, and two Pis, 5 ms away."""
    running = bring_up()
    disk = running.state.folder / "broker" / "log"
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)], check=True)
    try:
        yield running
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


class Watch:
    """Sees how far the stage has come."""

    def __init__(self, running: Running) -> None:
        self._socket = stage_socket(running.state.folder, APP, "copy")
        self._running = running

    def processed(self) -> int:
        """The sum of the offsets up to which the stage has processed; -1 if it does not answer."""
        with contextlib.suppress(Exception):
            last = ask(self._socket, {"ask": "status"})["last"]
            offsets = last["sources"][0]["endOffset"]
            offsets = json.loads(offsets) if isinstance(offsets, str) else offsets
            return sum(sum(topic.values()) for topic in offsets.values())
        return -1

    def arrived(self) -> int:
        """How many records the broker holds for the stage."""
        return records_in(self._running, INPUT)

    def until(self, offset: int, what: str) -> None:
        """Return when the stage has processed more than this."""
        eventually(lambda: self.processed() > offset, f"{what}: {offset} processed", pause_s=0.25)

    def nodes(self) -> list[str]:
        """The nodes whose executors the driver has."""
        with contextlib.suppress(Exception):
            return sorted(each["node"] for each in ask(self._socket, {"ask": "status"})["executors"])
        return []

    def whole(self, what: str) -> None:
        """Return when both replicas are back, with their own CPU share."""
        deadline = time.monotonic() + PATIENCE_S
        quotas = [Path(self._running.groups(node)[0], "cpu.cfs_quota_us") for node in ("pi1", "pi2")]
        while self.nodes() != ["pi1", "pi2"] or any(
            quota.exists() and quota.read_text().strip() == "-1" for quota in quotas
        ):
            assert time.monotonic() < deadline, f"{what}: only {self.nodes()} came back"
            time.sleep(0.25)


def test_each_part_breaks_in_turn_under_load_and_nothing_is_lost(
    fogctl: Fogctl, fogctl_argv: list[str], bed: Running, tmp_path: Path, tell: Tell
) -> None:
    ok(fogctl("trace", "make", "rides.csv", "--days", "0.1", "--rides", "350000", "--seed", "1"))
    ok(fogctl("app", "deploy", APP, "--on", "pi1,pi2"))
    # About 40 records a second.
    with Replay(fogctl_argv, tmp_path, "rides.csv", "--app", APP, "--speed", "10") as replay:
        break_everything(fogctl, bed, Watch(bed), tell)
        replay.stop()
    result = audited(fogctl, APP)
    tell(f"audit: {result}")
    assert result["sent"] > 1000
    assert (result["lost"], result["foreign"]) == (0, 0)


def break_everything(fogctl: Fogctl, bed: Running, watch: Watch, tell: Tell) -> None:
    """One fault after the other, each when everything is well again."""
    watch.until(0, "start")

    def measured(what: str, break_it: Callable[[], float | None], *, then: str | None = None) -> None:
        """Break something; wait until records sent afterwards come through; restore; wait for all to be back.

        A fault that answers a time is measured from then on.
        """
        arrived = watch.arrived()
        began = time.monotonic()
        began = break_it() or began
        watch.until(arrived + 1, what)
        recovered_s = time.monotonic() - began
        for fault in faults.restoring(bed, [then]) if then else ():
            faults.restore(bed, fault)
        watch.whole(what)
        whole_s = time.monotonic() - began
        tell(f"{what}: processing after {recovered_s:.1f} s, whole after {whole_s:.1f} s")

    def kill(*words: str) -> Callable[[], None]:
        return lambda: faults.kill(bed, *faults.killing(bed, words, None))

    measured("executor killed", kill("executor", "pi1"))
    measured("supervisor and executor killed", lambda: kill_supervisor_and_executor(bed))
    measured("master killed", kill("master"))
    measured("driver killed", kill("driver"))
    measured("broker killed", kill("broker"))
    measured("delay line killed", kill("delay-line"))
    measured("node without power", kill("pi1"), then="pi1")
    measured("link cut for 30 s", lambda: cut_link(bed))
    measured("broker's disk full, then freed", lambda: fill_disk_and_free_it(fogctl, bed))


def cut_link(bed: Running) -> None:
    """No packet between a replica and its driver for half a minute."""
    faults.cut(bed, faults.cutting(bed, "pi2", "cloud", CUT_S))


def kill_supervisor_and_executor(bed: Running) -> None:
    """The supervisor dies first; whoever makes the next fault wakes another, as the command line does."""
    group = bed.part_groups(supervised.node(bed.testbed), supervised.PART)[0]
    for pid in processes.in_group(group):
        with contextlib.suppress(ProcessLookupError):  # what it just started has a life of its own
            os.kill(pid, signal.SIGKILL)
    # A killed process holds its lock until it is gone.
    eventually(lambda: not supervised.awake(bed), "the supervisor dies", pause_s=0.01)
    supervised.wake(bed)
    faults.kill(bed, *faults.killing(bed, ["executor", "pi2"], None))


def fill_disk_and_free_it(fogctl: Fogctl, bed: Running) -> float:
    """Fill the broker's disk until the broker gives up and somebody says so; answers when it is freed."""
    filler = bed.state.folder / "broker" / "log" / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    # It is said between two attempts to start the broker.
    eventually(
        lambda: (
            "its disk is full" in str(supervisor_report.notes(bed))
            and "its disk is full" in ok(fogctl("fault", "list"))
        ),
        "somebody says that the disk is full",
    )
    filler.unlink()
    return time.monotonic()
