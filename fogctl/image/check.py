"""Whether an image is what it claims: whole, for the processor it names, fit to run without privileges."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fogctl.image import elf, thin
from fogctl.image.layout import Image, Layout

LABELS = (
    "org.opencontainers.image.title",
    "org.opencontainers.image.version",
    "org.opencontainers.image.source",
)
_FEW = 5
"""So many binaries of the wrong kind are named; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found in one image."""

    architecture: str
    layers: int
    packed_bytes: int
    unpacked_bytes: int
    files: int
    binaries: Mapping[str, int]
    """ELF files by the processor they are for."""
    user: str
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "architecture": self.architecture,
            "layers": self.layers,
            "packed_bytes": self.packed_bytes,
            "unpacked_bytes": self.unpacked_bytes,
            "files": self.files,
            "binaries": dict(self.binaries),
            "user": self.user,
            "problems": list(self.problems),
        }


def check(layout: Layout, say: Callable[[str], None] = lambda _: None) -> list[Checked]:
    """Open every layer of every image of a layout."""
    return [_checked(layout, image, say) for image in layout.images()]


def _checked(layout: Layout, image: Image, say: Callable[[str], None]) -> Checked:
    found: Counter[str] = Counter()
    wrong: list[str] = []
    problems: list[str] = []
    unpacked = files = 0
    for number, blob in enumerate(image.layers):
        say(f"{image.architecture}: layer {number + 1} of {len(image.layers)}, {blob.size / 1e6:,.1f} MB")
        with layout.unpacked(blob) as (archive, stream):
            for entry in archive:
                files += entry.isfile()
                if entry.isfile() and entry.name.endswith(".jar"):
                    libraries = _in_jar(archive, entry)
                    if libraries and image.architecture not in libraries:
                        others = " and ".join(sorted(libraries))
                        problems.append(f"the libraries in {entry.name} are for {others} only")
                    continue
                architecture = _architecture(archive, entry)
                if architecture is not None:
                    found[architecture] += 1
                    if architecture != image.architecture:
                        wrong.append(f"{entry.name} is for {architecture}")
            packed, plain = stream.finish()
            unpacked += stream.size
        if packed != blob.digest:
            problems.append(f"layer {number + 1} is not what its name says")
        if number >= len(image.diff_ids) or image.diff_ids[number] != plain:
            problems.append(f"layer {number + 1} does not unpack to what the configuration says")
    problems += [*_claims(image), *_named(wrong), *_unfit(image)]
    if not found:
        problems.append("it holds no binary at all, so nothing proves its architecture")
    settings = image.config.get("config") or {}
    packed_bytes = sum(blob.size for blob in image.layers)
    return Checked(
        image.architecture,
        len(image.layers),
        packed_bytes,
        unpacked,
        files,
        dict(sorted(found.items())),
        str(settings.get("User", "")),
        tuple(problems),
    )


def _architecture(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> str | None:
    """The processor a file of a layer is for; None if it is no binary."""
    if not entry.isfile() or entry.size < elf.HEADER_BYTES:
        return None
    stream = archive.extractfile(entry)
    return None if stream is None else elf.architecture(stream.read(elf.HEADER_BYTES))


def _in_jar(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> set[str]:
    """The processors that the libraries inside a jar are for; Java unpacks them when it needs them."""
    stream = archive.extractfile(entry)
    content = b"" if stream is None else stream.read()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as jar:
            heads = [_head(jar, each) for each in jar.infolist() if thin.is_library(each.filename)]
    except zipfile.BadZipFile:
        return set()  # not Java's either
    return {found for head in heads if (found := elf.architecture(head)) is not None}


def _head(jar: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with jar.open(entry) as stream:
        return stream.read(elf.HEADER_BYTES)


def _claims(image: Image) -> list[str]:
    if image.claimed is not None and image.claimed != image.architecture:
        return [f"the index says {image.claimed}, its configuration {image.architecture}"]
    return []


def _named(wrong: list[str]) -> list[str]:
    more = len(wrong) - _FEW
    return [*wrong[:_FEW], *([f"{more} more binaries are for another processor"] if more > 0 else [])]


def _unfit(image: Image) -> list[str]:
    """What keeps it from running without privileges, and what is missing to know it by."""
    settings = image.config.get("config") or {}
    user = str(settings.get("User", "")).partition(":")[0]
    found = ["it runs as root: set USER"] if user in ("", "0", "root") else []
    labels = settings.get("Labels") or {}
    if missing := [label for label in LABELS if not labels.get(label)]:
        found.append(f"it has no label {', '.join(missing)}")
    return found
