"""`fogctl image`: the container image of a stage, built, checked and saved for boards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.config.units import SIZE
from fogctl.errors import REFUSED
from fogctl.image import archive, recipe
from fogctl.image.check import Checked
from fogctl.image.check import check as check_layout
from fogctl.image.layout import Layout

app = typer.Typer(help="Container images for boards.", no_args_is_help=True)
_COLUMNS = ("architecture", "layers", "packed", "unpacked", "files", "binaries", "user", "found")


@app.callback()
def image() -> None:
    """Container images for boards."""


@app.command()
def build(
    arch: Annotated[str, typer.Option("--arch", help="Processors, divided by commas.")] = "amd64,arm64",
    to: Annotated[Path, typer.Option(help="The folder that becomes an OCI image layout.")] = Path(
        "fogctl-stage-image"
    ),
    base: Annotated[
        str | None,
        typer.Option(help="An image with Python 3.11 and Java to build upon (default: Debian packages)."),
    ] = None,
    tool: Annotated[
        str | None, typer.Option("--with", help="buildah, podman or docker (default: the first that works).")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")
    ] = False,
    output: OutputOption = Format.table,
) -> None:
    """Build the image that runs a stage: Spark, Kafka, Java and fogctl, for each processor; then check it.

    Without a registry: the base is made from Debian packages. What was made once is kept in the user's cache.
    For another processor than this machine's, an emulator is registered with the kernel meanwhile (as root).

    \b
    Examples:
      fogctl image build --arch arm64 --to spark-image
      fogctl image build --dry-run
      fogctl image build --base registry.example/python-java:3.11 --with docker
    """
    # What builds imports half of fogctl: commands that only read do not wait for it.
    from fogctl.image.build import Wanted
    from fogctl.image.build import build as build_images
    from fogctl.image.dry_run import plan

    wanted = Wanted(recipe.architectures(arch), to, base, tool)
    if dry_run:
        steps = plan(wanted)
        rows = [(step.what, step.how, "cached" if step.cached else "to do") for step in steps]
        told = [{"what": step.what, "how": step.how, "cached": step.cached} for step in steps]
        emit(output, told, table(None, ("step", "how", ""), rows))
        return
    said = stderr()
    built = build_images(wanted, lambda text: said.print(text, style="dim"))
    data = {
        "name": built.name,
        "layout": str(built.layout),
        "seconds": round(built.seconds, 1),
        "cached": built.cached,
        "images": [each.to_json() for each in built.images],
    }
    emit(output, data, f"{built.name} is in {built.layout}", _found(built.images))


@app.command()
def save(
    layout: Annotated[Path, typer.Argument(help="A folder with an OCI image layout.")],
    to: Annotated[Path, typer.Option(help="The file to write.")],
    arch: Annotated[str | None, typer.Option("--arch", help="The processor (default: the only one).")] = None,
    name: Annotated[str | None, typer.Option(help="The image's name once loaded.")] = None,
    output: OutputOption = Format.table,
) -> None:
    """Write one image of a layout as one file for a board: containerd, k3s, podman and docker load it.

    \b
    Examples:
      fogctl image save spark-image --arch arm64 --to stage-arm64.tar
      ctr --namespace k8s.io images import stage-arm64.tar
    """
    held = Layout(layout)
    called = name or recipe.image_name()
    chosen = archive.choose(held, arch)
    packed = SIZE.show(sum(blob.size for blob in chosen.layers))
    stderr().print(f"writing {to}: {len(chosen.layers)} layers, {packed}", style="dim", markup=False)
    archive.save(held, chosen, called, to)
    size = to.stat().st_size
    data = {"file": str(to), "name": called, "architecture": chosen.architecture, "bytes": size}
    emit(output, data, f"{to}: {called} for {chosen.architecture}, {SIZE.show(size)}")


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
      fogctl image build --to spark-image
      fogctl image check spark-image
    """
    said = stderr()
    found = check_layout(Layout(layout), lambda text: said.print(text, style="dim"))
    emit(output, [each.to_json() for each in found], _found(found))
    if not found or any(each.problems for each in found):
        if not found:
            said.print(f"{layout} holds no image")
        raise typer.Exit(REFUSED)


def _found(images: Sequence[Checked]) -> Table:
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
        for each in images
    ]
    return table(None, _COLUMNS, rows)
