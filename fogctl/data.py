"""Where fogctl finds the data that travels with it: board profiles and the like."""

from __future__ import annotations

from pathlib import Path

from fogctl.errors import FAILED, FogError

_PACKAGE = Path(__file__).resolve().parent


def path(name: str) -> Path:
    """The folder `name` (for example `hardware`): beside the package in a checkout, inside it in a wheel."""
    for folder in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FogError(
        f'the folder "{name}" that ships with fogctl is missing',
        file=_PACKAGE,
        hint="install fogctl again",
        exit_code=FAILED,
    )
