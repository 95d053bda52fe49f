"""One change of an app at a time: whoever changes it holds its lock, and a second one is told who does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fogctl.testbed import lock

PATIENCE_S = 3.0
"""How long a change waits for the lock: the supervisor holds it for moments, another fogctl for longer."""
SUPERVISOR = "the supervisor"


@contextmanager
def changing(state: Path, app: str, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Hold the app's lock during the body; FogError that names the holder if it is not free in time."""
    with lock.held(folder(state, app), f"app {app}", patience_s=patience_s):
        yield


@contextmanager
def supervising(state: Path, app: str) -> Iterator[None]:
    """The supervisor's way to hold the lock: it never waits; FogError if somebody changes the app."""
    with lock.held(folder(state, app), f"app {app}", command=SUPERVISOR):
        yield


def holder(state: Path, app: str) -> str | None:
    """Who changes the app at this moment; None if nobody does."""
    return lock.holder(folder(state, app))


def folder(state: Path, app: str) -> Path:
    """Where the app's lock is in a testbed's state folder: its own state goes when it is removed."""
    return state / "locks" / "apps" / app
