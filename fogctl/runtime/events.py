"""What happened to a testbed, one JSON line an event: faults, restarts, and whatever else is done to it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = "events.jsonl"


def append(folder: Path, what: str, **facts: Any) -> dict[str, Any]:
    """Append one event to the testbed's log, in one write, and answer it."""
    event = {"at_s": round(time.time(), 3), "what": what, **facts}
    descriptor = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, json.dumps(event, default=str).encode() + b"\n")
    finally:
        os.close(descriptor)
    return event


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """The testbed's events, oldest first; a line cut short by a crash is passed over."""
    try:
        lines = (folder / FILE).read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
