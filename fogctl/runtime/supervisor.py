"""The supervisor of a testbed: looks at what should run, starts again what ended, and helps replicas back.

Run as `python -m fogctl.runtime.supervisor TESTBED STATE_DIR`; `supervised.wake` does. It lives in the
control node's control group, so `fogctl down` ends it with the node. `supervision` decides what to do.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fogctl.errors import FogError
from fogctl.runtime import (
    change_lock,
    events,
    fault_record,
    faults,
    supervised,
    supervision,
    supervisor_report,
)
from fogctl.runtime.fault_record import Fault, Kind
from fogctl.runtime.replicas import Replicas
from fogctl.runtime.service import Services, ServiceStatus, alive
from fogctl.runtime.supervision import History, ServiceSeen, Start
from fogctl.runtime.supervisor_report import said
from fogctl.testbed import lock
from fogctl.testbed.running import Running

CALM_TICK_S, BUSY_TICK_S = 1.0, 0.5
DELAY_LINE = "delay-line"
_LOG_TAIL_BYTES = 16_384
_LEAST_PAUSE_S = 0.02
_RECENT_S = 10.0
_LEAST_FREE_BYTES = 1 << 20


class Supervisor:
    """One look after the other, and what follows from each."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._folder = running.state.folder
        self._services = Services(running)
        self._history: dict[str, History] = {}
        self._replicas = Replicas(running)
        self._log_ends: dict[str, int] = {}
        self._delay_line: int | None = None
        self._report = ""
        self._as_of_ns = 0

    def run(self) -> None:
        """Watch until the testbed is gone."""
        while self._running.state.record.exists():
            with said("looking"):
                self._follow()
                pause_s, pids = self.tick()
                _wait_for_an_end(pids, pause_s)
                _reap()
                continue
            time.sleep(CALM_TICK_S)

    def _follow(self) -> None:
        """The testbed as it is now: `fogctl up` may have changed its nodes, anybody its latencies."""
        as_of_ns = self._running.state.record.stat().st_mtime_ns
        if as_of_ns != self._as_of_ns:
            self._running = Running.load(self._running.testbed.name, self._folder.parent)
            self._services = Services(self._running)
            self._replicas.follow(self._running)
            self._as_of_ns = as_of_ns

    def tick(self) -> tuple[float, list[int]]:
        """Look once and act; answers how long to wait for the next look, and whose end would shorten that."""
        now_s = time.time()
        broken = self._restored(fault_record.read(self._folder), now_s)
        statuses = self._services.status()
        down, held = fault_record.down_nodes(broken), fault_record.held_services(broken)
        seen = [_seen(status) for status in statuses]
        lacking = supervision.missing(seen, held, down)
        self._start(lacking, now_s)
        open_stages = self._replicas.settle(seen, down, now_s)
        line = self._watch_delay_line(now_s)
        self._write_report(lacking)
        busy = bool(lacking or open_stages) or line is None
        pause_s = BUSY_TICK_S if busy else CALM_TICK_S
        ends = [fault.until_s - time.time() for fault in broken if fault.until_s is not None]
        watched = [status.pid for status in statuses if status.pid is not None]
        return max(0.0, min([pause_s, *ends])), watched + ([line] if line else [])

    # Faults that end by themselves

    def _restored(self, broken: tuple[Fault, ...], now_s: float) -> tuple[Fault, ...]:
        left = []
        for fault in broken:
            if fault.until_s is None or now_s < fault.until_s:
                left.append(fault)
                continue
            outside = self._outside() if fault.kind is Kind.delay_line else contextlib.nullcontext()
            with said(f"restoring {fault.name}"), outside:
                faults.restore(self._running, fault)
                self._follow()
        return tuple(left)

    # Services

    def _start(self, lacking: list[ServiceSeen], now_s: float) -> None:
        reasons = {seen.name: self._reason(seen.name, now_s) for seen in lacking}
        for start in supervision.starts(lacking, self._history, reasons, now_s):
            if change_lock.holder(self._running.state.folder, start.service.app) is None:
                with said(f"starting {start.service.name}"):
                    self._start_one(start)

    def _start_one(self, start: Start) -> None:
        name = start.service.name
        with change_lock.supervising(self._running.state.folder, start.service.app):
            self._log_ends[name] = _size(self._services.log(name))
            if self._services.restart(name) is None:
                return
        self._history[name] = start.history
        events.append(
            self._folder,
            "restarted",
            service=name,
            node=start.service.node,
            reason=start.history.reason,
            attempt=start.history.attempts,
        )

    def _reason(self, name: str, now_s: float) -> str:
        """Why a service that does not run ended: a fault, a full disk, what it said last, or nobody knows."""
        known = self._history.get(name)
        since_s = max(now_s - _RECENT_S, 0.0 if known is None else known.started_s)
        for event in events.read(self._folder):
            hit = event["what"] == "fault" and event.get("target") in (name, self._node_of(name))
            if hit and event["at_s"] >= since_s:
                return "killed by a fault"
        for folder in (self._folder / name / "log", self._folder):
            if _is_full(folder):
                return f"its disk is full ({folder})"
        return supervision.why_ended(self._log_tail(name, now_s))

    def _node_of(self, name: str) -> str | None:
        service = self._services.get(name)
        return None if service is None else service.node

    def _log_tail(self, name: str, now_s: float) -> str:
        """What a service said last, if it did so since we started it and just now."""
        log = self._services.log(name)
        begin = max(self._log_ends.get(name, 0), _size(log) - _LOG_TAIL_BYTES)
        try:
            if now_s - log.stat().st_mtime > _RECENT_S:
                return ""
            with log.open("rb") as file:
                file.seek(begin)
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    # The delay line

    def _watch_delay_line(self, now_s: float) -> int | None:
        """The process of the delay line, started again if it is gone; 0 if there is none to watch."""
        if self._running.record.backend != "userspace":
            return 0
        if self._delay_line is None or not alive(self._delay_line):
            self._delay_line = faults.delay_line(self._running)
        # Read after that look: a fault is written down before it kills, but maybe after this tick began.
        if self._delay_line is not None or any(
            fault.kind is Kind.delay_line for fault in fault_record.read(self._folder)
        ):
            return self._delay_line or 0
        before = self._history.get(DELAY_LINE)
        if lock.holder(self._folder) is not None or (before is not None and now_s < before.next_start_s()):
            return None
        fresh = before is None or now_s - before.started_s >= supervision.CALM_S
        attempts = 1 if fresh or before is None else before.attempts + 1
        self._history[DELAY_LINE] = History(
            attempts, now_s, "ended by itself", (before.total if before else 0) + 1
        )
        with said("starting the delay line"), self._outside():
            faults.start_delay_line(self._running)
            facts = {"reason": "ended by itself", "attempt": attempts}
            events.append(self._folder, "restarted", service=DELAY_LINE, **facts)
        self._delay_line = faults.delay_line(self._running)
        return self._delay_line

    @contextlib.contextmanager
    def _outside(self) -> Any:
        """Outside the control node for the body: the delay line is no part of it and must not be limited."""
        for hierarchy in self._running.hierarchies.used:
            Path(hierarchy.root, "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            join(self._running)

    # What others can read

    def _write_report(self, lacking: list[ServiceSeen]) -> None:
        report = supervisor_report.text(self._history, {seen.name for seen in lacking})
        if report != self._report:
            supervisor_report.write(self._folder, report)
            self._report = report


def join(running: Running) -> None:
    """Move this process into the control node's control groups."""
    where = supervised.node(running.testbed)
    running.add_part(where, supervised.PART)
    for group in running.part_groups(where, supervised.PART):
        Path(group, "cgroup.procs").write_text(str(os.getpid()))


def main(name: str, state_dir: str) -> None:
    """Supervise a testbed, unless somebody does already."""
    running = Running.load(name, Path(state_dir))
    join(running)
    try:
        held = lock.held(supervised.lock_folder(running), "the supervisor", command=change_lock.SUPERVISOR)
        held.__enter__()
    except FogError:
        return
    Supervisor(running).run()


def _seen(status: ServiceStatus) -> ServiceSeen:
    service = status.service
    return ServiceSeen(service.name, service.node, service.restart, status.pid)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _is_full(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _LEAST_FREE_BYTES


def _wait_for_an_end(pids: Iterable[int], pause_s: float) -> None:
    """Sleep, but wake up as soon as one of these processes ends."""
    poller, opened = select.poll(), []
    for pid in pids:
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)
            opened.append(descriptor)
            poller.register(descriptor, select.POLLIN)
    poller.poll(pause_s * 1000)
    time.sleep(_LEAST_PAUSE_S)
    for descriptor in opened:
        os.close(descriptor)


def _reap() -> None:
    """Take note of children that ended; nobody else does."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
