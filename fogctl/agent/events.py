"""Where the agent's events go: the event log of a testbed or run, or a list."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from fogctl.runtime.events import read_file as read
from fogctl.runtime.events import write

__all__ = ["Event", "EventLog", "FileLog", "MemoryLog", "read"]

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
    """Events in a log file, which others may write to at the same time."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def write(self, event: Event) -> None:
        """Append one event; it is on the disk when this returns."""
        write(self.file, event)
