"""An app as an experiment wants it: the same code, and an app.yaml of its own in the run's folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from fogctl.config import source
from fogctl.errors import FAILED, FogError
from fogctl.experiment.experiment_file import AppChoice
from fogctl.runtime import app as apps
from fogctl.runtime.app import App


def write(app: App, choice: AppChoice, folder: Path) -> App:
    """Write the variant and load it; an app without changes is used as it is."""
    if choice.work is None and choice.mode is None and choice.partitions is None:
        return app
    data = source.read(app.file, "app").data
    data["code"] = app.code.name
    data["stages"] = [_changed(stage, choice) for stage in data["stages"]]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(app.code, folder / app.code.name)
        (folder / "app.yaml").write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    except OSError as error:
        raise FogError(f"cannot be written: {error.strerror}", file=folder, exit_code=FAILED) from None
    return apps.load(folder)


def _changed(stage: dict[str, Any], choice: AppChoice) -> dict[str, Any]:
    changed = dict(stage)
    options = changed.get("options") or {}
    if choice.work is not None and "work" in options:
        changed["options"] = {**options, "work": choice.work}
    if choice.partitions is not None:
        changed["partitions"] = choice.partitions
    if choice.mode is not None:
        changed["mode"] = choice.mode.value
        changed.pop("output_mode", None)
    return changed
