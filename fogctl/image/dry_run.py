"""What a build would do, step by step, and which steps an earlier build has done; nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fogctl import __version__
from fogctl.image import base as bases
from fogctl.image import binfmt, contents
from fogctl.image.build import PYTHON_OF_NAMED_BASE, Wanted, engine_of, require_free
from fogctl.image.debian import Sources, host_sources
from fogctl.image.engines import Job, Target
from fogctl.image.recipe import Recipe, cache_dir, image_name


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a build does."""

    what: str
    how: str
    cached: bool = False


def plan(wanted: Wanted, cache: Path | None = None) -> list[Step]:
    """The steps of a build, as things are now."""
    cache = cache or cache_dir()
    recipe = Recipe.load()
    require_free(wanted.to)
    engine = engine_of(wanted, cache)
    sources = host_sources() if wanted.base is None else None
    steps: list[Step] = []
    jobs: list[Job] = []
    for architecture in wanted.architectures:
        made, job = _below(wanted, recipe, architecture, cache, sources)
        steps += made
        jobs.append(job)
    context = cache / "context-…"
    steps.append(Step("lay out the context", f"{context}: jars, fogctl {__version__}, bills of materials"))
    target = Target(image_name(), __version__, recipe.containerfile, context, wanted.to)
    steps += [Step(task.what, " ".join(task.argv)) for task in engine.tasks(target, jobs)]
    steps.append(Step("check", f"every layer of every image in {wanted.to}"))
    return steps


def _below(
    wanted: Wanted, recipe: Recipe, architecture: str, cache: Path, sources: Sources | None
) -> tuple[list[Step], Job]:
    """The steps up to one processor's base and packages, and the builder's work upon them."""
    if sources is None:
        packages = contents.packages_of(recipe, architecture, PYTHON_OF_NAMED_BASE, cache)
        job = Job(architecture, str(wanted.base), None, 0)
        return [_packages(architecture, packages.folder, packages.folder.exists())], job
    base = bases.base_of(recipe, sources, architecture, cache)
    there = base.folder.exists()
    steps = []
    if not there and architecture != binfmt.native():
        how = binfmt.registered(architecture)
        emulator = (
            f"{how}, which is registered already" if how else "registered with the kernel, then taken back"
        )
        steps.append(Step(f"run {architecture} programs here", emulator))
    with_packages = f"mmdebstrap, Debian {sources.codename}: {', '.join(recipe.packages)} → {base.folder}"
    steps.append(Step(f"base for {architecture}", with_packages, there))
    if there:
        packages = contents.packages_of(recipe, architecture, base.python, cache)
        steps.append(_packages(architecture, packages.folder, packages.folder.exists()))
    else:
        steps.append(_packages(architecture, cache / "packages" / f"{architecture}-…", False))
    return steps, Job(architecture, base.name, base.folder, base.made_at if there else 0)


def _packages(architecture: str, folder: Path, there: bool) -> Step:
    return Step(f"packages for {architecture}", f"pip, by hash: Python packages → {folder}", there)
