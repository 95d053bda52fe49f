"""What differs between kinds of testbeds for an agent: what nodes have, who is down, what happened there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fogctl.agent.knowledge import NodeFacts
from fogctl.agent.observation import HostMetrics
from fogctl.runtime import fault_record
from fogctl.runtime.deployment import Deployment
from fogctl.runtime.ground import Ground
from fogctl.testbed.model import Kind, Testbed


class Surroundings(Protocol):
    """A testbed, as far as an agent must know what it is made of."""

    def host(self) -> HostMetrics | None:
        """The machine that the nodes share; None where they share none."""
        ...

    def nodes(self) -> Mapping[str, NodeFacts]:
        """What replicas may use of each node."""
        ...

    def down(self) -> frozenset[str]:
        """The nodes that have no power, or are as good as without, though their numbers can be read."""
        ...

    def news(self, deployed: Deployment) -> Sequence[Mapping[str, Any]]:
        """What happened to an app's processes since it was last asked and nobody wrote down; as events."""
        ...


def surroundings_of(ground: Ground) -> Surroundings:
    """Those of a testbed, by its kind."""
    if ground.testbed.kind is Kind.k3s:
        from fogctl.kube.running import KubeRunning
        from fogctl.kube.target import ClusterSurroundings

        return ClusterSurroundings(KubeRunning.load(ground.testbed.name, ground.folder.parent))
    return EmulatedSurroundings(ground.testbed, ground.folder)


@dataclass(frozen=True, slots=True)
class EmulatedSurroundings:
    """One host that emulates the nodes; its supervisor writes down what happens."""

    testbed: Testbed
    folder: Path

    def host(self) -> HostMetrics | None:
        """The host's memory, as the kernel tells it."""
        facts = {}
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            facts[name] = int(rest.split()[0]) * 1024
        return HostMetrics(facts["MemAvailable"], facts["MemTotal"])

    def nodes(self) -> Mapping[str, NodeFacts]:
        """As testbed.yaml gives them."""
        return {
            node.name: NodeFacts(node.name, node.cpu_cores, node.memory_bytes) for node in self.testbed.nodes
        }

    def down(self) -> frozenset[str]:
        """Those that a fault holds down: their control groups are still there."""
        return fault_record.down_nodes(fault_record.read(self.folder))

    def news(self, deployed: Deployment) -> Sequence[Mapping[str, Any]]:  # noqa: ARG002
        """The supervisor tells everything itself."""
        return ()
