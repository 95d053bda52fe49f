"""Debian systems from packages: where this machine gets them, and how one is made for another processor."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fogctl.errors import FAILED, FogError

# Settings of the host's apt that decide whether its mirror can be reached at all.
APT_OPTIONS = ("Acquire::http", "Acquire::https", "Acquire::Check-Valid-Until", "Acquire::Retries")
# Read man pages elsewhere: these paths are a third of a small system. Licences stay.
LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
SOURCES_VARIABLE = "FOGCTL_DEBIAN_SOURCES"


@dataclass(frozen=True, slots=True)
class Sources:
    """Debian release and the apt sources that serve it, as sources.list text."""

    codename: str
    text: str
    apt_options: tuple[str, ...]


def host_sources(variable: str = SOURCES_VARIABLE) -> Sources:
    """The Debian release this host's apt serves, or the one in the file that a variable names."""
    if not shutil.which("apt-get"):
        raise FogError(
            "Debian packages cannot be fetched: this machine has no apt-get",
            hint="on Debian or Ubuntu it works; or give an image to build on",
            exit_code=FAILED,
        )
    options = _apt_options()
    if chosen := os.environ.get(variable):
        return _from_file(Path(chosen), options)
    entries = _entries()
    if not entries and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        entries = _entries()
    # A host's first plain suite is its release; -updates and -security follow it.
    codename = next((suite for suite, _ in entries if "-" not in suite), None)
    if codename is None:
        raise FogError(
            "this machine's apt has no Debian source",
            hint=f"run apt-get update, or set {variable} to a file with `deb URI bookworm main` lines",
            exit_code=FAILED,
        )
    wanted = {codename, f"{codename}-updates", f"{codename}-security"}
    kept = [line for suite, line in entries if suite in wanted]
    return Sources(codename, "\n".join(kept) + "\n", options)


def _from_file(file: Path, options: tuple[str, ...]) -> Sources:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise FogError(f"cannot be read: {error.strerror}", file=file) from None
    suites = [words[2] for line in text.splitlines() if len(words := line.split()) > 3 and words[0] == "deb"]
    if not suites:
        raise FogError("has no line of the form `deb URI SUITE COMPONENT`", file=file)
    return Sources(suites[0], text, options)


def _entries() -> list[tuple[str, str]]:
    """(suite, sources.list line) of every Debian index that the host's apt knows."""
    asked = "$(ORIGIN)|$(RELEASE)|$(SITE)|$(COMPONENT)"
    out = subprocess.run(
        ["apt-get", "indextargets", "--format", asked, "Created-By: Packages"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = []
    for line in dict.fromkeys(out.splitlines()):
        origin, suite, site, component = line.split("|")
        if origin == "Debian":
            found.append((suite, f"deb {site} {suite} {component}"))
    return found


def _apt_options() -> tuple[str, ...]:
    dump = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
    return tuple(
        line.rstrip(";")
        for line in dump.splitlines()
        if line.startswith(APT_OPTIONS) and not line.endswith('"";')
    )


def debootstrap_argv(
    sources: Sources,
    architecture: str,
    packages: Sequence[str],
    target: Path,
    *,
    variant: str,
    options: Sequence[str] = (),
) -> list[str]:
    """mmdebstrap's command; the text of the sources goes to its standard input."""
    return [
        *("mmdebstrap", f"--variant={variant}", f"--architectures={architecture}"),
        *(f"--aptopt={option}" for option in sources.apt_options),
        *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT),
        *options,
        *(f"--include={','.join(packages)}", sources.codename, str(target), "-"),
    ]
