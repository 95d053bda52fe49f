"""The Go programs of these tests: built from the modules beside this file once, then found in a cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST_GO = (1, 21)
"""The first Go that fetches the newer one a module asks for."""
VERSION = "v1.36.3"
VERSION_PACKAGE = "k8s.io/component-base/version"
VERSION_FACTS = {
    "gitVersion": VERSION,
    "gitMajor": "1",
    "gitMinor": VERSION.split(".")[1],
    "gitTreeState": "clean",
}

Say = Callable[[str], None]


class NoGoError(Exception):
    """Why these programs can be neither found nor built here, in one sentence."""


@dataclass(frozen=True, slots=True)
class Program:
    """A Go module of ours and how its binary is linked."""

    name: str
    facts: tuple[tuple[str, str], ...] = ()
    effort: str = "some seconds"

    @property
    def folder(self) -> Path:
        """Where its source is."""
        return HERE / self.name

    @property
    def flags(self) -> list[str]:
        """How it is built: small, the same everywhere, without C."""
        linked = ["-s", "-w", *(f"-X {name}={value}" for name, value in self.facts)]
        return ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", " ".join(linked)]


SERVER = Program(
    "server",
    tuple((f"{VERSION_PACKAGE}.{name}", value) for name, value in VERSION_FACTS.items()),
    effort="about 16 CPU minutes",
)
KWOK = Program("kwok", effort="about 4 CPU minutes")
TINY = Program("tiny")


def cache_folder() -> Path:
    """Where binaries are kept: FOGCTL_KUBE_CACHE, or fogctl/kube in the user's cache."""
    if chosen := os.environ.get("FOGCTL_KUBE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fogctl" / "kube"


def get_program(program: Program, say: Say = print) -> Path:
    """The binary of today's source: from the cache, or built now. NoGoError where there is no Go."""
    go, version = _go(program)
    cache = cache_folder()
    binary = cache / f"{program.name}-{_hash(program, version)}"
    if binary.exists():
        return binary
    cache.mkdir(parents=True, exist_ok=True)
    with _only_one(cache / f"{program.name}.lock", program, say):
        if not binary.exists():
            _build(go, program, binary, say)
    return binary


def _go(program: Program) -> tuple[str, str]:
    """The go command, and the version it uses for this module."""
    path = os.environ.get("PATH", "") + ":/usr/local/go/bin:/usr/lib/go/bin"
    go = shutil.which("go", path=path)
    if go is None:
        raise NoGoError(
            "no Go here: these tests build Kubernetes from its Go modules; install Go 1.26 from go.dev"
        )
    asked = subprocess.run([go, "version"], capture_output=True, text=True, check=True, cwd="/").stdout
    found = re.search(r"go(\d+)\.(\d+)", asked)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GO:
        raise NoGoError(
            f"{asked.strip()!r} is too old to build Kubernetes {VERSION}; install Go 1.26 from go.dev"
        )
    chosen = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, check=False, cwd=program.folder
    )
    if chosen.returncode:
        raise NoGoError(f"Go cannot fetch the version it needs: {chosen.stderr.strip().splitlines()[-1]}")
    return go, chosen.stdout.strip()


def _hash(program: Program, go_version: str) -> str:
    """What the binary depends on: its source, the pinned modules, the compiler, how it is linked."""
    digest = hashlib.sha256(f"{go_version}\n{program.flags}\n".encode())
    for file in sorted(program.folder.iterdir()):
        if file.suffix in (".go", ".mod", ".sum"):
            digest.update(f"{file.name}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _only_one(lock: Path, program: Program, say: Say) -> Iterator[None]:
    """Two test runs that both miss the cache build once: the second waits."""
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{program.name}: another run is building it; waiting")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(go: str, program: Program, binary: Path, say: Say) -> None:
    """Build beside the final name and rename at the end: the cache never holds half a binary."""
    say(f"{program.name}: building, {program.effort}; kept as {binary}")
    started = time.monotonic()
    descriptor, unfinished = tempfile.mkstemp(prefix="building-", dir=binary.parent)
    os.close(descriptor)
    try:
        done = subprocess.run(
            [go, "build", *program.flags, "-o", unfinished, "."],
            cwd=program.folder,
            env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            tail = "\n".join(done.stderr.strip().splitlines()[-20:])
            raise RuntimeError(f"building tests/kube/{program.name} failed:\n{tail}")
        Path(unfinished).chmod(0o755)
        Path(unfinished).rename(binary)
    finally:
        Path(unfinished).unlink(missing_ok=True)
    took = time.monotonic() - started
    say(f"{program.name}: built in {took:.0f} s, {binary.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    for each in (SERVER, KWOK, TINY):
        print(get_program(each, say=lambda text: print(text, file=sys.stderr, flush=True)))
