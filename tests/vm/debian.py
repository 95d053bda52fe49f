"""Where the host gets Debian from: its own apt sources, asked of apt; no mirror is written down here."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCES_VARIABLE = "FOGCTL_VM_SOURCES"
# Settings of the host's apt that decide whether its mirror can be reached at all.
APT_OPTIONS = ("Acquire::http", "Acquire::https", "Acquire::Check-Valid-Until", "Acquire::Retries")


@dataclass(frozen=True, slots=True)
class Sources:
    """Debian release and the apt sources that serve it, as sources.list text."""

    codename: str
    text: str
    apt_options: tuple[str, ...]


class NoDebianError(Exception):
    """The host cannot fetch Debian packages; the message says what would help."""


def host_sources() -> Sources:
    """The Debian release this host's apt serves, or the one in the file named by FOGCTL_VM_SOURCES."""
    if not shutil.which("apt-get"):
        raise NoDebianError("the guest is built from Debian packages and this machine has no apt-get")
    options = _apt_options()
    if chosen := os.environ.get(SOURCES_VARIABLE):
        text = Path(chosen).read_text()
        suites = [
            words[2] for line in text.splitlines() if len(words := line.split()) > 3 and words[0] == "deb"
        ]
        if not suites:
            raise NoDebianError(f"{chosen}: no line of the form `deb URI SUITE COMPONENT`")
        return Sources(suites[0], text, options)
    entries = _entries()
    if not entries and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        entries = _entries()
    # A host's first plain suite is its release; -updates and -security follow it.
    codename = next((suite for suite, _ in entries if "-" not in suite), None)
    if codename is None:
        raise NoDebianError(
            "this machine's apt has no Debian source (run `apt-get update`, or set "
            f"{SOURCES_VARIABLE} to a file with `deb URI bookworm main` lines)"
        )
    kept = [
        line for suite, line in entries if suite in {codename, f"{codename}-updates", f"{codename}-security"}
    ]
    return Sources(codename, "\n".join(kept) + "\n", options)


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
