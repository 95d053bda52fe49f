"""What is inside an image, item by item: Debian packages (Java among them), Python distributions, jars."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from urllib.parse import quote

from fogctl.runtime.jars import Jar


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that somebody released under a version."""

    name: str
    version: str
    url: str
    """Its package URL (purl): kind, name and version in one line."""
    licence: str | None = None
    """An SPDX expression, where it declares one."""
    supplier: str | None = None
    sha256: str | None = None
    file: str | None = None
    """Where it is in the image, if it is one file."""


def debian(status: str) -> list[Item]:
    """The installed packages that a dpkg status file tells of."""
    found = []
    for paragraph in status.split("\n\n"):
        fields = HeaderParser().parsestr(paragraph.strip() + "\n\n")
        if fields["Status"] != "install ok installed":
            continue
        name, version = str(fields["Package"]), str(fields["Version"])
        architecture = fields["Architecture"]
        url = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={architecture}"
        found.append(Item(name, version, url, supplier=fields["Maintainer"]))
    return sorted(found, key=lambda item: item.name)


def python(folder: Path) -> list[Item]:
    """The distributions whose metadata is in a folder of Python packages."""
    found = []
    for file in sorted(folder.glob("*.dist-info/METADATA")):
        fields = HeaderParser().parsestr(file.read_text(encoding="utf-8", errors="replace"))
        name, version = str(fields["Name"]), str(fields["Version"])
        canonical = re.sub(r"[-_.]+", "-", name).lower()
        url = f"pkg:pypi/{quote(canonical)}@{quote(version)}"
        found.append(Item(name, version, url, licence=fields["License-Expression"]))
    return found


def pinned(jars: Iterable[Jar], folder: str) -> list[Item]:
    """Jars of the lock file, which are in a folder of the image."""
    return [
        Item(
            f"{jar.organisation}:{jar.artifact}",
            jar.revision,
            f"pkg:maven/{jar.organisation}/{jar.artifact}@{jar.revision}",
            sha256=jar.sha256,
            file=f"{folder}/{jar.file_name}",
        )
        for jar in jars
    ]


def spark_jars(folder: Path, inside: str) -> list[Item]:
    """The jars that pyspark brings, by what each says of itself, else by its file name."""
    return [_jar(file, f"{inside}/{file.name}") for file in sorted(folder.glob("*.jar"))]


def _jar(file: Path, inside: str) -> Item:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    artifact, version = _by_name(file.stem)
    with zipfile.ZipFile(file) as archive:
        # Several, where others were shaded into it: its own is the one of its name.
        own = f"/{artifact}/pom.properties"
        pom = next((name for name in archive.namelist() if name.endswith(own)), None)
        group = pom.split("/")[2] if pom is not None and pom.count("/") == 4 else None
    url = f"pkg:maven/{group}/{artifact}@{version}" if group else f"pkg:generic/{quote(artifact)}@{version}"
    name = f"{group}:{artifact}" if group else artifact
    return Item(name, version, url, sha256=digest, file=inside)


def _by_name(stem: str) -> tuple[str, str]:
    """Artefact and version from `artefact-version`, where the version begins with a digit."""
    found = re.fullmatch(r"(.+?)-(\d.*)", stem)
    return (found[1], found[2]) if found else (stem, "unknown")
