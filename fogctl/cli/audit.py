"""`fogctl audit`: whether every record sent came out."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Annotated

import typer

from fogctl.cli.app import running_apps
from fogctl.cli.output import Format, OutputOption, emit, table
from fogctl.cli.testbed import WhichOption
from fogctl.errors import REFUSED, FogError

if TYPE_CHECKING:
    from fogctl.runtime.audit import Audit
    from fogctl.runtime.operate import Apps

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 2.0


def audit(
    name: Annotated[str, typer.Argument(help="A deployed app.")],
    wait: Annotated[
        str | None, typer.Option(help="How long to wait for records that are on their way: 60s.")
    ] = None,
    stream: Annotated[
        str | None, typer.Option(help="Count in this stream, an input for example.  [default: the results]")
    ] = None,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Count every record sent among the results. Exit 3 if one is lost.

    \b
    Examples:
      sudo fogctl audit taxi
      sudo fogctl audit taxi --wait 60s
      sudo fogctl audit sensors --stream readings
    """
    from fogctl.config.units import INSTANT

    try:
        patience_s = INSTANT.parse(wait) if wait is not None else 0.0
    except ValueError as error:
        raise FogError(str(error), key="--wait") from error
    found = _audited(running_apps(testbed), name, stream, patience_s)
    rows = [
        (stream, a.sent, a.seen, a.lost, a.unsure, a.duplicates, a.foreign) for stream, a in found.items()
    ]
    columns = ("stream", "sent", "seen", "lost", "unsure", "duplicates", "foreign")
    data = {stream: dataclasses.asdict(result) for stream, result in found.items()}
    emit(output, data, table(name, columns, rows))
    for stream, result in found.items():
        if not result.ok:
            raise FogError(
                f"{stream}: {result.lost} of {result.sent} records are missing",
                hint="wait until the lag is 0 and ask again: fogctl app status; or --wait 60s",
                exit_code=REFUSED,
            )


def _audited(apps: Apps, name: str, stream: str | None, patience_s: float) -> dict[str, Audit]:
    """The audit, asked again until nothing is missing or the patience is over."""
    deadline = time.monotonic() + patience_s
    pause_s = _FIRST_PAUSE_S
    while True:
        found = apps.audit(name) if stream is None else {stream: apps.audit_stream(name, stream)}
        if all(result.ok for result in found.values()) or time.monotonic() >= deadline:
            return found
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
