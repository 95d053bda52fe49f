"""The system below an image: Debian packages in one archive, made once and then found in the cache."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fogctl.errors import FAILED, FogError
from fogctl.image.debian import Sources, debootstrap_argv
from fogctl.image.engines import BASE_FILE, BASE_TEXT
from fogctl.image.recipe import Recipe

Say = Callable[[str], None]
_STATUS = "./var/lib/dpkg/status"


@dataclass(frozen=True, slots=True)
class Base:
    """A finished base: a folder of the cache that nothing writes to any more."""

    folder: Path
    architecture: str

    @property
    def name(self) -> str:
        """Its name as an image, for the tool that builds upon it."""
        return f"localhost/fogctl-base:{self.folder.name}"

    @property
    def archive(self) -> Path:
        """The root file system."""
        return self.folder / "root.tar"

    @property
    def dpkg_status(self) -> str:
        """What dpkg knows of the packages in it."""
        return (self.folder / "dpkg-status").read_text(encoding="utf-8")

    @property
    def python(self) -> str:
        """The version of its Python, for example 3.11."""
        return str(self._facts["python"])

    @property
    def made_at(self) -> int:
        """When its packages were fetched, in seconds since 1970."""
        return int(self._facts["made_at"])

    @property
    def _facts(self) -> dict[str, str | int]:
        facts: dict[str, str | int] = json.loads((self.folder / "facts.json").read_text())
        return facts


def base_of(recipe: Recipe, sources: Sources, architecture: str, cache: Path) -> Base:
    """The base's place in the cache, whether it has been made or not."""
    digest = recipe.base_digest(architecture, sources.codename)
    return Base(cache / "bases" / f"{architecture}-{sources.codename}-{digest}", architecture)


def make(base: Base, recipe: Recipe, sources: Sources, log: Path) -> None:
    """Make it beside its final place and rename it at the end: the cache never holds half a base."""
    if base.folder.exists():
        return
    if not shutil.which("mmdebstrap"):
        raise FogError(
            "a base from Debian packages needs mmdebstrap",
            hint="apt-get install mmdebstrap; or name an image to build upon with --base",
            exit_code=FAILED,
        )
    base.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=base.folder.parent) as name:
        work = Path(name) / "base"
        work.mkdir()
        archive = work / "root.tar"
        options = [
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
            "--skip=output/dev",
            # Java's package links its manual page into a folder that is left out here.
            '--essential-hook=mkdir -p "$1/usr/share/man/man1"',
            f'--customize-hook=sh "{recipe.tidy}" "$1"',
        ]
        argv = debootstrap_argv(
            sources, base.architecture, recipe.packages, archive, variant="essential", options=options
        )
        run(argv, log, "the base could not be made from Debian packages", stdin=sources.text)
        status, python = _read(archive)
        (work / "dpkg-status").write_text(status, encoding="utf-8")
        (work / BASE_FILE).write_text(BASE_TEXT)
        (work / "facts.json").write_text(json.dumps({"python": python, "made_at": int(time.time())}))
        work.rename(base.folder)


def _read(archive: Path) -> tuple[str, str]:
    """What dpkg knows, and the version of Python in it."""
    status = python = ""
    with tarfile.open(archive) as tar:
        for entry in tar:
            if entry.name == _STATUS and (stream := tar.extractfile(entry)) is not None:
                status = stream.read().decode()
            elif found := re.fullmatch(r"\./usr/bin/python(3\.\d+)", entry.name):
                python = found[1]
    if not status or not python:
        raise FogError("the base that was made has no dpkg status or no Python", exit_code=FAILED)
    return status, python


def run(argv: Sequence[str], log: Path, failure: str, stdin: str = "") -> None:
    """Run a builder's command; its output goes to a log, of which the end is told if it fails."""
    with log.open("a") as output:
        output.write(f"$ {' '.join(argv)}\n")
        output.flush()
        begin = output.tell()
        done = subprocess.run(
            argv, input=stdin, text=True, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        said = log.read_bytes()[begin:].decode(errors="replace").splitlines()
        reason = _reason(said) or f"exit code {done.returncode}"
        raise FogError(f"{failure}: {reason}", hint=f"its log: {log}", exit_code=FAILED)


def _reason(said: Sequence[str]) -> str | None:
    """The first line that speaks of an error, which those after it follow from; else the last."""
    lines = [line.strip()[:300] for line in said if line.strip()]
    errors = [line for line in lines if re.search(r"^E: |\berror\b", line, re.IGNORECASE)]
    return next(iter(errors or lines[-1:]), None)


@contextmanager
def only_one(lock: Path, say: Say) -> Iterator[None]:
    """Two builds at once would do everything twice: the second waits."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is under way; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
