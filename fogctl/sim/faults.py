"""What goes wrong in a simulated run, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fogctl.errors import FogError
from fogctl.testbed.model import Testbed

FaultKind = Literal["kill", "cut", "slow", "restore"]


@dataclass(frozen=True, slots=True)
class Fault:
    """From `at_s` on: a node without power, cut off, slower, or as it was."""

    at_s: float
    kind: FaultKind
    node: str
    speed: float = 0.5
    """What is left of a slow node's speed."""


def check(faults: Sequence[Fault], testbed: Testbed) -> None:
    """Refuse faults of nodes that are not there, and speeds that are none."""
    known = {node.name for node in testbed.nodes}
    for fault in faults:
        if fault.node not in known:
            raise FogError(
                f"testbed {testbed.name} has no node {fault.node}", hint=f"its nodes: {', '.join(known)}"
            )
        if fault.kind not in ("kill", "cut", "slow", "restore"):
            raise FogError(f"there is no fault {fault.kind}", hint="use kill, cut, slow or restore")
        if not 0 < fault.speed <= 1:
            raise FogError(f"a slow node keeps more than 0 % and at most 100 %, not {fault.speed:.0%}")
