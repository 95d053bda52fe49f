"""Assembles the command line and turns expected failures into one sentence and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fogctl import __version__
from fogctl.cli import board, net, plan, testbed, trace
from fogctl.cli.demo import demo
from fogctl.cli.init import init
from fogctl.cli.place import place
from fogctl.cli.schema import schema
from fogctl.errors import FogError

app = typer.Typer(
    name="fogctl",
    help="Edge/fog testbeds on Raspberry Pis, or on one Linux host that emulates them.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.command()(init)
for command in (testbed.up, testbed.down, testbed.status, testbed.doctor):
    app.command()(command)
app.command("exec")(testbed.execute)
app.add_typer(net.app, name="net")
app.add_typer(board.app, name="board")
app.add_typer(plan.app, name="plan")
app.command()(place)
app.add_typer(trace.app, name="trace")
app.command()(schema)
app.command()(demo)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fogctl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Edge/fog testbeds on Raspberry Pis, or on one Linux host that emulates them."""


def main() -> None:
    """Run fogctl; the console script's entry point."""
    try:
        app()
    except FogError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
