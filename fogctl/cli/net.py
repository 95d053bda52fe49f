"""`fogctl net …`: the latencies between a testbed's nodes, shown, changed live and measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn

from fogctl.cli.net_view import heat_map
from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.cli.testbed import DryRunOption, WhichOption, model, which
from fogctl.config.units import DELAY, PERCENT, RATE
from fogctl.errors import REFUSED, FogError

if TYPE_CHECKING:
    from fognetem import LatencyMatrix, Verification
    from fognetem import Path as NetworkPath

    from fogctl.testbed.links import Links

app = typer.Typer(help="Latencies between the nodes: shown, changed live, measured.", no_args_is_help=True)


@app.command()
def show(testbed: WhichOption = None, output: OutputOption = Format.table) -> None:
    """Show the latencies that are injected now, as a heat map and path by path.

    \b
    Examples:
      sudo fogctl net show
      sudo fogctl net show --testbed city -o json
    """
    seen: dict[str, Any] | None = None
    backend: str | None
    if (modelled := model(testbed)) is not None:
        name, backend, matrix = modelled.name, "the model", modelled.latencies
    else:
        links = _links(testbed)
        name, backend, matrix = links.testbed.name, links.backend, links.injected()
        seen = links.counters()
    data = {"testbed": name, "backend": backend, "matrix": matrix.to_dict(), "counters": seen}
    nodes = matrix.nodes
    rows = [(a, b, *_path_cells(path)) for a, b, path in matrix.paths]
    lines: list[Any] = [
        heat_map("RTT injected (ms)", nodes, {(a, b): matrix.rtt_ms(a, b) for a, b, _ in matrix.pairs()})
    ]
    lines.append(
        table("impaired paths", ("from", "to", "RTT", "jitter", "loss", "rate"), rows)
        if rows
        else "no path is impaired"
    )
    if seen:
        lines.append(
            "packets: "
            + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in seen["total"].items())
        )
    emit(output, data, *lines)


@app.command()
def apply(
    matrix: Annotated[
        Path | None, typer.Option("--matrix", help="A CSV of RTTs to inject instead of the testbed's own.")
    ] = None,
    testbed: WhichOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.table,
) -> None:
    """Inject the testbed's own latencies again, or those of a CSV, live; mends what is missing.

    \b
    Examples:
      sudo fogctl net apply
      sudo fogctl net apply --matrix measured.csv --dry-run
    """
    from fogctl.testbed import network

    links = _links(testbed)
    wanted = links.testbed.latencies
    if matrix is not None:
        wanted = network.read_matrix(matrix, wanted.nodes)
    _change(links, wanted, dry_run, output, mending=True)


@app.command("set")
def set_path(
    a: Annotated[str, typer.Argument(help="One node.")],
    b: Annotated[str, typer.Argument(help="The other node.")],
    rtt: Annotated[str | None, typer.Option(help="Round-trip time, like 80ms.")] = None,
    jitter: Annotated[str | None, typer.Option(help="How far a round trip may be off, like 5ms.")] = None,
    loss: Annotated[str | None, typer.Option(help="Packets lost in each direction, like 0.1%.")] = None,
    rate: Annotated[str | None, typer.Option(help="Rate in each direction, like 100mbit, or none.")] = None,
    reorder: Annotated[
        bool | None, typer.Option("--reorder/--in-order", help="Whether jitter may reorder packets.")
    ] = None,
    testbed: WhichOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.table,
) -> None:
    """Change the path between two nodes, live: nothing is lost or reordered. What is not given stays.

    \b
    Examples:
      sudo fogctl net set pi1 pi2 --rtt 80ms
      sudo fogctl net set pi1 cloud --rtt 20ms --jitter 4ms --loss 0.1% --rate 100mbit
      sudo fogctl net set pi1 cloud --rate none
    """
    given: dict[str, Any] = {}
    for key, option, text, parse in (
        ("rtt_ms", "--rtt", rtt, DELAY.parse),
        ("jitter_ms", "--jitter", jitter, DELAY.parse),
        ("loss", "--loss", loss, PERCENT.parse),
        ("rate_bit_s", "--rate", rate, RATE.parse),
    ):
        if text is not None:
            given[key] = None if option == "--rate" and text == "none" else _quantity(option, text, parse)
    if reorder is not None:
        given["reorder"] = reorder
    if not given:
        raise FogError("nothing to set", hint="give --rtt, --jitter, --loss, --rate or --reorder")
    links = _links(testbed)
    first, second = links.testbed.require(a).name, links.testbed.require(b).name
    if first == second:
        raise FogError(f"{first} and {second} are the same node; a path lies between two")
    try:
        path = replace(links.latencies.path(first, second), **given)
    except ValueError as error:
        raise FogError(str(error), key=f"{first}–{second}") from None
    _change(links, links.latencies.with_path(first, second, path), dry_run, output)


@app.command()
def clear(
    testbed: WhichOption = None, dry_run: DryRunOption = False, output: OutputOption = Format.table
) -> None:
    """Remove every delay, jitter, loss and rate, live; `fogctl net apply` brings them back.

    \b
    Examples:
      sudo fogctl net clear
      sudo fogctl net clear --dry-run
    """
    from fognetem import LatencyMatrix

    links = _links(testbed)
    _change(links, LatencyMatrix(links.latencies.nodes), dry_run, output)


@app.command()
def verify(
    tolerance: Annotated[
        str | None,
        typer.Option(help="How far an RTT may be off.  [default: the testbed's]", show_default=False),
    ] = None,
    probes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="Echoes per pair.  [default: 20, or 10 for many nodes]",
            show_default=False,
        ),
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="List every pair; without it, those that are off.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Write a heat map of asked and measured to this SVG file.")
    ] = None,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Measure every pair both ways and compare with what was asked. Exit 3 if any pair is off.

    \b
    Examples:
      sudo fogctl net verify
      sudo fogctl net verify --tolerance 1ms --plot latencies.svg
      sudo fogctl net verify --probes 200 -o json
    """
    if (modelled := model(testbed)) is not None:
        data = {"testbed": modelled.name, "ok": True, "modelled": True, "pairs": []}
        emit(output, data, "a model's latencies are those asked for: there is nothing to measure")
        return
    links = _links(testbed)
    tolerance_ms = (
        links.testbed.tolerance_ms if tolerance is None else _quantity("--tolerance", tolerance, DELAY.parse)
    )
    if tolerance_ms <= 0:
        raise FogError("the tolerance must be more than 0 ms", key="--tolerance")
    if plot is not None and not plot.absolute().parent.is_dir():
        raise FogError(f"there is no folder {plot.absolute().parent}", key="--plot")
    columns = (TextColumn("measuring every pair"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    with Progress(*columns, console=stderr(), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        result = links.verify(tolerance_ms, probes, lambda done: bar.update(task, completed=done))
    if plot is not None:
        from fognetem.heatmap import write_svg

        write_svg(links.latencies, result, plot)
    if (trouble := links.trouble()) is not None:
        stderr().print(f"note: {trouble}")
    _print_verification(links.latencies, result, output, plot, pairs)
    if not result.ok:
        raise FogError(result.sentence(), key="net verify", exit_code=REFUSED)


def _print_verification(
    matrix: LatencyMatrix, result: Verification, output: Format, plot: Path | None, every: bool
) -> None:
    shown = [pair for pair in result.pairs if every or not pair.ok]
    rows = [
        (
            pair.a,
            pair.b,
            f"{pair.asked_ms:g}",
            _number(pair.measured_ms),
            _number(pair.error_ms, "+.2f"),
            _number(pair.there_ms),
            _number(pair.back_ms),
            _number(pair.jitter_ms),
            f"{pair.loss * 100:.3g} %",
            "ok" if pair.ok else f"[red]off: {pair.trouble}[/red]",
        )
        for pair in shown
    ]
    head = (
        "from",
        "to",
        "asked ms",
        "measured ms",
        "error ms",
        "there ms",
        "back ms",
        "jitter ms",
        "loss",
        "",
    )
    asked = {(a, b): path.rtt_ms for a, b, path in matrix.pairs()}
    lines: list[Any] = [
        heat_map(
            "asked / measured RTT (ms)",
            matrix.nodes,
            asked,
            result.measured(),
            {(p.a, p.b) for p in result.pairs if not p.ok},
        ),
    ]
    if shown:
        lines.append(table("every pair" if every else "pairs that are off", head, rows))
    if cut := [f"{pair.a}–{pair.b}" for pair in result.pairs if pair.asked_loss >= 1]:
        lines.append(f"note: cut, every packet is lost: {', '.join(cut)} (fogctl fault list)")
    if result.warning:
        lines.append(f"note: {result.warning}")
    if result.ok:
        lines.append(
            f"{result.sentence()} (host {result.busy:.0%} busy, measured in {result.duration_s:.1f} s)"
        )
    if plot is not None:
        lines.append(f"heat map: {plot}")
    emit(output, result.to_dict(), *lines)


@app.command()
def schedule(
    testbed: WhichOption = None, dry_run: DryRunOption = False, output: OutputOption = Format.table
) -> None:
    """Make the testbed's scheduled latency changes, each when it is due; ends after the last. Ctrl-C stops.

    \b
    Examples:
      sudo fogctl net schedule
      fogctl net schedule --dry-run
    """
    links = _links(testbed)
    planned = sorted(links.testbed.schedule, key=lambda change: change.at_s)
    listed = [{"at_s": c.at_s, "between": [c.a, c.b], **c.path.to_dict()} for c in planned]
    rows = [(f"{c.at_s:g} s", c.a, c.b, *_path_cells(c.path)) for c in planned]
    head = ("at", "from", "to", "RTT", "jitter", "loss", "rate")
    if dry_run or not planned:
        shown = table("scheduled changes", head, rows) if rows else "the testbed has no schedule"
        emit(output, {"testbed": links.testbed.name, "dry_run": dry_run, "changes": listed}, shown)
        return
    from fogctl.testbed.links import play_schedule

    done: list[dict[str, Any]] = []
    console = stderr()
    console.print(f"{len(planned)} changes, the last after {planned[-1].at_s:g} s")

    def told(elapsed_s: float, what: str) -> None:
        done.append({"at_s": round(elapsed_s, 3), "what": what})
        console.print(f"{elapsed_s:8.2f} s  {what}", highlight=False)

    started = time.monotonic()
    play_schedule(links, told)
    said = f"all {len(planned)} changes were made in {time.monotonic() - started:.1f} s"
    emit(output, {"testbed": links.testbed.name, "dry_run": False, "changes": done}, said)


def _links(testbed: str | None) -> Links:
    from fogctl.testbed.links import links_of

    return links_of(which(testbed))


def _change(
    links: Links, wanted: LatencyMatrix, dry_run: bool, output: Format, mending: bool = False
) -> None:
    began = time.monotonic()
    steps = links.steps_to(wanted, mending) if dry_run else links.change(wanted, mending)
    took_ms = (time.monotonic() - began) * 1000
    data = {
        "testbed": links.testbed.name,
        "dry_run": dry_run,
        "steps": steps,
        "took_ms": round(took_ms, 2),
    }
    said = "nothing to change: it is so already" if not steps else f"done in {took_ms:.0f} ms"
    emit(
        output,
        data,
        *(line.replace("[", "\\[") for line in steps),
        *([] if dry_run and steps else [said]),
    )


def _quantity(option: str, text: str, parse: Callable[[object], float]) -> float:
    try:
        return parse(text)
    except ValueError as error:
        raise FogError(str(error), key=option) from None


def _path_cells(path: NetworkPath) -> tuple[str, str, str, str]:
    jitter = f"{path.jitter_ms:g} ms" + (" (reorders)" if path.reorder else "") if path.jitter_ms else "–"
    rate = "–" if path.rate_bit_s is None else RATE.show(path.rate_bit_s)
    return f"{path.rtt_ms:g} ms", jitter, f"{path.loss * 100:g} %" if path.loss else "–", rate


def _number(value: float | None, form: str = ".2f") -> str:
    return "–" if value is None else format(value, form)
