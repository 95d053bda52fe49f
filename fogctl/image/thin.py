"""Thins out what goes into an image: files nobody reads there, other processors' libraries in jars."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from fogctl.image import elf

_LIBRARIES = (".so", ".dll", ".dylib", ".jnilib", ".a")
_EXECUTABLE = 0o111


def left_out(path: str, patterns: Iterable[str]) -> bool:
    """Whether a file, relative to the folder of packages, matches one of the patterns."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def copied(files: Iterable[tuple[Path, str]], to: Path, patterns: Sequence[str]) -> int:
    """Copy (file, name relative to the target) but what is left out; answers how many."""
    count = 0
    for source, name in files:
        if left_out(name, patterns):
            continue
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o755 if source.stat().st_mode & _EXECUTABLE else 0o644)
        count += 1
    return count


def below(folder: Path, prefix: str = "") -> Iterator[tuple[Path, str]]:
    """Every file below a folder, with its name relative to it, in order."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file, str(PurePosixPath(prefix) / file.relative_to(folder).as_posix())


def date(folder: Path, seconds: int) -> None:
    """Give everything below a folder one time: a builder's cache knows files by their times too."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (seconds, seconds))


def thin_jar(jar: Path, architecture: str) -> int:
    """Take libraries for other processors and systems out of a jar; answers the bytes it is smaller by."""
    with zipfile.ZipFile(jar) as archive:
        dropped = {entry.filename for entry in archive.infolist() if _foreign(archive, entry, architecture)}
        if not dropped:
            return 0
        before = jar.stat().st_size
        made = jar.with_suffix(".thin")
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as thin:
            for entry in archive.infolist():
                if entry.filename not in dropped:
                    thin.writestr(entry, archive.read(entry))
    made.replace(jar)
    return before - jar.stat().st_size


def is_library(name: str) -> bool:
    """Whether a file inside a jar is a library for some processor, by its name."""
    return name.lower().endswith(_LIBRARIES) or (".so." in name.lower() and not name.endswith("/"))


def _foreign(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, architecture: str) -> bool:
    """Whether an entry is a library that this processor cannot load."""
    if not is_library(entry.filename):
        return False
    if "musl" in entry.filename.lower():
        return True  # another C library than Debian's
    with archive.open(entry) as stream:
        return elf.architecture(stream.read(elf.HEADER_BYTES)) != architecture
