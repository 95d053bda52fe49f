"""What every kind of testbed can do, whatever its nodes are made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from fognetem.matrix import Path as NetworkPath

from fogctl.testbed.build import Progress
from fogctl.testbed.model import Testbed
from fogctl.testbed.status import NodeStatus, Status


class TestbedKind(Protocol):
    """One testbed that can be brought up, worked on, observed and taken down."""

    @property
    def testbed(self) -> Testbed:
        """What it is made of."""
        ...

    def up(self, progress: Progress) -> object:
        """Bring it up, or mend what is missing; answers what was done."""
        ...

    def down(self, progress: Progress) -> object:
        """Take it down and leave everything as it was before."""
        ...

    def status(self) -> Status:
        """What is there and what is missing."""
        ...

    def start(self, node: str, argv: Sequence[str], log: Path) -> int:
        """Start a process on a node, its output in `log`; answers its process id."""
        ...

    def stop(self, node: str, pid: int) -> None:
        """End a process on a node."""
        ...

    def set_share(self, node: str, fraction: float | None) -> None:
        """Give a node this fraction of its CPU from now on; None lifts the limit."""
        ...

    def set_latency(self, a: str, b: str, path: NetworkPath) -> None:
        """Put this path between two nodes from now on."""
        ...

    def observe(self) -> tuple[NodeStatus, ...]:
        """What each node uses at this moment."""
        ...
