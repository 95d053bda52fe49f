"""What works for a testbed on a cluster from this machine in the background: agents, Prometheus, timers.

A job is written down before it is started and runs under a keeper, `python -m fogctl.kube.background FOLDER
NAME`, which starts it again if it fails. A job that ends well, or is stopped by name, is forgotten.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from fogctl.errors import FAILED, FogError
from fogctl.runtime import events
from fogctl.testbed import lock

PATIENCE_S = 60.0
"""How long a job may take to end once it is asked to, and a keeper to begin."""
LONGEST_PAUSE_S = 30.0
_HELD_FOR_GOOD_S = 60.0
"""A job that ran this long before it failed is started again at once."""
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Job:
    """A command that shall run."""

    name: str
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of one testbed, by its state folder."""

    state: Path

    def get(self, name: str) -> Job | None:
        """The job of that name, if it shall run."""
        try:
            known = json.loads(self._record(name).read_text())
        except FileNotFoundError:
            return None
        pairs = tuple((key, value) for key, value in known["environment"])
        return Job(known["name"], tuple(known["argv"]), pairs)

    def names(self) -> list[str]:
        """Every job that shall run, or still does."""
        wanted = {path.stem for path in self._folder.glob("*.json")}
        running = {path.name for path in self._locks.glob("*") if lock.holder(path) is not None}
        return sorted(wanted | running)

    def pid(self, name: str) -> int | None:
        """The keeper of a job; None if it has none."""
        if lock.holder(self._locks / name) is None:
            return None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads((self._locks / name / lock.LOCK).read_text())["pid"])
        return None

    def log(self, name: str) -> Path:
        """Where a job's output goes."""
        return self.state / "logs" / f"{name}.log"

    def ensure(self, job: Job) -> int:
        """Have a job run as described: an equal one is left alone, another of that name replaced."""
        if self.get(job.name) == job and (pid := self.pid(job.name)) is not None:
            return pid
        self.stop(job.name)
        self._folder.mkdir(parents=True, exist_ok=True)
        fresh = self._record(job.name).with_suffix(".new")
        fresh.write_text(json.dumps(asdict(job)))
        fresh.replace(self._record(job.name))
        return self._keep(job.name)

    def wake(self) -> None:
        """Have a keeper for every job that lost its own."""
        for name in self.names():
            if self.pid(name) is None:
                with contextlib.suppress(FogError):
                    self._keep(name)

    def forget(self, name: str) -> None:
        """Nobody shall start the job again when it ends."""
        self._record(name).unlink(missing_ok=True)

    def stop(self, name: str) -> None:
        """End a job: its record goes first, so that nobody starts it again."""
        self.forget(name)
        for number, group in ((signal.SIGTERM, False), (signal.SIGKILL, True)):
            pid = self.pid(name)
            if pid is None:
                return
            with contextlib.suppress(ProcessLookupError):
                # A keeper leads a session of its own, with the job in it.
                (os.killpg if group else os.kill)(pid, number)
            _wait(lambda: self.pid(name) is None, PATIENCE_S + 5.0)
        if self.pid(name) is not None:
            raise FogError(f"{name} does not end (pid {self.pid(name)})", exit_code=FAILED)

    def _keep(self, name: str) -> int:
        log = self.log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(self.state), name],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                start_new_session=True,
            )
        _wait(lambda: self.pid(name) is not None or child.poll() is not None, PATIENCE_S)
        pid = self.pid(name)
        if pid is None and self.get(name) is not None:
            raise FogError(f"{name} could not be started", hint=f"its log: {log}", exit_code=FAILED)
        return child.pid if pid is None else pid

    @property
    def _folder(self) -> Path:
        return self.state / "background"

    @property
    def _locks(self) -> Path:
        return self.state / "locks" / "background"

    def _record(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def stop_all(state: Path) -> list[str]:
    """End every job of a testbed; answers their names."""
    jobs = Jobs(state)
    found = jobs.names()
    for name in found:
        jobs.stop(name)
    return found


def keep(state: Path, name: str) -> None:
    """Run a job, and again whenever it fails, until it ends well, is forgotten, or we are asked to end."""
    jobs = Jobs(state)
    children: list[subprocess.Popen[bytes]] = []
    asked = False

    def end(*_: object) -> None:
        nonlocal asked
        asked = True
        for child in children:
            child.terminate()

    with lock.held(state / "locks" / "background" / name, name, command=f"the keeper of {name}"):
        signal.signal(signal.SIGTERM, end)
        attempt = 0
        while (job := jobs.get(name)) is not None and not asked:
            began = time.monotonic()
            children[:] = [_start(job)]
            if asked:
                children[0].terminate()
            code = _ended(children[0], lambda: asked)
            if code == 0 or asked:
                jobs.forget(name)
                return
            attempt = 1 if time.monotonic() - began > _HELD_FOR_GOOD_S else attempt + 1
            reason = f"ended with {code}" if code > 0 else f"ended by signal {-code}"
            events.append(state, "restarted", service=name, reason=reason, attempt=attempt)
            pause = 0.0 if attempt == 1 else min(LONGEST_PAUSE_S, 2.0 ** (attempt - 2))
            _wait(lambda: asked or jobs.get(name) is None, pause)


def _start(job: Job) -> subprocess.Popen[bytes]:
    prctl = ctypes.CDLL(None).prctl

    def die_with_keeper() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return subprocess.Popen(
        job.argv,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **dict(job.environment)},
        preexec_fn=die_with_keeper,
    )


def _ended(child: subprocess.Popen[bytes], asked: Callable[[], bool]) -> int:
    """How the child ended; one that was asked to end and does not is killed after a while."""
    deadline = None
    while True:
        try:
            return child.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            if not asked():
                continue
            deadline = deadline or time.monotonic() + PATIENCE_S
            if time.monotonic() > deadline:
                child.kill()


def _wait(condition: Callable[[], bool], patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2])
