"""An app as an experiment wants it: other work for each record, another mode, other partitions."""

from __future__ import annotations

from pathlib import Path

from fogctl.experiment.experiment_file import AppChoice
from fogctl.runtime import app_variant
from fogctl.runtime.app import App
from fogctl.runtime.app_variant import StageKeys


def write(app: App, choice: AppChoice, folder: Path) -> App:
    """Write the variant and load it; an app without changes is used as it is."""
    if choice.work is None and choice.mode is None and choice.partitions is None:
        return app
    return app_variant.write(app, folder, lambda stage: _changed(stage, choice))


def _changed(stage: StageKeys, choice: AppChoice) -> StageKeys:
    changed = dict(stage)
    options = changed["options"]
    if choice.work is not None and "work" in options:
        changed["options"] = {**options, "work": choice.work}
    if choice.partitions is not None:
        changed["partitions"] = choice.partitions
    if choice.mode is not None:
        changed["mode"] = choice.mode.value
        changed.pop("output_mode", None)
    return changed
