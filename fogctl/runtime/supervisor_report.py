"""What a supervisor leaves for others to read: what it starts again and why, and its own troubles."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from fogctl.errors import FogError
from fogctl.runtime import fault_record
from fogctl.runtime.supervision import History
from fogctl.testbed.running import Running

FILE = "supervisor.json"
_RECENT_S = 10.0


def text(history: Mapping[str, History], missing: set[str]) -> str:
    """Every service that was started again, as JSON; `missing` are those that do not run."""
    return json.dumps(
        {
            name: {**asdict(known), "next_start_s": known.next_start_s(), "missing": name in missing}
            for name, known in history.items()
        }
    )


def write(folder: Path, report: str) -> None:
    """Leave the report in the testbed's state folder, in one piece."""
    fresh = folder / f"{FILE}.new"
    fresh.write_text(report)
    fresh.replace(folder / FILE)


def troubles(running: Running) -> list[str]:
    """What the supervisor tries to start and cannot, one sentence each."""
    try:
        report = json.loads((running.state.folder / FILE).read_text())
    except (OSError, ValueError):
        return []
    found = []
    for name, entry in sorted(report.items()):
        fresh = entry["attempts"] > 2 and time.time() - entry["started_s"] < _RECENT_S
        if entry["missing"] or fresh:
            state = "does not run" if entry["missing"] else "is being started"
            found.append(f"{name} {state}: {entry['reason']}; started again {entry['attempts']} times")
    return found


def notes(running: Running) -> list[str]:
    """What a user should know who wonders at an app: active faults, and what cannot be started."""
    broken = fault_record.read(running.state.folder)
    return [f"{fault.describe()} (fogctl fault restore {fault.name})" for fault in broken] + troubles(running)


@contextlib.contextmanager
def said(doing: str) -> Iterator[None]:
    """What goes wrong in the body is written to the supervisor's log; the next look tries again."""
    try:
        yield
    except (FogError, OSError) as error:
        print(f"{time.strftime('%H:%M:%S')} {doing}: {error}", flush=True)
