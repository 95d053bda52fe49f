"""Who breaks things on a testbed, by its kind."""

from __future__ import annotations

from fogctl.runtime.fault_plan import Breaker
from fogctl.runtime.ground import Ground
from fogctl.testbed.model import Kind


def breaker_of(ground: Ground) -> Breaker:
    """The one of a testbed that is up."""
    if ground.testbed.kind is Kind.k3s:
        from fogctl.kube.faults import ClusterBreaker
        from fogctl.kube.running import KubeRunning

        return ClusterBreaker.on(KubeRunning.load(ground.testbed.name, ground.folder.parent))
    from fogctl.runtime.emulated_breaker import EmulatedBreaker
    from fogctl.testbed.running import Running

    return EmulatedBreaker(Running.load(ground.testbed.name, ground.folder.parent))
