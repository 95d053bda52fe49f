"""What goes into an image, laid out as the Containerfile's context: packages, jars, fogctl's own code."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from fogctl.errors import FAILED, FogError
from fogctl.image import thin, wheels
from fogctl.image.recipe import ARCHITECTURES, Recipe
from fogctl.runtime import jars

OURS = ("fogctl", "fogapps", "fognetem", "fogmodels")
_PASSWD = """root:x:0:0:root:/root:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
fog:x:10001:10001:fogctl:/tmp:/usr/sbin/nologin
"""
_GROUP = "root:x:0:\ntty:x:5:\nnogroup:x:65534:\nfog:x:10001:\n"


@dataclass(frozen=True, slots=True)
class Packages:
    """The Python packages for one processor, pyspark among them: a folder of the cache."""

    folder: Path
    architecture: str


def packages_of(recipe: Recipe, architecture: str, python: str, cache: Path) -> Packages:
    """Their place in the cache, whether they are there or not."""
    digest = recipe.packages_digest(architecture, python, metadata.version("pyspark"))
    return Packages(cache / "packages" / f"{architecture}-{digest}", architecture)


def fetch(packages: Packages, recipe: Recipe, python: str, log: Path) -> None:
    """Fetch, thin out and compile them beside their final place; renamed at the end."""
    if packages.folder.exists():
        return
    packages.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=packages.folder.parent) as name:
        fetched, made = Path(name) / "fetched", Path(name) / "made"
        wheels.unpack(recipe.pins, fetched, python, ARCHITECTURES[packages.architecture], log)
        thin.copied(thin.below(fetched), made, recipe.left_out)
        thin.copied(_installed("pyspark"), made, recipe.left_out)
        for jar in sorted((made / "pyspark" / "jars").glob("*.jar")):
            thin.thin_jar(jar, packages.architecture)
        _compile(made, python, "/opt/fogctl/lib", processes=0)
        made.rename(packages.folder)


def shared(to: Path, python: str) -> None:
    """What is the same for every processor: Kafka's jars, users, and fogctl itself."""
    for part, folder in ((jars.CONNECTOR, "jars"), (jars.BROKER, "kafka")):
        files = [(file, file.name) for file in jars.class_path(part)]
        thin.copied(files, to / folder, ())
    etc, code = to / "etc", to / "code"
    etc.mkdir(parents=True)
    (etc / "passwd").write_text(_PASSWD)
    (etc / "group").write_text(_GROUP)
    for package in OURS:
        thin.copied(thin.below(_home(package), package), code, ("*/__pycache__/*", "fogctl/_data/*"))
    information = code / f"fogctl-{metadata.version('fogctl')}.dist-info"
    information.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (information / name).write_text(metadata.distribution("fogctl").read_text(name) or "")
    _compile(code, python, "/opt/fogctl/code")


def _home(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise FogError(f"{package} is not installed", hint="install fogctl again", exit_code=FAILED)
    return Path(spec.origin).parent


def _installed(name: str) -> Iterator[tuple[Path, str]]:
    """The files of a distribution of pure Python, as it is installed here; scripts elsewhere are left out."""
    for file in metadata.distribution(name).files or ():
        place = Path(os.fspath(file.locate()))
        if not file.as_posix().startswith("..") and place.is_file():
            yield place, file.as_posix()


def _compile(folder: Path, python: str, inside: str, processes: int = 1) -> None:
    """Bytecode beside the code, because nobody can write it there later; of this Python's version only.

    In a new interpreter, file by file: what a process has compiled or loaded before shows in the bytecode it
    writes, and the same code would be another layer. Several processes are faster, and differ.
    """
    if python != f"{sys.version_info.major}.{sys.version_info.minor}":
        return
    argv = [sys.executable, "-m", "compileall", "-qq", "-j", str(processes)]
    argv += ["--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", inside, str(folder)]
    subprocess.run(argv, check=False, env={**os.environ, "PYTHONHASHSEED": "0"})
