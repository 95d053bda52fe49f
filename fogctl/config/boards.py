"""Boards: what each kind of machine can do, read from the profiles in `hardware/`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from fogctl import data
from fogctl.config import source
from fogctl.config.fields import Entry, Hertz, RateBitS, SizeBytes, Watts
from fogctl.config.problems import choice_hint
from fogctl.config.units import quoted
from fogctl.config.validate import validate
from fogctl.errors import FogError

UNLIMITED = "host"
"""The board of a virtual node that is not limited at all."""

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, strict=True)]
_BoardName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=30, strict=True)
]
Confidence = Literal["specification", "measured", "derived", "estimate"]


def _single(names: dict[str, int]) -> dict[str, int]:
    if UNLIMITED in names:
        raise ValueError(f'"{UNLIMITED}" is not free for a board: it means "not limited"')
    return names


class ClusterEntry(Entry):
    """Cores of one kind."""

    count: int = Field(ge=1, le=256, examples=[4])
    core: _Text = Field(examples=["Cortex-A72"])
    clock: Hertz = Field(examples=["1800MHz"])
    relative_speed: float = Field(
        gt=0,
        le=100,
        strict=False,
        description="speed of one such core, one core of a Raspberry Pi 4 being 1",
        examples=[1.0],
    )


class NicEntry(Entry):
    """The network interface most people use."""

    rate: RateBitS = Field(
        description="what iperf really gets, not what the label says", examples=["940mbit"]
    )
    kind: _Text = Field(examples=["Gigabit Ethernet"])


class PowerEntry(Entry):
    """Power at the supply, without peripherals."""

    idle: Watts = Field(examples=["2.7W"])
    load: Watts = Field(description="all cores busy", examples=["6.4W"])


class SourceEntry(Entry):
    """Where a figure comes from, and how far to trust it."""

    figure: Literal["cpu", "memory", "nic", "power", "relative_speed", "kernel_cmdline"]
    kind: Confidence
    note: _Text


class BoardFile(Entry):
    """A file in `hardware/`: one board, sold with one or more sizes of memory."""

    title: _Text = Field(examples=["Raspberry Pi 4 Model B"])
    soc: _Text = Field(examples=["Broadcom BCM2711"])
    arch: Literal["arm64", "armhf"] = "arm64"
    cpu: list[ClusterEntry] = Field(min_length=1, max_length=8)
    memory: Annotated[dict[_BoardName, SizeBytes], Field(min_length=1), AfterValidator(_single)] = Field(
        description="the board's name in testbed.yaml for each size of memory", examples=["{rpi4-4g: 4GiB}"]
    )
    nic: NicEntry
    power: PowerEntry
    kernel_cmdline: list[_Text] = Field(
        description="what must be on the kernel command line so that memory cgroups work; [] if nothing"
    )
    traps: list[_Text] = Field(default_factory=list, description="what has bitten people")
    sources: list[SourceEntry] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cores of one kind."""

    count: int
    core: str
    clock_hz: float
    relative_speed: float


@dataclass(frozen=True, slots=True)
class Figure:
    """Where a figure comes from, and how far to trust it."""

    figure: str
    kind: str
    note: str


@dataclass(frozen=True, slots=True)
class Board:
    """A kind of machine."""

    name: str
    title: str
    soc: str
    arch: str
    cpu: tuple[Cluster, ...]
    memory_bytes: int
    nic_bit_s: float
    nic_kind: str
    idle_watts: float
    load_watts: float
    kernel_cmdline: tuple[str, ...]
    traps: tuple[str, ...]
    sources: tuple[Figure, ...]

    @property
    def cores(self) -> int:
        """How many cores it has, fast and slow."""
        return sum(cluster.count for cluster in self.cpu)

    @property
    def clock_hz(self) -> float:
        """The clock of its fastest cores."""
        return max(self.cpu, key=lambda cluster: cluster.relative_speed).clock_hz

    @property
    def relative_speed(self) -> float:
        """The speed of its fastest core; a core of a Raspberry Pi 4 is 1."""
        return max(cluster.relative_speed for cluster in self.cpu)

    @property
    def capacity(self) -> float:
        """All its cores together, in cores of a Raspberry Pi 4 (cores × speed when they are all alike)."""
        return sum(cluster.count * cluster.relative_speed for cluster in self.cpu)


def load_file(path: Path) -> list[Board]:
    """The boards one profile describes, one for each size of memory."""
    document = source.read(path, "board profile")
    profile = validate(document, BoardFile)
    if profile.power.load < profile.power.idle:
        raise FogError(
            "is less than power.idle",
            file=path,
            line=document.line(("power", "load")),
            key="power.load",
            hint="swap the two figures",
        )
    return [_board(name, size, profile) for name, size in profile.memory.items()]


def _board(name: str, memory_bytes: int, profile: BoardFile) -> Board:
    return Board(
        name=name,
        title=profile.title,
        soc=profile.soc,
        arch=profile.arch,
        cpu=tuple(Cluster(part.count, part.core, part.clock, part.relative_speed) for part in profile.cpu),
        memory_bytes=memory_bytes,
        nic_bit_s=profile.nic.rate,
        nic_kind=profile.nic.kind,
        idle_watts=profile.power.idle,
        load_watts=profile.power.load,
        kernel_cmdline=tuple(profile.kernel_cmdline),
        traps=tuple(profile.traps),
        sources=tuple(Figure(part.figure, part.kind, part.note) for part in profile.sources),
    )


def load_all(folders: list[Path] | None = None) -> dict[str, Board]:
    """Every board by name, sorted: those that ship, then those in the folder FOGCTL_HARDWARE_DIR names."""
    if folders is None:
        folders = [data.path("hardware")]
        if own := os.environ.get("FOGCTL_HARDWARE_DIR"):
            folders.append(Path(own))
    found: dict[str, tuple[Board, Path]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise FogError(
                "is not a folder",
                file=folder,
                hint="FOGCTL_HARDWARE_DIR must name a folder of board profiles",
            )
        for path in sorted(folder.glob("*.yaml")):
            for board in load_file(path):
                if board.name in found:
                    raise FogError(
                        f'the board "{board.name}" is also in {found[board.name][1]}',
                        file=path,
                        hint="rename one",
                    )
                found[board.name] = (board, path)
    return {name: found[name][0] for name in sorted(found)}


def find(name: str, boards: dict[str, Board]) -> Board:
    """The board of that name; FogError with the nearest name if there is none."""
    board = boards.get(name)
    if board is None:
        raise FogError(f"unknown board {quoted(name)}", hint=unknown_hint(name, list(boards)))
    return board


def unknown_hint(name: str, known: list[str]) -> str:
    """What to say about a board nobody knows."""
    return choice_hint(name, known, "see: fogctl board list")
