"""Faults on emulated nodes, as commands and experiments of every kind make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fogctl.runtime import faults
from fogctl.runtime.fault_record import Fault
from fogctl.runtime.fault_targets import Target
from fogctl.testbed.running import Running


@dataclass(slots=True)
class EmulatedBreaker:
    """A virtual testbed. Satisfies `fogctl.runtime.fault_plan.Breaker`."""

    running: Running

    @property
    def nodes(self) -> Sequence[str]:
        """The testbed's nodes in order."""
        return faults.node_names(self.running)

    def killing(self, words: Sequence[str], lasting_s: float | None) -> tuple[Target, Fault | None]:
        """What `kill` means by these words; the supervisor mends what leaves no fault."""
        return faults.killing(self.running, words, lasting_s)

    def describe(self, target: Target) -> str:
        """As the target says it."""
        return target.describe()

    def kill(self, target: Target, fault: Fault | None) -> None:
        """Pull a node's plugs, or kill -9 a process."""
        faults.kill(self.running, target, fault)

    def cutting(self, a: str, b: str | None, lasting_s: float | None) -> list[Fault]:
        """The links that `cut` cuts."""
        return faults.cutting(self.running, a, b, lasting_s)

    def cut(self, planned: Sequence[Fault]) -> None:
        """On the impaired network; management stays free."""
        self.running = faults.cut(self.running, planned)

    def slowing(self, node: str, share: float, lasting_s: float | None) -> Fault:
        """The fault that `slow` makes."""
        return faults.slowing(self.running, node, share, lasting_s)

    def slow(self, fault: Fault) -> None:
        """By the node's CPU quota."""
        faults.slow(self.running, fault)

    def restoring(self, words: Sequence[str]) -> list[Fault]:
        """The active faults that these words name."""
        return faults.restoring(self.running, words)

    def restore(self, fault: Fault) -> None:
        """Put back what was there; the supervisor starts what should run."""
        self.running = faults.restore(self.running, fault)
