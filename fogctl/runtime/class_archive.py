"""Class data that Spark's processes share, or a broker's starts: made once a user, then mapped, not loaded.

An executor needs about 40 % less CPU to start with it and a fifth less memory of its own. The
archive serves one Java and one class path, which its name tells; a JVM that finds none, or another, or a
broken one, starts without.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from fogctl.java import Java
from fogctl.runtime import jars

CLASSES = Path(__file__).with_name("spark.classes.gz")
"""Names of the classes that Master, executor and driver load, those of all of them first."""
PATIENCE_S = 600.0
KEPT = 2
"""Archives, 200 MB each: two installations on one machine do not make theirs anew each time."""
Say = Callable[[str], None]


def folder() -> Path:
    """Where this user's archives are kept."""
    return jars.cache_dir().parent / "classes"


def options(archive: Path) -> str:
    """What a JVM is told. At its own address the archive's pages are shared, not copied."""
    return f"-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0 -XX:SharedArchiveFile={archive}"


def find(java: Java, class_path: str, where: Path | None = None, classes: Path = CLASSES) -> Path | None:
    """The archive for this Java and class path, if it has been made."""
    archive = _archive(java, class_path, where or folder(), classes)
    return archive if archive.is_file() else None


def ensure(
    java: Java, class_path: str, say: Say, where: Path | None = None, classes: Path = CLASSES
) -> Path | None:
    """The archive, made now if it is missing; None where it cannot be made, which is tried only once."""
    where = where or folder()
    archive = _archive(java, class_path, where, classes)
    failed = archive.with_suffix(".failed")
    if archive.is_file():
        return archive
    try:
        where.mkdir(parents=True, exist_ok=True)
        with _alone(where):
            if not archive.is_file() and not failed.exists():
                say("preparing class data for quick starts: once, about a minute")
                _make(java, class_path, archive, failed, classes)
                _forget_old(where)
    except OSError:
        return None  # no room, or a cache that may not be written: it is only slower
    return archive if archive.is_file() else None


def _forget_old(where: Path) -> None:
    """Keep the newest archives: others are of a Java or Spark of the past. Who maps one keeps it."""
    newest_first = sorted(where.glob("*.jsa"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for old in newest_first[KEPT:]:
        old.unlink(missing_ok=True)


def _make(java: Java, class_path: str, archive: Path, failed: Path, classes: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        names, made = Path(folder, "classes"), Path(folder, "made.jsa")
        names.write_bytes(gzip.decompress(classes.read_bytes()))
        argv = ["nice", "-n", "5", str(java.executable), "-Xshare:dump", "-XX:+UseSerialGC"]
        argv += ["-XX:TieredStopAtLevel=1", f"-XX:SharedClassListFile={names}"]
        argv += [f"-XX:SharedArchiveFile={made}", "-cp", class_path]
        try:
            ran = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
            said = (ran.stderr or ran.stdout)[-2000:]
        except subprocess.TimeoutExpired:
            said = f"not done after {PATIENCE_S:g} s"
        if made.is_file():
            made.replace(archive)  # whole or not at all: others may be looking for it
        else:
            failed.write_text(said)


def _archive(java: Java, class_path: str, where: Path, classes: Path) -> Path:
    """Its file: named after the Java and every jar on the class path, with sizes and times."""
    digest = hashlib.sha256(f"{java.executable.resolve()} {_stamp(java.executable.resolve())}".encode())
    for entry in class_path.split(":"):
        path = Path(entry)
        found = sorted(path.parent.glob("*.jar")) if path.name == "*" else [path]
        for jar in found:
            digest.update(f"{jar} {_stamp(jar)}\n".encode())
    digest.update(classes.read_bytes())
    return where / f"{digest.hexdigest()[:16]}.jsa"


def _stamp(path: Path) -> str:
    try:
        facts = path.stat()
    except OSError:
        return "none"
    return f"{facts.st_size} {facts.st_mtime_ns}"


@contextlib.contextmanager
def _alone(where: Path) -> Iterator[None]:
    """One at a time; others wait and then find it made."""
    handle = os.open(where / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
