"""`fogctl image`: container images for boards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.config.units import SIZE
from fogctl.errors import REFUSED
from fogctl.image.check import check as check_layout
from fogctl.image.layout import Layout

app = typer.Typer(help="Container images for boards.", no_args_is_help=True)


@app.callback()
def image() -> None:
    """Container images for boards."""


@app.command()
def check(
    layout: Annotated[
        Path, typer.Argument(help="A folder with an OCI image layout (oci-layout, index.json, blobs).")
    ],
    output: OutputOption = Format.table,
) -> None:
    """Open every layer of every image: is it whole, and is each binary for the processor it claims?

    Exit code 3 if anything is wrong.

    \b
    Example:
      buildah manifest push --all my-spark oci:spark-image
      fogctl image check spark-image
    """
    said = stderr()
    found = check_layout(Layout(layout), lambda text: said.print(text, style="dim"))
    columns = ("architecture", "layers", "packed", "unpacked", "files", "binaries", "user", "found")
    rows = [
        (
            each.architecture,
            each.layers,
            SIZE.show(each.packed_bytes),
            SIZE.show(each.unpacked_bytes),
            each.files,
            ", ".join(f"{count} {name}" for name, count in each.binaries.items()),
            each.user or "root",
            "; ".join(each.problems) or "nothing wrong",
        )
        for each in found
    ]
    emit(output, [each.to_json() for each in found], table(None, columns, rows))
    if not found or any(each.problems for each in found):
        if not found:
            said.print(f"{layout} holds no image")
        raise typer.Exit(REFUSED)
