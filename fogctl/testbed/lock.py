"""One fogctl at a time: whoever changes a testbed holds its lock, and a second one is told who does."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from fogctl.errors import REFUSED, FogError

LOCK = "lock"
HOST = Path("/run")
_PAUSE_S = 0.05


@contextmanager
def held(
    folder: Path, what: str | None = None, *, patience_s: float = 0.0, command: str | None = None
) -> Iterator[None]:
    """Hold a testbed's lock during the body, or refuse; the folder is made if missing.

    `what` is the thing that the folder's lock stands for (otherwise the testbed of the folder's name), and
    `command` what the holder does (otherwise its command line). With patience, it waits before it refuses.
    The kernel frees the lock when its holder ends, however it ends, so a lock is never stale.
    """
    path = folder / LOCK
    deadline = time.monotonic() + patience_s
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said = os.read(descriptor, 4096)
            asked_about = _only_asked_about(descriptor)
            os.close(descriptor)
            if asked_about or time.monotonic() < deadline:
                time.sleep(_PAUSE_S)
                continue
            raise _refusal(what or f"testbed {folder.name}", said) from None
        if _same_file(descriptor, path):
            break
        os.close(descriptor)  # its holder removed the testbed between our open and our lock
    try:
        about = {
            "pid": os.getpid(),
            "since": datetime.now().strftime("%H:%M:%S"),
            "command": command or " ".join(["fogctl", *sys.argv[1:]]),
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(about).encode(), 0)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def shared_parts() -> Iterator[None]:
    """Wait for, then hold, the lock on what all testbeds of the host share; held for moments only.

    The same lock for every state directory: the folders of namespaces are the host's.
    """
    descriptor = os.open(HOST, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def holder(folder: Path) -> str | None:
    """Who changes the testbed at this moment; None if nobody does."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _who(os.read(descriptor, 4096))
    finally:
        os.close(descriptor)
    return None


def _only_asked_about(descriptor: int) -> bool:
    """Whether nobody holds the lock: `holder` shares it for a moment, which is no reason to refuse."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _who(said: bytes) -> str:
    try:
        about = json.loads(said)
        return f"`{about['command']}` (pid {about['pid']}, since {about['since']})"
    except (ValueError, KeyError, TypeError):
        return "another fogctl"


def _refusal(what: str, said: bytes) -> FogError:
    return FogError(
        f"{what} is being changed by {_who(said)}", hint="wait until it is done", exit_code=REFUSED
    )
