"""The two ways to inject latencies, as values: the kernel's own netem, or the delay line in user space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fognetem.endpoint import Endpoint
from fognetem.host import Host

PlainPath = tuple[float, float, float, float | None, bool]
"""A Path as plain values in field order, as steps carry it."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """sch_netem under a classful tree on each node's data interface."""

    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class UserSpace:
    """One delay-line process for all nodes; `run_dir` holds its socket, configuration and log."""

    endpoints: tuple[Endpoint, ...]
    run_dir: str


Backend = Kernel | UserSpace


class Step(Protocol):
    """One change to a host: a frozen dataclass of plain fields that can be described, applied and undone."""

    def describe(self) -> str:
        """What the step makes, for dry run and logs."""
        ...

    def present(self, host: Host) -> bool:
        """Whether the host already is as the step would make it."""
        ...

    def apply(self, host: Host) -> None:
        """Make it so."""
        ...

    def undo(self, host: Host) -> None:
        """Take it back; nothing happens if it is gone."""
        ...
