"""`--vars FILE`: variables of the roles; refused where no role has them, files looked for beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fogctl import data
from fogctl.config import source
from fogctl.config.problems import Problem, choice_hint, refuse
from fogctl.config.units import quoted
from fogctl.errors import FogError
from fogctl.image.recipe import ARCHITECTURES

_ANSIBLES = ("ansible_", "fog_")
"""So begin variables that belong to no role: Ansible's own, and those of the inventory."""


def known() -> list[str]:
    """The variables that some role takes."""
    roles = data.path("playbooks") / "ansible_collections" / "fogctl" / "pi" / "roles"
    names: set[str] = set()
    for file in roles.glob("*/meta/argument_specs.yml"):
        names.update(yaml.safe_load(file.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"])
    return sorted(names)


def read(file: Path) -> dict[str, Any]:
    """The variables of a file; FogError with a sentence for each that is wrong."""
    found = source.read(file, "variables")
    if not isinstance(found.data, dict):
        raise FogError(
            "must be a mapping of variables", file=file, hint="write for example prepare_swap: off"
        )
    names = known()
    refuse(
        str(file),
        [
            Problem(
                f"no role has a variable {quoted(str(name))}",
                found.line((name,)),
                hint=choice_hint(str(name), names, "docs/pi-cluster.md says where they are listed"),
            )
            for name in found.data
            if name not in names and not str(name).startswith(_ANSIBLES)
        ],
    )
    given = dict(found.data)
    if "images_archives" in given:
        given["images_archives"] = _archives(given["images_archives"], file)
    if given.get("k3s_artefacts"):
        given["k3s_artefacts"] = str(_beside(file, given["k3s_artefacts"]))
    return given


def _archives(named: Any, file: Path) -> dict[str, str]:
    """By processor the archive of its image, as Ansible finds it from any folder."""
    if not isinstance(named, Mapping):
        raise FogError(
            "must name an archive for each processor",
            file=file,
            key="images_archives",
            hint="write for example {arm64: stage-arm64.tar}, made with fogctl image save",
        )
    problems = []
    for architecture, name in named.items():
        key = ("images_archives", str(architecture))
        if architecture not in ARCHITECTURES:
            hint = choice_hint(str(architecture), list(ARCHITECTURES))
            problems.append(Problem(f"unknown processor {quoted(str(architecture))}", key=key, hint=hint))
        elif not _beside(file, name).is_file():
            hint = "fogctl image save writes one"
            problems.append(Problem(f"{_beside(file, name)} is not there", key=key, hint=hint))
    refuse(str(file), problems)
    return {architecture: str(_beside(file, name)) for architecture, name in named.items()}


def _beside(file: Path, name: Any) -> Path:
    return file.absolute().parent / Path(str(name)).expanduser()
