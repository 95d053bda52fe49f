"""What the image of a stage is made of: the files in `images/`, as values, and the cache."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from fogctl import __version__, data
from fogctl.errors import FogError

REPOSITORY = "localhost/fogctl-stage"
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
"""What images call a processor, and what Python wheels and QEMU call it."""
_FORMAT = "1"
"""Counted up when the code that carries a recipe out makes something else of the same files."""


def image_name(version: str = __version__) -> str:
    """The name under which archives hold the image."""
    return f"{REPOSITORY}:{version}"


def cache_dir() -> Path:
    """Where bases, packages and layers are kept: `images` in the user's cache, or in FOGCTL_CACHE_DIR."""
    if chosen := os.environ.get("FOGCTL_CACHE_DIR"):
        return Path(chosen) / "images"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fogctl" / "images"


def architectures(text: str) -> tuple[str, ...]:
    """Processors from a list divided by commas; FogError if there is no image for one."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise FogError(f'there is no image for "{name}"', key="--arch", hint=f"known: {known}")
    if not names:
        raise FogError("names no processor", key="--arch", hint="for example --arch amd64,arm64")
    return names


@dataclass(frozen=True, slots=True)
class Recipe:
    """The files of `images/`."""

    containerfile: Path
    packages: tuple[str, ...]
    """Debian packages of the base."""
    tidy: Path
    """The script that takes out of the base what it does not need."""
    pins: str
    """Python packages, pinned by hash, as pip reads them."""
    left_out: tuple[str, ...]
    """Patterns of files that do not go into the image."""

    @classmethod
    def load(cls, folder: Path | None = None) -> Recipe:
        """The recipe that travels with fogctl."""
        folder = folder or data.path("images")
        return cls(
            folder / "Containerfile",
            tuple(lines(folder / "packages.txt")),
            folder / "tidy.sh",
            (folder / "python.lock").read_text(encoding="utf-8"),
            tuple(lines(folder / "left-out.txt")),
        )

    def base_digest(self, architecture: str, codename: str) -> str:
        """What the base depends on."""
        return _digest(architecture, codename, *self.packages, self.tidy.read_text(encoding="utf-8"))

    def packages_digest(self, architecture: str, python: str, spark: str) -> str:
        """What the folder of Python packages depends on."""
        pins = "\n".join(line for line in self.pins.splitlines() if not line.lstrip().startswith("#"))
        return _digest(architecture, python, spark, pins, *self.left_out)


def lines(file: Path) -> list[str]:
    """The entries of a one-a-line list, without comments."""
    text = file.read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join((_FORMAT, *parts)).encode()).hexdigest()[:16]
