"""The paths between a running testbed's nodes, whatever its kind: read back, changed live, measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from fognetem import LatencyMatrix, Verification
from fognetem.matrix import changed_pairs
from fognetem.schedule import run as run_schedule

from fogctl.testbed import network
from fogctl.testbed.model import Kind, Testbed
from fogctl.testbed.running import Running
from fogctl.testbed.state import Record, StateFolder


class Links(Protocol):
    """The network of one running testbed."""

    @property
    def testbed(self) -> Testbed:
        """What was asked for."""
        ...

    @property
    def latencies(self) -> LatencyMatrix:
        """What should be injected now."""
        ...

    @property
    def backend(self) -> str | None:
        """How it is injected."""
        ...

    def injected(self) -> LatencyMatrix:
        """What is really injected, read back."""
        ...

    def counters(self) -> dict[str, Any] | None:
        """What became of the packets, where they are counted."""
        ...

    def trouble(self) -> str | None:
        """What could not be had for exact latencies, if anything."""
        ...

    def steps_to(self, wanted: LatencyMatrix, mending: bool = False) -> list[str]:
        """What `change` would do, in words."""
        ...

    def change(self, wanted: LatencyMatrix, mending: bool = False) -> list[str]:
        """Inject this from now on; with `mending`, also what is missing by now. What was done, in words."""
        ...

    def verify(
        self, tolerance_ms: float, probes: int | None, progress: Callable[[float], None] | None
    ) -> Verification:
        """Measure every pair and compare with what should be injected."""
        ...


class Remembered(Protocol):
    """A running testbed of any kind."""

    @property
    def record(self) -> Record:
        """What is known of it."""
        ...


R = TypeVar("R", bound=Remembered)


@dataclass(slots=True)
class RecordedLinks(Generic[R]):
    """What every kind's links tell by the record alone; how they inject and measure is each kind's own."""

    running: R

    @property
    def testbed(self) -> Testbed:
        """What was asked for."""
        return self.running.record.testbed

    @property
    def latencies(self) -> LatencyMatrix:
        """What should be injected now."""
        return self.running.record.latencies

    @property
    def backend(self) -> str | None:
        """How it is injected."""
        return self.running.record.backend


class VirtualLinks(RecordedLinks[Running]):
    """Emulated nodes on this host."""

    __slots__ = ()

    def injected(self) -> LatencyMatrix:
        """What is really injected, read back."""
        return network.injected(self.running)

    def counters(self) -> dict[str, Any] | None:
        """What became of the packets, where they are counted."""
        return network.packet_counters(self.running)

    def trouble(self) -> str | None:
        """What could not be had for exact latencies, if anything."""
        return network.trouble(self.running)

    def steps_to(self, wanted: LatencyMatrix, mending: bool = False) -> list[str]:
        """What `change` would do, in words."""
        return [step.describe() for step in network.steps_to(self.running, wanted, mending)]

    def change(self, wanted: LatencyMatrix, mending: bool = False) -> list[str]:
        """Inject this from now on; with `mending`, also what is missing by now. What was done, in words."""
        self.running, steps = network.change(self.running, wanted, mending)
        return [step.describe() for step in steps]

    def verify(
        self, tolerance_ms: float, probes: int | None, progress: Callable[[float], None] | None
    ) -> Verification:
        """Measure every pair and compare with what should be injected."""
        return network.verify(self.running, tolerance_ms, probes, progress)


def links_of(folder: StateFolder) -> Links:
    """The network of a testbed that is up; FogError if it is not, or if it takes root to look."""
    if folder.kind is Kind.k3s:
        from fogctl.kube.links import KubeLinks
        from fogctl.kube.running import KubeRunning

        return KubeLinks(KubeRunning.load(folder.name, folder.folder.parent))
    from fogctl.testbed.virtual import require_root

    running = Running.load(folder.name, folder.folder.parent)
    require_root()
    return VirtualLinks(running)


def play_schedule(links: Links, told: Callable[[float, str], None]) -> None:
    """Make the testbed's scheduled changes when they are due; `told` hears of each."""

    def apply(_old: LatencyMatrix, new: LatencyMatrix) -> None:
        links.change(new)

    def tell(elapsed_s: float, old: LatencyMatrix, new: LatencyMatrix) -> None:
        for a, b, before, after in changed_pairs(old, new):
            told(elapsed_s, f"{a}–{b}: {before} → {after}")

    with network.sentences():
        run_schedule(links.latencies, links.testbed.schedule, apply, tell)
