"""What measures a testbed on a cluster: its kubelets, which are there anyway; a Prometheus if asked for."""

from __future__ import annotations

from dataclasses import dataclass

from fogctl.kube.prometheus import ClusterPrometheus
from fogctl.kube.running import KubeRunning


@dataclass(frozen=True, slots=True)
class ClusterMeasuring:
    """Satisfies `fogctl.metrics.services.Measuring`."""

    running: KubeRunning

    def steps(self, *, with_prometheus: bool) -> list[str]:
        """What `up` would start, in words."""
        if not with_prometheus:
            return []
        return [f"start {job.name} on this machine: {' '.join(job.argv)}" for job in self._prometheus.jobs()]

    def up(self, *, with_prometheus: bool) -> list[str]:
        """Have Prometheus run if it is asked for; answers the names of what did not."""
        return self._prometheus.up() if with_prometheus else []

    def down(self) -> list[str]:
        """Stop Prometheus and what finds its targets; answers the names of what ran."""
        return self._prometheus.down()

    def addresses(self) -> dict[str, str]:
        """Where Prometheus can be reached, on this machine."""
        return self._prometheus.addresses()

    @property
    def _prometheus(self) -> ClusterPrometheus:
        return ClusterPrometheus(self.running)
