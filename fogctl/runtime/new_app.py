"""Writes the skeleton of a new app: app.yaml, its code, and a test that runs at once."""

from __future__ import annotations

from pathlib import Path

from fogctl.config.units import quoted
from fogctl.errors import FAILED, FogError
from fogctl.runtime.app import shipped_apps
from fogctl.runtime.app_file import app_name

_TEMPLATE = Path(__file__).resolve().parent / "app_template"
_NAME_IN_TEMPLATE = "my-app"
FILES = ("app.yaml", "app.py", "test_app.py")
"""What a new app consists of."""


def new_app(folder: Path, name: str) -> tuple[Path, ...]:
    """Write the files of a new app into `folder`, which is made if need be; answers their paths.

    Nothing is overwritten: if one of the files is there already, none is written.
    """
    try:
        app_name(name)
    except ValueError as error:
        raise FogError(str(error)) from None
    if name in shipped_apps():
        raise FogError(f"{quoted(name)} is an app that comes with fogctl", hint="choose another name")
    if folder.exists() and not folder.is_dir():
        raise FogError("is a file", file=folder, hint="name a folder")
    paths = tuple(folder / file for file in FILES)
    for path in paths:
        if path.exists() or path.is_symlink():
            raise FogError("exists already", file=path, hint="choose another folder, or move the file away")
    texts = [(_TEMPLATE / file).read_text("utf-8").replace(_NAME_IN_TEMPLATE, name) for file in FILES]
    made_folder = not folder.exists()
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts, strict=True):
            with path.open("x", encoding="utf-8") as file:  # never over a file that came in between
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        if made_folder and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        raise FogError(
            f"cannot be written: {error.strerror}", file=error.filename or folder, exit_code=FAILED
        ) from None
    return paths
