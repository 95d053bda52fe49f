"""The paths between the real machines of a testbed; satisfies `fogctl.testbed.links.Links`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fognetem import LatencyMatrix, Verification

from fogctl.errors import FAILED, FogError
from fogctl.kube import latency
from fogctl.kube.running import KubeRunning
from fogctl.testbed.links import RecordedLinks

if TYPE_CHECKING:
    from fogctl.testbed.links import Links


class KubeLinks(RecordedLinks[KubeRunning]):
    """Real machines, reached over SSH."""

    __slots__ = ()

    def injected(self) -> LatencyMatrix:
        """What should be injected, once every machine has said that it does."""
        if self.testbed.hosts and (gone := latency.lacking(self.running)):
            raise FogError(
                f"{gone[0].node} injects nothing any more: it was restarted, or nobody renewed its latencies",
                hint="fogctl net apply injects them again",
                exit_code=FAILED,
            )
        return self.running.latencies

    def counters(self) -> dict[str, Any] | None:
        """Nobody counts on real machines."""
        return None

    def trouble(self) -> str | None:
        """Real machines need nothing more."""
        return None

    def steps_to(self, wanted: LatencyMatrix, mending: bool = False) -> list[str]:
        """What `change` would do, in words."""
        steps = latency.steps_to(self.running, wanted)
        missing = latency.lacking(self.running) if mending else []
        return [*(entry.describe() for entry in missing), *steps]

    def change(self, wanted: LatencyMatrix, mending: bool = False) -> list[str]:
        """Inject this from now on; what a machine has lost comes back with it. What was done, in words."""
        steps = self.steps_to(wanted, mending)
        if steps:
            self.running = latency.change(self.running, wanted)
        return steps

    def verify(
        self, tolerance_ms: float, probes: int | None, progress: Callable[[float], None] | None
    ) -> Verification:
        """Have every machine ping every other, and compare with what should be injected."""
        return latency.verify(self.running, tolerance_ms, probes, progress)


if TYPE_CHECKING:

    def _are_links(links: KubeLinks) -> Links:
        """The type checker proves it."""
        return links
