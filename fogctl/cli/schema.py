"""`fogctl schema`: the JSON Schema of the files a user writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fogctl.config import schema as schemas
from fogctl.errors import FAILED, FogError


def schema(
    which: Annotated[schemas.Schema, typer.Argument(help="Which file.", show_default=False)],
    to: Annotated[
        Path | None, typer.Option("--to", help="Write it to this file instead of printing it.")
    ] = None,
) -> None:
    """Print the JSON Schema of testbed.yaml, app.yaml, experiment.yaml, a board or a benchmark, for editors.

    The one of `bench` is for both files of a benchmark, benchmark.yaml and execution.yaml.

    \b
    Examples:
      fogctl schema testbed --to testbed.schema.json
      fogctl schema bench --to bench.schema.json
    """
    text = schemas.text(which)
    if to is None:
        typer.echo(text, nl=False)
        return
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FogError(f"cannot be written: {error.strerror}", file=to, exit_code=FAILED) from None
    typer.echo(f"wrote {to}", err=True)
