"""What `fogctl agent run` shows while it works, and how it is asked to stop."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from fogctl.cli.output import Format, stderr

if TYPE_CHECKING:
    from pathlib import Path

    from fogctl.agent.events import Event, EventLog


def shown_log(state: Path, output: Format, dry_run: bool) -> EventLog:
    """The testbed's event log, shown as it grows; advice is only shown."""
    from fogctl.agent.events import FileLog
    from fogctl.runtime.events import FILE

    return _Shown(None if dry_run else FileLog(state / FILE), output)


class _Shown:
    """An event log that also prints."""

    def __init__(self, inner: EventLog | None, output: Format) -> None:
        self._inner = inner
        self._output = output

    def write(self, event: Event) -> None:
        """Keep one event and print it."""
        from fogctl.cli import agent_view

        if self._inner is not None:
            self._inner.write(event)
        typer.echo(
            json.dumps(event, default=float) if self._output is Format.json else agent_view.line(event)
        )


@contextmanager
def stopped_by_signals() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM end the agent after what it is doing; yields whether that was asked for."""
    asked: list[float] = []

    def note(number: int, frame: object) -> None:
        del number, frame
        asked.append(time.monotonic())
        if len(asked) > 1:
            raise KeyboardInterrupt
        stderr().print("stopping; a change under way is finished first (once more: at once)")

    before: Mapping[int, Any] = {
        number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
