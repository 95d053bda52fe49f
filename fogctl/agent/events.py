"""The event log: one JSON line an event, with `at_s` and `what`; faults and experiments write to it too."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

Event = Mapping[str, Any]
"""`at_s`, `what` (started, decision, applied, failed, observed, …) and what belongs to it."""


class EventLog(Protocol):
    """Where events go."""

    def write(self, event: Event) -> None:
        """Keep one event for good."""
        ...


class MemoryLog:
    """Events in a list: for the simulator and for tests."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def write(self, event: Event) -> None:
        """Keep one event."""
        self.events.append(dict(event))


class FileLog:
    """Events in a file, a line each, appended in one write so that lines of several writers do not mix."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def write(self, event: Event) -> None:
        """Append one event; it is on the disk when this returns."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        line = (json.dumps(event, default=float, allow_nan=True) + "\n").encode()
        handle = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)


def read(file: Path) -> Iterator[dict[str, Any]]:
    """The events of a file, oldest first; a line cut short by a crash is passed over."""
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
