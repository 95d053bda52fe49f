"""`fogctl watch`: a testbed or a run, live, in the terminal or in a browser."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fogctl.cli.output import Format, OutputOption, emit, stderr
from fogctl.cli.testbed import WhichOption

if TYPE_CHECKING:
    from fogctl.watch.view import Source


def watch(
    run: Annotated[
        str | None,
        typer.Argument(
            help="A run, by folder or name; without one, the testbed that is up.", show_default=False
        ),
    ] = None,
    web: Annotated[bool, typer.Option("--web", help="In a browser instead, on loopback.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port for --web; 0 takes a free one.")] = 8421,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Show it once and stop; what -o json does too.")
    ] = False,
    runs: Annotated[Path, typer.Option(help="The folder that holds the runs.", envvar="FOGCTL_RUNS")] = Path(
        "runs"
    ),
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Watch nodes, replicas, rates, lag and decisions as they happen. Ctrl-C ends it; nothing else does.

    \b
    Examples:
      sudo fogctl watch
      fogctl watch gesscale-20260501-101500 --web
      sudo fogctl watch --once -o json
    """
    from fogctl.watch.terminal import render

    source = _source(run, testbed, runs)
    if once or output is Format.json:
        view = source.look()
        emit(output, view.to_json(), render(view))
        return
    if web:
        _serve(source, port)
        return
    from rich.live import Live

    try:
        with Live(render(source.look()), auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(every)
                live.update(render(source.look()), refresh=True)
    except KeyboardInterrupt:
        return


def _source(run: str | None, testbed: str | None, runs: Path) -> Source:
    if run is not None:
        from fogctl.experiment.folder import find
        from fogctl.watch.run_source import RunSource

        return RunSource(find(run, runs))
    from fogctl.cli.testbed import which
    from fogctl.runtime.grounds import ground_of
    from fogctl.watch.testbed_source import TestbedSource

    ground = ground_of(which(testbed).name)
    ground.attend()
    return TestbedSource(ground)


def _serve(source: Source, port: int) -> None:
    from fogctl.watch.web import server

    with server(source, port) as serving:
        stderr().print(f"http://127.0.0.1:{serving.server_address[1]}/  (Ctrl-C ends it)", highlight=False)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            return
