"""The app as it was deployed: a copy of its files, with the testbed's state.

So later edits change nothing until they are deployed, and a file that is gone keeps nobody from removing the
app.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import yaml

from fogctl.config import source
from fogctl.runtime import app as apps
from fogctl.runtime.app import App

FOLDER = ".source"
"""Beside the stages' folders; no stage can have this name."""
_ORIGIN = ".origin"


def kept(app: App, folder: Path) -> App:
    """The app with its copy's paths, whether the copy is made already or not."""
    digest = hashlib.sha256(_description(app) + b"\0" + app.code.read_bytes())
    name = digest.hexdigest()[:16]
    # app.yaml names its code relative to itself, perhaps in a folder above: so it lies as deep in the copy.
    way = os.path.relpath(app.code, app.file.resolve().parent)
    file = folder / FOLDER / name / ("in/" * way.count("../")) / "app.yaml"
    return replace(app, file=file, code=Path(os.path.normpath(file.parent / way)))


def keep(app: App, folder: Path) -> App:
    """Copy the app's files; answers the app with the copy's paths."""
    copy = kept(app, folder)
    if not copy.file.exists():
        copy.code.parent.mkdir(parents=True, exist_ok=True)
        copy.file.parent.mkdir(parents=True, exist_ok=True)
        (copy.code.parent / _ORIGIN).write_text(str(app.code))
        shutil.copyfile(app.code, copy.code)
        fresh = copy.file.with_suffix(".new")
        fresh.write_bytes(_description(app))
        fresh.replace(copy.file)  # last, so that a copy with an app.yaml is whole
    return copy


def _description(app: App) -> bytes:
    """app.yaml as it is; with options of its own, if it was given any."""
    if not app.given:
        return app.file.read_bytes()
    data = source.read(app.file, "app").data
    for stage in data["stages"]:
        changed = {option: value for name, option, value in app.given if name == stage["name"]}
        if changed:
            stage["options"] = {**stage["options"], **changed}
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True).encode()


def origin(code: Path) -> str:
    """The user's own file that a copy was made of; the file itself if it is no copy."""
    try:
        return (code.parent / _ORIGIN).read_text()
    except OSError:
        return str(code)


def forget_others(app: App, folder: Path, *, running: bool = True) -> None:
    """Remove the copies of earlier deployments, but not those that a stage still runs from.

    A stage that a later deployment did not change was not started anew: its driver loads its function from
    the copy it was started with, also when its query starts again.
    """
    used = [app.file, *(_used(folder) if running else ())]
    for copy in (folder / FOLDER).glob("*"):
        if not any(copy in path.parents for path in used):
            shutil.rmtree(copy, ignore_errors=True)


def forget(app: App, folder: Path) -> None:
    """Remove the copy of an app that was not deployed after all."""
    for copy in (folder / FOLDER).glob("*"):
        if copy in app.file.parents:
            shutil.rmtree(copy, ignore_errors=True)


def _used(folder: Path) -> list[Path]:
    """The code files that the stages were started with."""
    return [Path(json.loads(spec.read_text())["code"]) for spec in folder.glob("*/spec.json")]


def changed_stages(before: App, after: App) -> dict[str, str]:
    """The stages that both have and that must start anew, with what changed in each."""
    code = before.code.read_bytes() != after.code.read_bytes()
    found = {}
    for stage in after.stages:
        old = next((each for each in before.stages if each.name == stage.name), None)
        if old is None:
            continue
        what = [
            name
            for name in apps.as_json(stage)
            if name != "name" and apps.as_json(stage)[name] != apps.as_json(old)[name]
        ]
        if code:
            what.append(after.code.name)
        if what:
            found[stage.name] = ", ".join(what)
    return found
