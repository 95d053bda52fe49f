"""Python packages for another interpreter and processor: wheels, checked by hash, unpacked, not run."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

from fogctl.image.base import run

# Wheels for any C library up to the one of Debian 12.
GLIBC_TAGS = ("2014", "_2_17", "_2_24", "_2_26", "_2_27", "_2_28", "_2_31", "_2_34", "_2_35")


def for_python(pins: str, python: str, machine: str) -> str:
    """The pins that apply to another interpreter; pip would ask its own. Their markers are gone then."""
    theirs = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "platform_machine": machine,
        "sys_platform": "linux",
        "platform_system": "Linux",
        "extra": "",
    }
    kept = []
    # An entry starts at the left margin; its hashes are indented below it.
    for entry in re.split(r"\n(?=\S)", pins):
        head, *hashes = entry.split("\\\n")
        if head.startswith("#") or not head.strip():
            continue
        needed = Requirement(head.strip())
        if needed.marker is None or needed.marker.evaluate(theirs):
            needed.marker = None
            kept.append("\\\n".join([f"{needed} ", *hashes]))
    return "\n".join(kept) + "\n"


def pip_argv(pins: Path, target: Path, python: str, machine: str) -> list[str]:
    """pip's command; `machine` as wheels write it (x86_64, aarch64)."""
    argv = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-compile",
        "--no-deps",
    ]
    argv += ["--require-hashes", "--only-binary=:all:", "--target", str(target)]
    argv += ["--implementation", "cp", "--python-version", python, "-r", str(pins)]
    for tag in GLIBC_TAGS:
        argv += ["--platform", f"manylinux{tag}_{machine}"]
    return argv


def unpack(pins: str, target: Path, python: str, machine: str, log: Path) -> None:
    """Unpack the pinned packages into a folder."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as chosen:
        chosen.write(for_python(pins, python, machine))
        chosen.flush()
        argv = pip_argv(Path(chosen.name), target, python, machine)
        run(argv, log, f"pip could not fetch the Python packages for {machine}")
