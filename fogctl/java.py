"""Finds a Java runtime that Spark can use, of version 17 or later: in JAVA_HOME or on the PATH."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fogctl.errors import FAILED, FogError

OLDEST = 17
SPARK_MODULE = "jdk.incubator.vector"
"""Spark's own launcher adds it; a runtime without it, as some that are cut down, ends at once."""
HINT = "install one; on Debian: apt install default-jre-headless"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that works."""

    executable: Path
    version: int
    origin: str

    @property
    def home(self) -> Path:
        """What JAVA_HOME should be for this runtime."""
        return self.executable.resolve().parent.parent


def parse_version(banner: str) -> int | None:
    """The feature version from what `java -version` prints ("1.8.0_292" is 8)."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', banner)
    if not found:
        return None
    major, minor = int(found[1]), int(found[2] or 0)
    return minor if major == 1 else major


def find_java(oldest: int = OLDEST) -> Java | None:
    """The first runtime that starts and is new enough; None if there is none."""
    for executable, origin in _candidates():
        version = _version_of(executable)
        if version is not None and version >= oldest:
            return Java(executable, version, origin)
    return None


def require_java() -> Java:
    """The runtime to use; FogError if there is none."""
    java = find_java()
    if java is None:
        raise FogError(
            f"no Java {OLDEST} or later on this machine that Spark can use (module {SPARK_MODULE})",
            hint=HINT,
            exit_code=FAILED,
        )
    return java


def _candidates() -> Iterator[tuple[Path, str]]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java", "JAVA_HOME"
    if on_path := shutil.which("java"):
        yield Path(on_path), "PATH"


def _version_of(executable: Path) -> int | None:
    try:
        return parse_version(_banner(executable, executable.stat().st_mtime_ns))
    except (OSError, subprocess.SubprocessError):
        return None


@functools.cache
def _banner(executable: Path, as_of_ns: int) -> str:  # noqa: ARG001
    """What a runtime says of itself; asked once, because each time a JVM starts."""
    asked = subprocess.run(
        [executable, f"--add-modules={SPARK_MODULE}", "-version"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return asked.stderr + asked.stdout


def main() -> int:
    """Print the runtime's path; exit 1 if there is none. The Makefile asks this."""
    try:
        print(require_java().executable)
    except FogError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
