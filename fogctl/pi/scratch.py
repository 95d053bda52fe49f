"""The folder of one run of Ansible: only its user's, gone with the run, or at the next if it was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "fogpi-"
_LOCK = "lock"
_OLD_S = 24 * 3600.0
"""Where nothing tells whether a folder is in use, it is believed to be until it is so old."""


@contextmanager
def scratch_folder(where: Path = Path("/tmp")) -> Iterator[Path]:
    """A folder for variables, inventory and OpenSSH's control sockets, which want a short path."""
    sweep(where)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=where) as made:
        folder = Path(made)
        fresh = folder / f"{_LOCK}.new"
        with fresh.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fresh.rename(folder / _LOCK)  # it has its name only while it is held
            yield folder


def sweep(where: Path) -> None:
    """Remove this user's folders of runs that were killed; one that may be in use stays."""
    for folder in where.glob(f"{_PREFIX}*"):
        try:
            if _is_ours(folder) and not _in_use(folder):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # it went in the meantime, or cannot be looked into
            continue


def _is_ours(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _in_use(folder: Path) -> bool:
    lock = folder / _LOCK
    # Without a lock it is of a fogctl that made none, or just being made.
    certain = lock.exists() and Path("/proc/self/environ").exists()
    if not certain and time.time() - folder.lstat().st_mtime < _OLD_S:
        return True
    if lock.exists():
        with lock.open() as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return _named_by_a_process(folder)


def _named_by_a_process(folder: Path) -> bool:
    """Whether Ansible or ssh of a run that was killed itself go on: their settings name the folder."""
    name = os.fsencode(folder)
    for process in Path("/proc").glob("[0-9]*"):
        for part in ("cmdline", "environ"):
            try:
                if name in (process / part).read_bytes():
                    return True
            except OSError:  # ended, or somebody else's
                continue
    return False
