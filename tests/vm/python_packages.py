"""The guest's Python packages: the part of requirements.lock that the tests in the guest import."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).resolve().parents[2] / "requirements.lock"
# Wheels for any C library up to the one of Debian 12.
GLIBC_TAGS = ("2014", "_2_17", "_2_24", "_2_26", "_2_27", "_2_28", "_2_31", "_2_34", "_2_35")


def closure(roots: list[str]) -> set[str]:
    """The packages and all they require, read from what is installed here from the same lock file."""
    found: set[str] = set()
    waiting = [str(canonicalize_name(root)) for root in roots]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for text in metadata.requires(name) or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(canonicalize_name(needed.name))
    return found


def pinned(roots: list[str]) -> str:
    """The entries of requirements.lock for these packages and all they require, hashes included."""
    wanted = closure(roots)
    # Comments say who asked for a package: no reason to build another image.
    text = "\n".join(line for line in LOCK.read_text().splitlines() if not line.lstrip().startswith("#"))
    # An entry starts at the left margin; its hashes are indented below it.
    entries = re.split(r"\n(?=\S)", text)
    return (
        "\n".join(e for e in entries if canonicalize_name(re.split(r"[=\[ ;]", e, maxsplit=1)[0]) in wanted)
        + "\n"
    )


def install(roots: list[str], target: Path, python: str, arch: str, log: Path) -> None:
    """Unpack the wheels for the guest's Python and architecture into a folder; nothing is run or compiled."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as chosen, log.open("a") as output:
        chosen.write(pinned(roots))
        chosen.flush()
        argv = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
        argv += ["--require-hashes", "--no-deps", "--only-binary=:all:", "--target", str(target)]
        argv += ["--implementation", "cp", "--python-version", python, "-r", chosen.name]
        for tag in GLIBC_TAGS:
            argv += ["--platform", f"manylinux{tag}_{arch}"]
        done = subprocess.run(argv, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        tail = "\n".join(log.read_text().splitlines()[-20:])
        raise RuntimeError(f"pip could not install the guest's Python packages:\n{tail}")
