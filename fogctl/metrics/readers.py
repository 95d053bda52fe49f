"""Where a testbed's metrics are read: from those who measure, or from the Prometheus that scrapes them."""

from __future__ import annotations

from fogctl.errors import FogError
from fogctl.metrics.values import WINDOW_S, Reader
from fogctl.runtime.ground import Ground
from fogctl.testbed.model import Kind


def reader_of(ground: Ground, window_s: float = WINDOW_S, *, through_prometheus: bool = False) -> Reader:
    """A reader of a testbed of any kind; FogError for a window that Prometheus does not have."""
    if not through_prometheus:
        return ground.reader(window_s)
    if window_s != WINDOW_S:
        raise FogError(
            f"Prometheus stores metrics over {WINDOW_S:g} s, and {window_s:g} s are asked for",
            key="--prometheus",
            hint=f"set guard: {{window: {WINDOW_S:g}s}}, or ask without Prometheus",
        )
    if ground.testbed.kind is Kind.k3s:
        from fogctl.kube.prometheus import ClusterPrometheus, ClusterPrometheusReader
        from fogctl.kube.running import KubeRunning

        cluster = KubeRunning.load(ground.testbed.name, ground.folder.parent)
        return ClusterPrometheusReader(cluster, ClusterPrometheus(cluster).url, window_s)
    from fogctl.metrics.prometheus import PrometheusReader
    from fogctl.testbed.running import Running

    return PrometheusReader.of(Running.load(ground.testbed.name, ground.folder.parent))
