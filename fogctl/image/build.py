"""Builds the image of a stage: bases, packages and context, a builder's commands, an OCI layout."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fogctl import __version__
from fogctl.errors import REFUSED, FogError
from fogctl.image import base as bases
from fogctl.image import binfmt, contents, engines, inventory, sbom, space, thin
from fogctl.image.base import Base
from fogctl.image.check import Checked, check
from fogctl.image.contents import Packages
from fogctl.image.debian import host_sources
from fogctl.image.engines import Engine, Job, Target, Task
from fogctl.image.inventory import Item
from fogctl.image.layout import Layout
from fogctl.image.recipe import REPOSITORY, Recipe, cache_dir, image_name
from fogctl.runtime import jars

Say = Callable[[str], None]
PYTHON_OF_NAMED_BASE = "3.11"
STAMP = "built.json"
_STEP = "layout"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to build."""

    architectures: tuple[str, ...]
    to: Path
    """The folder of the OCI layout."""
    base: str | None = None
    """An image with Python to build upon; None: one is made from Debian packages."""
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """What came of it."""

    layout: Path
    name: str
    seconds: float
    cached: bool
    """Nothing had changed since the layout was written."""
    images: tuple[Checked, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """What is below and beside fogctl's own code, for one processor."""

    architecture: str
    base: Base | None
    """None: the base has a name, and the builder finds it."""
    image: str
    """The image to build upon."""
    packages: Packages
    python: str

    @property
    def made_at(self) -> int:
        """The time that everything in the image bears."""
        return self.base.made_at if self.base is not None else 0

    @property
    def job(self) -> Job:
        """The builder's work."""
        root = self.base.folder if self.base is not None else None
        return Job(self.architecture, self.image, root, self.made_at)


def build(wanted: Wanted, say: Say, cache: Path | None = None) -> Built:
    """Build the images and check them; what an earlier build has made and nothing changed is used again."""
    began = time.monotonic()
    cache = cache or cache_dir()
    recipe = Recipe.load()
    require_free(wanted.to)
    engine = engine_of(wanted, cache)
    cache.mkdir(parents=True, exist_ok=True)
    log = cache / "build.log"
    with space.told(cache), bases.only_one(cache / "lock", say):
        binfmt.tidy(cache / "binfmt.json")
        space.require(_needed(wanted, recipe, cache))
        log.write_text("")
        parts = [_part(wanted, recipe, arch, cache, say, log) for arch in wanted.architectures]
        with tempfile.TemporaryDirectory(prefix="context-", dir=cache) as name:
            context, made = Path(name) / "context", Path(name) / _STEP
            say("laying out jars and fogctl's code")
            documents = lay_out(context, parts)
            digest = _digest(context, recipe, parts, engine)
            if cached := _stamped(wanted.to) == digest:
                say("nothing has changed since the last build")
            else:
                target = Target(image_name(), __version__, recipe.containerfile, context, made)
                for task in engine.tasks(target, [part.job for part in parts]):
                    _carry_out(task, say, log)
                for architecture, text in documents.items():
                    (made / f"fogctl-stage-{architecture}.spdx.json").write_text(text, encoding="utf-8")
                (made / STAMP).write_text(json.dumps({"contents": digest, "name": image_name()}))
                _into_place(made, wanted.to)
    found = tuple(check(Layout(wanted.to), say))
    if wrong := [problem for each in found for problem in each.problems]:
        raise FogError(f"the image is not as it should be: {wrong[0]}", file=wanted.to, exit_code=REFUSED)
    return Built(wanted.to, image_name(), time.monotonic() - began, cached, found)


def _needed(wanted: Wanted, recipe: Recipe, cache: Path) -> dict[Path, int]:
    """The room that a build takes, by folder."""
    sources = host_sources() if wanted.base is None else None
    made = [
        sources is None or bases.base_of(recipe, sources, each, cache).folder.exists()
        for each in wanted.architectures
    ]
    inside = sum(space.AGAIN_BYTES if there else space.FIRST_BYTES for there in made)
    return {cache: inside, wanted.to: space.LAYOUT_BYTES * len(made)}


def _part(wanted: Wanted, recipe: Recipe, architecture: str, cache: Path, say: Say, log: Path) -> Part:
    base = None
    if wanted.base is None:
        sources = host_sources()
        base = bases.base_of(recipe, sources, architecture, cache)
        if base.folder.exists():
            say(f"{architecture}: base of Debian {sources.codename} (cached)")
        else:
            say(f"{architecture}: making a base of Debian {sources.codename} packages (minutes, once)")
            with binfmt.runnable(architecture, cache / "binfmt.json"):
                bases.make(base, recipe, sources, log)
    python = base.python if base is not None else PYTHON_OF_NAMED_BASE
    packages = contents.packages_of(recipe, architecture, python, cache)
    kept = "cached" if packages.folder.exists() else "fetched and thinned out, once"
    say(f"{architecture}: Python {python} packages ({kept})")
    contents.fetch(packages, recipe, python, log)
    name = base.name if base is not None else str(wanted.base)
    return Part(architecture, base, name, packages, python)


def lay_out(context: Path, parts: Sequence[Part]) -> dict[str, str]:
    """Fill the Containerfile's context; answers each processor's bill of materials."""
    contents.shared(context / "shared", parts[0].python)
    thin.date(context / "shared", parts[0].made_at)
    documents = {}
    for part in parts:
        folder = context / part.architecture
        # Linked, not copied: half a gigabyte that nobody changes.
        shutil.copytree(part.packages.folder, folder / "lib", copy_function=os.link, symlinks=True)
        made = sbom.document(
            REPOSITORY.partition("/")[2],
            __version__,
            part.architecture,
            items(part, context),
            part.made_at,
            f"fogctl-{__version__}",
        )
        documents[part.architecture] = sbom.text(made)
        (folder / "sbom").mkdir()
        (folder / "sbom" / sbom.FILE_NAME).write_text(documents[part.architecture], encoding="utf-8")
        thin.date(folder / "sbom", part.made_at)
    return documents


def items(part: Part, context: Path) -> list[Item]:
    """Everything in one image that somebody released."""
    lib = part.packages.folder
    if part.base is not None:
        below = inventory.debian(part.base.dpkg_status)
    else:
        below = [Item(part.image, "unknown", f"pkg:generic/{part.image}")]
    return [
        *below,
        *inventory.python(lib),
        *inventory.python(context / "shared" / "code"),
        *inventory.spark_jars(lib / "pyspark" / "jars", "/opt/fogctl/lib/pyspark/jars"),
        *inventory.pinned(jars.locked(jars.CONNECTOR), "/opt/fogctl/jars"),
        *inventory.pinned(jars.locked(jars.BROKER), "/opt/fogctl/kafka"),
    ]


def _carry_out(task: Task, say: Say, log: Path) -> None:
    if task.unless is not None:
        asked = subprocess.run(task.unless, check=False, capture_output=True)
        if asked.returncode == 0:
            return
    if task.may_fail:
        subprocess.run(task.argv, check=False, capture_output=True)
        return
    say(f"{task.argv[0]}: {task.what}")
    bases.run(task.argv, log, f"{task.argv[0]} could not make the {task.what}")


def _digest(context: Path, recipe: Recipe, parts: Sequence[Part], engine: Engine) -> str:
    """What the layout depends on."""
    digest = hashlib.sha256(recipe.containerfile.read_bytes())
    for part in parts:
        digest.update(f"{engine.name} {part.image} {part.packages.folder.name}\n".encode())
    for file, name in thin.below(context / "shared"):
        # Jars are pinned, and their pins are among the rest; bytecode follows from the code.
        if not name.endswith((".jar", ".pyc")):
            digest.update(f"{name}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _stamped(folder: Path) -> str | None:
    try:
        found: str = json.loads((folder / STAMP).read_text())["contents"]
    except (OSError, ValueError, KeyError):
        return None
    return found


def require_free(folder: Path) -> None:
    """FogError if the folder holds something that is not a layout of ours."""
    if folder.exists() and not (folder / STAMP).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise FogError("holds something else", file=folder, key="--to", hint="name a new or empty folder")


def _into_place(made: Path, to: Path) -> None:
    """Put a finished layout where it belongs: there is always a whole one, the old or the new."""
    to = to.absolute()
    to.parent.mkdir(parents=True, exist_ok=True)
    fresh, old = (to.with_name(f".{to.name}.{word}") for word in ("new", "old"))
    for folder in (fresh, old):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.move(made, fresh)
    if to.exists():
        to.rename(old)
    fresh.rename(to)
    shutil.rmtree(old, ignore_errors=True)


def engine_of(wanted: Wanted, cache: Path) -> Engine:
    """The tool to build with, on this machine."""
    storage = cache / "storage"
    return engines.choose(wanted.tool, storage, _driver(cache), _works, wanted.base is not None)


def _works(tool: str) -> bool:
    if shutil.which(tool) is None:
        return False
    asked = ("docker", "buildx", "ls") if tool == "docker" else (tool, "--version")
    return subprocess.run(asked, check=False, capture_output=True).returncode == 0


def _driver(cache: Path) -> str:
    """overlay where the kernel can, and may, lay it over the cache's file system; else plain folders."""
    if shutil.which("stat") is None or not Path("/proc/filesystems").exists():
        return "vfs"  # not Linux
    place = next(folder for folder in (cache, *cache.absolute().parents) if folder.exists())
    asked = subprocess.run(
        ["stat", "-f", "-c", "%T", str(place)], check=False, capture_output=True, text=True
    )
    known = "overlay" in Path("/proc/filesystems").read_text().split()
    able = known and os.geteuid() == 0 and asked.stdout.strip() not in ("overlayfs", "tmpfs", "")
    return "overlay" if able else "vfs"
