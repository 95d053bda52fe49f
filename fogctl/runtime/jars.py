"""The jars that the broker and Spark's Kafka connector need: pinned, fetched once, then offline.

They come from Maven coordinates through the ivy jar that pyspark carries, so a Java runtime is all it takes.
FOGCTL_MAVEN_ROOT names another Maven repository; FOGCTL_CACHE_DIR another cache folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from fogctl.errors import FAILED, FogError
from fogctl.java import Java, require_java

LOCK = Path(__file__).with_name("jars.lock.toml")
BROKER = "broker"
CONNECTOR = "connector"
PARTS = (BROKER, CONNECTOR)
SILENCE_PATIENCE_S = 120.0
"""A download that says nothing for so long is given up."""
Progress = Callable[[int, int, str], None]
"""Told how much is done, of how much, and what it was."""


def quietly(done: int, total: int, what: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned artefact."""

    organisation: str
    artifact: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Its name in the cache: the organisation is in it, because artefact names repeat."""
        return f"{self.organisation}__{self.artifact}__{self.revision}.jar"

    @property
    def coordinates(self) -> str:
        """Its name in Maven's notation."""
        return f"{self.organisation}:{self.artifact}:{self.revision}"


def locked(part: str) -> tuple[Jar, ...]:
    """The jars of one part of the lock file (`broker`, `connector`)."""
    with LOCK.open("rb") as file:
        pins = tomllib.load(file)[part]
    return tuple(_pinned(coordinates, digest) for coordinates, digest in pins.items())


def _pinned(coordinates: str, digest: str) -> Jar:
    organisation, artifact, revision = coordinates.split(":")
    return Jar(organisation, artifact, revision, digest)


def cache_dir() -> Path:
    """Where this user's jars are kept."""
    root = os.environ.get("FOGCTL_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    base = Path(root) if root else Path.home() / ".cache"
    return (base if os.environ.get("FOGCTL_CACHE_DIR") else base / "fogctl") / "jars"


def missing(part: str, cache: Path) -> tuple[Jar, ...]:
    """The jars of a part that are not in the cache as they should be."""
    return tuple(jar for jar in locked(part) if not _intact(cache / jar.file_name, jar))


def class_path(part: str, cache: Path | None = None) -> tuple[Path, ...]:
    """The jars of a part, all present and intact; fetched first if they are not."""
    cache = cache or cache_dir()
    fetch(part, cache)
    return tuple(cache / jar.file_name for jar in locked(part))


def fetch(part: str, cache: Path, on_progress: Progress = quietly) -> tuple[Jar, ...]:
    """Fetch what is missing and check every checksum; returns what was fetched.

    A jar enters the cache only under its final name and only if it is the pinned one.
    """
    wanted = missing(part, cache)
    if not wanted:
        return ()
    java = require_java()
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FogError(
            f"the jars cannot be kept: {error.strerror}",
            file=cache,
            hint="set FOGCTL_CACHE_DIR to a folder you may write to",
            exit_code=FAILED,
        ) from error
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as folder:
        _run_ivy(java, wanted, Path(folder), os.environ.get("FOGCTL_MAVEN_ROOT"), on_progress)
        for jar in wanted:
            got = Path(folder) / "jars" / jar.file_name
            if not got.is_file():
                raise FogError(f"{jar.coordinates} was not delivered", hint=_NETWORK_HINT, exit_code=FAILED)
            if not _intact(got, jar):
                raise FogError(
                    f"{jar.coordinates} is not the pinned file (its SHA-256 differs)",
                    hint="the repository or the network changed it: set FOGCTL_MAVEN_ROOT to one you trust",
                    exit_code=FAILED,
                )
        for jar in wanted:
            (Path(folder) / "jars" / jar.file_name).replace(cache / jar.file_name)
    return wanted


_NETWORK_HINT = (
    "the first download needs a network: connect, set FOGCTL_MAVEN_ROOT to a mirror you reach, "
    "then: fogctl doctor --fetch"
)


def _intact(path: Path, jar: Jar) -> bool:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False


def _run_ivy(
    java: Java, jars: Sequence[Jar], folder: Path, maven_root: str | None, on_progress: Progress
) -> None:
    root = f" root={quoteattr(maven_root.rstrip('/') + '/')}" if maven_root else ""
    settings = folder / "settings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true"{root}/></resolvers></ivysettings>'
    )
    module = folder / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="fogctl" module="jars"/>'
        '<configurations><conf name="default"/></configurations><dependencies>'
        + "".join(
            f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.artifact)}"
            f' rev={quoteattr(jar.revision)} transitive="false"/>'
            for jar in jars
        )
        + "</dependencies></ivy-module>"
    )
    pattern = str(folder / "jars" / "[organisation]__[artifact]__[revision].[ext]")
    argv = [str(java.executable), "-jar", str(_ivy_jar()), "-settings", str(settings), "-ivy", str(module)]
    argv += ["-cache", str(folder / "cache"), "-types", "jar", "bundle", "-retrieve", pattern]
    code, said = _watched(argv, len(jars), on_progress)
    if code != 0:
        unresolved = [line.partition("not found:")[2].strip() for line in said if "module not found:" in line]
        where = maven_root or "Maven's central repository"
        if len(unresolved) >= len(jars) or not unresolved:
            what = f"{where} does not answer, or has none of the {len(jars)} jars asked for"
        else:
            what = f"{where} has no {unresolved[0].replace('#', ':').replace(';', ':')}"
        raise FogError(f"jars could not be fetched: {what}", hint=_NETWORK_HINT, exit_code=FAILED)


def _watched(argv: Sequence[str], jars: int, on_progress: Progress) -> tuple[int, list[str]]:
    """Run ivy and tell of each jar it found and each it got; answers its exit code and what it said."""
    said: list[str] = []
    done = 0
    on_progress(0, 2 * jars, "asking for the jars")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        last_word = [time.monotonic()]

        def give_up_on_silence() -> None:
            while ivy.poll() is None:
                if time.monotonic() - last_word[0] > SILENCE_PATIENCE_S:
                    ivy.kill()
                time.sleep(0.5)

        threading.Thread(target=give_up_on_silence, daemon=True).start()
        assert ivy.stdout is not None
        for line in ivy.stdout:
            last_word[0] = time.monotonic()
            said.append(line)
            words = line.split()
            if words[:1] == ["found"] or words[:1] == ["[SUCCESSFUL"]:
                done += 1
                on_progress(done, 2 * jars, words[1 if words[0] == "found" else 2].partition("!")[0])
        code = ivy.wait()
    return code, said


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    found = sorted(folder.glob("ivy-*.jar")) if folder else []
    if not found:
        raise FogError(
            "pyspark's ivy jar is missing", hint="pip install --force-reinstall pyspark", exit_code=FAILED
        )
    return found[-1]
