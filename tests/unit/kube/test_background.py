"""Jobs in the background: kept running, ended by name, forgotten when done, gone with their keeper."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fogctl.kube.background import Job, Jobs, stop_all
from fogctl.runtime import events

PATIENCE_S = 60.0


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    found = Jobs(tmp_path / "lab")
    yield found
    stop_all(found.state)


def python(name: str, code: str, *arguments: str) -> Job:
    return Job(name, (sys.executable, "-c", code, *arguments), (("GREETING", "hello"),))


SLEEPER = (
    "import os, sys, time;"
    "open(sys.argv[1], 'w').write(f'{os.getpid()} ' + os.environ['GREETING']);"
    "time.sleep(600)"
)


def sleeper(jobs: Jobs) -> tuple[int, int]:
    """Start one; answers its keeper's process and its own."""
    note = jobs.state.parent / "note"
    keeper = jobs.ensure(python("sleeper", SLEEPER, str(note)))
    eventually(lambda: note.exists() and note.read_text().endswith("hello"))
    return keeper, int(note.read_text().split()[0])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_job_runs_once_and_ends_by_name(jobs: Jobs) -> None:
    keeper, own = sleeper(jobs)
    assert jobs.ensure(jobs.get("sleeper") or python("", "")) == keeper
    assert jobs.names() == ["sleeper"]
    assert stop_all(jobs.state) == ["sleeper"]
    eventually(lambda: not alive(own))
    assert (jobs.names(), jobs.get("sleeper"), jobs.pid("sleeper")) == ([], None, None)


def test_a_job_that_fails_is_started_again_and_that_is_told(jobs: Jobs) -> None:
    code = (
        "import pathlib, sys; p = pathlib.Path(sys.argv[1]);"
        "p.write_text((p.read_text() if p.exists() else '') + 'x');"
        "sys.exit(3 if len(p.read_text()) < 3 else 0)"
    )
    tries = jobs.state.parent / "tries"
    jobs.ensure(python("clumsy", code, str(tries)))
    eventually(lambda: jobs.get("clumsy") is None and jobs.pid("clumsy") is None)
    assert tries.read_text() == "xxx"
    told = [(event["what"], event["service"], event["reason"]) for event in events.read(jobs.state)]
    assert told == [("restarted", "clumsy", "ended with 3")] * 2


def test_a_killed_keeper_takes_its_job_along_and_is_woken(jobs: Jobs) -> None:
    keeper, own = sleeper(jobs)
    os.kill(keeper, signal.SIGKILL)
    eventually(lambda: not alive(own) and jobs.pid("sleeper") is None)
    assert jobs.names() == ["sleeper"], "it shall still run"
    jobs.wake()
    assert jobs.pid("sleeper") not in (None, keeper)


def test_a_job_that_does_not_listen_is_killed_in_the_end(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fogctl.kube.background.PATIENCE_S", 2.0)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + SLEEPER
    note = jobs.state.parent / "note"
    jobs.ensure(python("deaf", deaf, str(note)))
    eventually(lambda: note.exists() and note.read_text().endswith("hello"))
    jobs.stop("deaf")
    eventually(lambda: not alive(int(note.read_text().split()[0])))
