"""What a user asks to be broken or restored, against what is broken already; the same on every kind."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fogctl.errors import FogError
from fogctl.runtime import fault_record, fault_targets
from fogctl.runtime.fault_record import Fault, Kind
from fogctl.runtime.fault_targets import Target, What

CUT = 1.0
"""The loss of a path that is cut."""


class Breaker(Protocol):
    """Breaks parts of a testbed and puts them right; each fault is written down before it is made."""

    @property
    def nodes(self) -> Sequence[str]:
        """The testbed's nodes in order."""
        ...

    def killing(self, words: Sequence[str], lasting_s: float | None) -> tuple[Target, Fault | None]:
        """What `kill` means by these words, and the fault it leaves; None if it is mended at once."""
        ...

    def describe(self, target: Target) -> str:
        """What `kill` does to it, in words."""
        ...

    def kill(self, target: Target, fault: Fault | None) -> None:
        """Kill what is meant; with a fault, it stays down until that is restored."""
        ...

    def cutting(self, a: str, b: str | None, lasting_s: float | None) -> list[Fault]:
        """The links that `cut` cuts: the one between two nodes, or all of one node."""
        ...

    def cut(self, faults: Sequence[Fault]) -> None:
        """Lose every packet between these nodes."""
        ...

    def slowing(self, node: str, share: float, lasting_s: float | None) -> Fault:
        """The fault that `slow` makes."""
        ...

    def slow(self, fault: Fault) -> None:
        """Leave a node a share of its CPU."""
        ...

    def restoring(self, words: Sequence[str]) -> list[Fault]:
        """The active faults that these words name: all without words."""
        ...

    def restore(self, fault: Fault) -> None:
        """Put back what was there before a fault."""
        ...


def made(
    kind: Kind, target: tuple[str, ...], lasting_s: float | None, before: Mapping[str, Any] | None = None
) -> Fault:
    """A fault that begins now."""
    now_s = round(time.time(), 3)
    return Fault(kind, target, now_s, None if lasting_s is None else now_s + lasting_s, dict(before or {}))


def active(folder: Path, fault: Fault) -> bool:
    """Whether the same thing is broken in the same way already."""
    return any(fault.same_place(known) for known in fault_record.read(folder))


def refuse_twice(folder: Path, fault: Fault) -> None:
    """FogError if the same thing is broken in the same way already."""
    for known in fault_record.read(folder):
        if known.same_place(fault):
            raise FogError(f"{known.describe()} already", hint=f"fogctl fault restore {fault.name}")


def pairs(nodes: Sequence[str], a: str, b: str | None) -> tuple[str, list[str]]:
    """The node whose links are cut, and the nodes at their other ends; FogError if there is none."""
    first = fault_targets.node(a, nodes)
    others = [fault_targets.node(b, nodes)] if b is not None else [name for name in nodes if name != first]
    if first in others:
        raise FogError(f"{a} and {b} are the same node; a link lies between two")
    return first, others


def check_share(share: float) -> None:
    """FogError unless it is a share that leaves a node something, and less than all."""
    if not 0 < share < 1:
        raise FogError(f"a slow node has more than 0 % and less than 100 % of its CPU, not {share:.0%}")


def restoring(folder: Path, words: Sequence[str]) -> list[Fault]:
    """The active faults that these words name: all without words. FogError if there is none."""
    broken = fault_record.read(folder)
    if not words:
        found = list(broken)
    elif words[0] == What.node.value:
        found = [fault for fault in broken if fault.kind is Kind.node and fault.target == tuple(words[1:])]
    else:
        wanted = set(words)
        found = [
            fault
            for fault in broken
            if set(fault.target or (fault.kind.value,)) == wanted
            or fault.target == (_service_called(words[0]),)
            or (len(words) == 1 and fault.kind is Kind.link and words[0] in fault.target)
        ]
    if not found:
        there = "; ".join(fault.describe() for fault in broken) or "no fault is active"
        what = " ".join(words) or "anything"
        raise FogError(f"there is nothing to restore for {what}" if words else "there is nothing to restore",
                       hint=there)  # fmt: skip
    return found


def _service_called(word: str) -> str | None:
    """The service that is alone of its kind and called so on the command line."""
    return next((name for what, name in fault_targets.SERVICES.items() if what.value == word), None)
