"""Long-running processes on the nodes of a testbed: what should run, what does, and how each is ended.

A service lives inside its node (network, names, control groups), so `fogctl down` ends it with the node. Its
record says what should run; the process itself is recognised by an environment variable that it and all its
children carry, so a fogctl killed while starting one loses nothing. A supervisor restarts what ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.runtime import fault_record, supervised
from fogctl.testbed import lock, names, processes
from fogctl.testbed.running import Running

MARK = "FOGCTL_SERVICE"
STOP_PATIENCE_S = 10.0
_LOCK_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Service:
    """A process that should run on a node until it is stopped."""

    name: str
    """Unique in the testbed: `broker`, `taxi.nearest.driver`, …"""
    node: str
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    part: str = names.MAIN
    """The part of the node it runs in; a part can have a CPU share of its own."""
    restart: bool = True
    """Whether the supervisor starts it again when it ends by itself."""
    on_host: bool = False
    """Whether it works on the host instead of inside the node: it joins the node's control group itself."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """A service and the process it is at this moment; pid None: it does not run."""

    service: Service
    pid: int | None


class Services:
    """The services of one testbed, kept in its state folder."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._folder = running.state.folder / "services"
        self._logs = running.state.folder / "logs"

    def all(self) -> list[Service]:
        """Every service that should run, by name."""
        return [self._read(path) for path in sorted(self._folder.glob("*.json"))]

    def get(self, name: str) -> Service | None:
        """The service of that name, if it should run."""
        path = self._file(name)
        return self._read(path) if path.exists() else None

    def status(self) -> list[ServiceStatus]:
        """Every service that should run, with its process."""
        heads = self._heads()
        return [ServiceStatus(service, heads.get(service.name)) for service in self.all()]

    def pid(self, name: str) -> int | None:
        """The process of a service; None if it does not run."""
        return self._heads().get(name)

    def log(self, name: str) -> Path:
        """Where a service's output goes."""
        return self._logs / f"{name}.log"

    def ensure(self, service: Service) -> int:
        """Have the service run as described: an equal one is left alone, another of that name replaced."""
        known, pid = self.get(service.name), self.pid(service.name)
        if known == service and pid is not None:
            return pid
        self._refuse_if_held_down(service)
        if known is not None or pid is not None:
            self.stop(service.name)
        with self._changing():
            self._folder.mkdir(parents=True, exist_ok=True)
            fresh = self._file(service.name).with_suffix(".new")
            fresh.write_text(json.dumps(asdict(service)))
            fresh.replace(self._file(service.name))
            started = self._start(service)
        supervised.wake(self._running)
        return started

    def restart(self, name: str) -> int | None:
        """Start a service that ended by itself; None if it runs, or should not run any more.

        What it left behind is ended first: two drivers of one stage would spoil its checkpoint.
        """
        with self._changing():
            service = self.get(name)
            if service is None or self.pid(name) is not None:
                return None
            self._refuse_if_held_down(service)
            self._end(name, (signal.SIGKILL,))
            return self._start(service)

    def _refuse_if_held_down(self, service: Service) -> None:
        faults = fault_record.read(self._running.state.folder)
        if service.node in fault_record.down_nodes(faults):
            raise FogError(
                f"node {service.node} is down, so {service.name} cannot start",
                hint=f"fogctl fault restore {service.node}",
                exit_code=REFUSED,
            )
        if service.name in fault_record.held_services(faults):
            raise FogError(
                f"a fault keeps {service.name} from running",
                hint=f"fogctl fault restore {service.name}",
                exit_code=REFUSED,
            )

    def _start(self, service: Service) -> int:
        log = self.log(service.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        mark = f"{self._running.testbed.name}/{service.name}"
        self._running.add_part(service.node, service.part)
        with log.open("ab") as output:
            child = subprocess.Popen(
                service.argv
                if service.on_host
                else self._running.exec_argv(service.node, service.argv, service.part),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **dict(service.environment), MARK: mark},
                cwd=self._running.state.folder,
                start_new_session=True,
            )
        # Until it has entered the node, nothing but this tells that it is on its way.
        self._starting(service.name).write_text(str(child.pid))
        return child.pid

    def stop(self, name: str, signals: Iterable[int] = (signal.SIGTERM, signal.SIGKILL)) -> None:
        """No longer run it: the record goes first, so that nobody starts it again, then the processes end."""
        with self._changing():
            self._file(name).unlink(missing_ok=True)
        self._end(name, signals)
        self._starting(name).unlink(missing_ok=True)

    def _end(self, name: str, signals: Iterable[int]) -> None:
        for number in signals:
            if not self._signal(name, number):
                return
            deadline = time.monotonic() + STOP_PATIENCE_S
            while self._marked(name) and time.monotonic() < deadline:
                time.sleep(0.05)
        if left := self._marked(name):
            raise FogError(f"{name} does not end (processes {sorted(left)})", exit_code=FAILED)

    def kill(self, name: str) -> int:
        """kill -9 the service and its children, as a fault; the supervisor may start it again."""
        return self._signal(name, signal.SIGKILL)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """One at a time: who starts a service, who stops it, and the supervisor that starts it again."""
        folder = self._running.state.folder / "locks" / "services"
        with lock.held(folder, "the list of services", patience_s=_LOCK_PATIENCE_S):
            yield

    def _signal(self, name: str, number: int) -> int:
        hit = 0
        for pid in self._marked(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
                hit += 1
        return hit

    def _marked(self, name: str) -> set[int]:
        return {pid for pid, (owner, _) in self._processes().items() if owner == name}

    def _heads(self) -> dict[str, int]:
        """For each service that runs, the process that leads its session."""
        return {owner: pid for pid, (owner, leads) in self._processes().items() if leads}

    def _processes(self) -> dict[int, tuple[str, bool]]:
        """Every live process of a service of this testbed: whose it is, and whether it leads its session."""
        prefix = f"{self._running.testbed.name}/"
        found = {}
        for node in self._running.testbed.nodes:
            for pid in processes.in_group(self._running.groups(node.name)[0]):
                mark = _mark_of(pid)
                if mark is not None and mark.startswith(prefix):
                    found[pid] = (mark.removeprefix(prefix), _leads(pid))
        for path in self._folder.glob("*.pid"):
            with contextlib.suppress(OSError, ValueError):
                pid = int(path.read_text())
                if pid not in found and _mark_of(pid) == f"{prefix}{path.stem}":
                    found[pid] = (path.stem, True)
        return found

    def _starting(self, name: str) -> Path:
        return self._folder / f"{name}.pid"

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _read(self, path: Path) -> Service:
        data = json.loads(path.read_text())
        return Service(
            name=data["name"],
            node=data["node"],
            argv=tuple(data["argv"]),
            environment=tuple((key, value) for key, value in data["environment"]),
            part=data["part"],
            restart=data["restart"],
            on_host=data.get("on_host", False),
        )


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}


def _mark_of(pid: int) -> str | None:
    """The mark in a process's environment; None if it has none or is dead already."""
    try:
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            key, _, value = entry.partition(b"=")
            if key == MARK.encode():
                return value.decode()
    except OSError:
        return None
    return None


def _leads(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False
