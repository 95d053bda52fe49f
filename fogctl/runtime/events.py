"""The event log: one JSON line an event, with `at_s` and `what`. A testbed has one, and so has each run.

Faults, restarts, decisions and whatever else is done to a testbed are told there.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FILE = "events.jsonl"
"""A testbed's own log, in its state folder."""


def append(folder: Path, what: str, **facts: Any) -> dict[str, Any]:
    """Append one event, now, to the testbed's log, and answer it."""
    event = {"at_s": round(time.time(), 3), "what": what, **facts}
    write(folder / FILE, event)
    return event


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """The testbed's events, oldest first."""
    return read_file(folder / FILE)


def write(file: Path, event: Mapping[str, Any]) -> None:
    """Append one event to a log; it is on the disk when this returns.

    In one write, so that lines of several writers do not mix.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    line = (json.dumps(event, default=_plain, allow_nan=True) + "\n").encode()
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(handle, line)
        os.fsync(handle)
    finally:
        os.close(handle)


def read_file(file: Path) -> Iterator[dict[str, Any]]:
    """The events of a log, oldest first; a line cut short by a crash is passed over."""
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _plain(value: Any) -> float | str:
    """A value that JSON does not have: a number of another kind as a number, anything else as text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)
