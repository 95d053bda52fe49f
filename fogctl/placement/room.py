"""What each node has left for replicas, beside those of other apps: CPU, slots, memory, distance. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fognetem.matrix import LatencyMatrix

from fogctl.runtime.deployment import BESIDE_HEAP_BYTES, WHOLE, Deployment
from fogctl.testbed.model import Role, Testbed

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Room:
    """An edge node and what is left of it."""

    node: str
    cpu_cores: float
    """Of its quota, what the replicas of other apps do not have."""
    slots: int
    """Replicas that still fit by their shares of the CPU; each is of another stage."""
    rtt_ms: float
    """The round trip that counts for a replica: the longer of those to its driver and to the broker."""
    memory_bytes: int | None = None
    """None: not limited."""
    used_share: float = 0.0
    """What other apps have of its CPU."""
    link_bytes_per_s: float | None = None
    """The slower of its paths to driver and broker; None: not limited."""

    def holds(self, memory_bytes: int) -> bool:
        """Whether a replica that needs so much memory fits alone."""
        return self.memory_bytes is None or memory_bytes <= self.memory_bytes


def rooms(
    testbed: Testbed,
    latencies: LatencyMatrix,
    others: Iterable[Deployment] = (),
    heaps: Mapping[tuple[str, str], int] | None = None,
    *,
    slots_per_node: int = 1,
    cpu_left: Mapping[str, float] | None = None,
    unlimited_cores: float = 1.0,
) -> tuple[Room, ...]:
    """Every edge node in the testbed's order, full ones too; `heaps` are bytes by (app, stage) of `others`.

    A replica takes 1/`slots_per_node` of its node: with 1, as `deploy` gives it, all of it. A node without a
    CPU quota counts as `unlimited_cores`. `cpu_left` is what a fault left of a node's CPU: 0 if it is down.
    """
    share: dict[str, float] = {}
    memory: dict[str, int] = {}
    for deployment in others:
        for placement in deployment.stages:
            needed = (heaps or {}).get((deployment.app, placement.stage), 0) + BESIDE_HEAP_BYTES
            for replica in placement.replicas:
                share[replica.node] = share.get(replica.node, 0.0) + replica.share
                memory[replica.node] = memory.get(replica.node, 0) + needed
    origins = [node.name for node in testbed.nodes if node.role is not Role.edge]
    found = []
    for node in testbed.nodes:
        if node.role is not Role.edge:
            continue
        left = max(0.0, WHOLE - share.get(node.name, 0.0))
        works = (cpu_left or {}).get(node.name, 1.0)
        found.append(
            Room(
                node=node.name,
                cpu_cores=works * left * (unlimited_cores if node.cpu_cores is None else node.cpu_cores),
                slots=math.floor(left * slots_per_node + _ROUNDING) if works > 0 else 0,
                rtt_ms=max((latencies.rtt_ms(origin, node.name) for origin in origins), default=0.0),
                memory_bytes=(
                    None if node.memory_bytes is None else node.memory_bytes - memory.get(node.name, 0)
                ),
                used_share=WHOLE - left,
                link_bytes_per_s=_slowest(latencies, origins, node.name),
            )
        )
    return tuple(found)


def _slowest(latencies: LatencyMatrix, origins: Iterable[str], node: str) -> float | None:
    rates = [latencies.path(origin, node).rate_bit_s for origin in origins]
    return min((rate / 8 for rate in rates if rate is not None), default=None)
