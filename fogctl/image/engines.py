"""The tools that build an image (buildah, podman, docker buildx), as the commands each is given. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fogctl.errors import FAILED, FogError

PREFERRED = ("buildah", "podman", "docker")
BASE_FILE = "Containerfile"
BASE_TEXT = "FROM scratch\nADD root.tar /\n"
"""How a root file system becomes an image to build upon."""


@dataclass(frozen=True, slots=True)
class Job:
    """One image to build, for one processor."""

    architecture: str
    base: str
    """The image to build upon."""
    root: Path | None
    """The folder that this base is imported from; None: the tool finds the base by itself."""
    made_at: int
    """The time of everything in it: the same contents give the same layers."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the images of all processors have in common."""

    name: str
    version: str
    containerfile: Path
    context: Path
    layout: Path
    """The folder that becomes an OCI layout; it does not exist yet."""


@dataclass(frozen=True, slots=True)
class Task:
    """A command of a tool, and what it is for."""

    what: str
    argv: tuple[str, ...]
    unless: tuple[str, ...] | None = None
    """Not needed if this command succeeds."""
    may_fail: bool = False


class Engine(Protocol):
    """A tool that builds images."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def tasks(self, target: Target, jobs: Sequence[Job]) -> list[Task]:
        """From bases and context to a layout with an image for each processor."""
        ...


@dataclass(frozen=True, slots=True)
class Daemonless:
    """buildah or podman, in a storage of its own: the user's images are not touched, no daemon is needed."""

    name: str
    storage: Path
    driver: str

    @property
    def _tool(self) -> tuple[str, ...]:
        folders = ("--root", str(self.storage / "root"), "--runroot", str(self.storage / "run"))
        return (self.name, *folders, "--storage-driver", self.driver)

    def _build(self, job: Job, tag: str, file: Path, context: Path, *more: str) -> tuple[str, ...]:
        # Nothing is run in an image while it is built, so a chroot is isolation enough.
        return (
            *(*self._tool, "build", "--isolation", "chroot", "--layers", "--format", "oci", *more),
            *("--arch", job.architecture, "--timestamp", str(job.made_at)),
            *("--file", str(file), "--tag", tag, str(context)),
        )

    def _import(self, job: Job, folder: Path) -> Task:
        return Task(
            f"imported base for {job.architecture}",
            self._build(job, job.base, folder / BASE_FILE, folder),
            unless=(*self._tool, "inspect", "--type", "image", job.base),
        )

    def tasks(self, target: Target, jobs: Sequence[Job]) -> list[Task]:
        """Each image by itself, then one manifest of all, pushed to a folder."""
        made = [self._import(job, job.root) for job in jobs if job.root is not None]
        for job in jobs:
            given = (f"BASE={job.base}", f"TARGETARCH={job.architecture}", f"VERSION={target.version}")
            arguments = [word for each in given for word in ("--build-arg", each)]
            tag = f"{target.name}-{job.architecture}"
            argv = self._build(job, tag, target.containerfile, target.context, *arguments)
            made.append(Task(f"layers for {job.architecture}", argv))
        listed = tuple(f"{target.name}-{job.architecture}" for job in jobs)
        put = (*self._tool, "manifest")
        made.append(Task("the old manifest away", (*put, "rm", target.name), may_fail=True))
        made.append(Task("manifest", (*put, "create", target.name, *listed)))
        to = f"oci:{target.layout}:{target.version}"
        made.append(Task("OCI layout", (*put, "push", "--all", "--quiet", target.name, to)))
        return made


@dataclass(frozen=True, slots=True)
class Buildx:
    """docker buildx: all processors in one build, upon an image that it pulls."""

    name: str = "docker"

    def tasks(self, target: Target, jobs: Sequence[Job]) -> list[Task]:
        """One build, written as a folder."""
        platforms = ",".join(f"linux/{job.architecture}" for job in jobs)
        argv = (
            *("docker", "buildx", "build", "--platform", platforms, "--provenance=false"),
            *("--build-arg", f"BASE={jobs[0].base}", "--build-arg", f"VERSION={target.version}"),
            *("--build-arg", f"SOURCE_DATE_EPOCH={jobs[0].made_at}", "--file", str(target.containerfile)),
            *("--output", f"type=oci,tar=false,dest={target.layout},name={target.name}"),
            str(target.context),
        )
        return [Task("layers, manifest and OCI layout", argv)]


def choose(
    asked: str | None, storage: Path, driver: str, works: Callable[[str], bool], has_base: bool
) -> Engine:
    """The tool that was asked for, else the first that works here."""
    if asked is not None and asked not in PREFERRED:
        raise FogError(f'"{asked}" is not known', key="--with", hint=f"one of {', '.join(PREFERRED)}")
    found = next((name for name in ([asked] if asked else PREFERRED) if works(name)), None)
    if found is None:
        nothing = "neither buildah nor podman nor docker buildx works here"
        raise FogError(
            f"{asked} does not work here" if asked else nothing,
            hint="on Debian: apt-get install buildah",
            exit_code=FAILED,
        )
    if found == "docker":
        if not has_base:
            raise FogError(
                "docker buildx builds upon an image, not upon Debian packages",
                key="--base",
                hint="name one that has Python 3.11 and Java; or install buildah",
            )
        return Buildx()
    return Daemonless(found, storage, driver)
