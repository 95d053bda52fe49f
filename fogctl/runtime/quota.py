"""The CPU that a replica has on its node: lifted while it starts, limited while it works."""

from __future__ import annotations

from fogctl.runtime import fault_record
from fogctl.testbed.running import Running


def part(app: str, stage: str) -> str:
    """The part of a node that a stage's replica runs in."""
    return f"{app}-{stage}"


def lift(running: Running, node: str, within: str) -> None:
    """No CPU limit on a node for now: at a tenth of a core a JVM would take minutes to start."""
    running.add_part(node, within)
    running.set_share(node, None, within)
    running.set_share(node, None)


def limit(running: Running, node: str, within: str, share: float) -> None:
    """Give the replica on a node this share of it, and the node its quota, or what a fault left of it."""
    if running.node(node).cpu_cores is not None:
        running.set_share(node, share, within)
        running.set_share(node, fault_record.node_share(fault_record.read(running.state.folder), node))
