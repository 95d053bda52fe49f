"""What every kind of testbed can do, whatever its nodes are made of."""

from __future__ import annotations

from typing import Protocol

from fognetem.matrix import Path as NetworkPath

from fogctl.testbed.build import Progress
from fogctl.testbed.model import Testbed
from fogctl.testbed.status import NodeStatus, Status


class TestbedKind(Protocol):
    """One testbed that can be brought up, observed, changed and taken down.

    How apps run on it is the other half: `fogctl.runtime.ground.Ground`.
    """

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

    def set_latency(self, a: str, b: str, path: NetworkPath) -> None:
        """Put this path between two nodes from now on."""
        ...

    def observe(self) -> tuple[NodeStatus, ...]:
        """What each node uses at this moment."""
        ...
