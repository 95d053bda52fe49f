"""Assembles the command line and turns expected failures into one sentence and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fogctl import __version__
from fogctl.cli.lazy import LazyCommands
from fogctl.errors import FogError

app = typer.Typer(
    name="fogctl",
    cls=LazyCommands,
    help="Edge/fog testbeds on Raspberry Pis, or on one Linux host that emulates them.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
