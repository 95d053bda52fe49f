"""An app with other keys in its stages: the same code, and an app.yaml of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from fogctl.config import source
from fogctl.errors import FAILED, FogError
from fogctl.runtime import app as apps
from fogctl.runtime.app import App

StageKeys = dict[str, Any]
"""A stage as app.yaml has it, with the options that the app really has."""


def write(
    app: App, folder: Path, changed: Callable[[StageKeys], StageKeys], *, name: str | None = None
) -> App:
    """Write the variant into a folder, under its own name if that is given, and load it."""
    data = source.read(app.file, "app").data
    data["name"] = name or app.name
    data["code"] = app.code.name
    data["stages"] = [
        changed({**stage, "options": dict(app.stage(stage["name"]).options)}) for stage in data["stages"]
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(app.code, folder / app.code.name)
        (folder / "app.yaml").write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    except OSError as error:
        raise FogError(f"cannot be written: {error.strerror}", file=folder, exit_code=FAILED) from None
    return apps.load(folder)
