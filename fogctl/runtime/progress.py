"""The batches that a stage's runner wrote down, read back from its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fogctl.metrics.batch import read_batch

NAME = "progress.jsonl"
BEFORE = "progress.old.jsonl"
"""Where the runner keeps the events before those."""
MOST_TAIL_BYTES = 8 << 20
"""Of a stage's progress that is read: some thousand batches."""


def recorded(folder: Path, since_s: float) -> list[dict[str, Any]]:
    """The progress events of batches that ended after a moment, oldest first."""
    found = []
    for name in (BEFORE, NAME):
        for line in _tail(folder / name).splitlines():
            try:
                event = json.loads(line)
            except ValueError:  # the first or the last line may be cut
                continue
            if isinstance(event, dict) and read_batch(event).ended_s > since_s:
                found.append(event)
    return found


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as handle:
            handle.seek(0, 2)
            handle.seek(max(0, handle.tell() - MOST_TAIL_BYTES))
            return handle.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
