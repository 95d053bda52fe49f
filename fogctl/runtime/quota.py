"""The CPU that a replica has on its node: lifted while it starts, limited while it works; less if slowed.

In version 1 of control groups no part of a node may have a larger quota than the node itself, so the order of
the changes matters: the node's quota is lifted first and set last.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from fogctl.runtime import deployment, fault_record
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
    if running.node(node).cpu_cores is None:
        return
    left = _left(running, node)
    if left < 1.0:
        running.set_share(node, None)
    running.set_share(node, share * left, within)
    running.set_share(node, left)


def limit_node(running: Running, node: str) -> None:
    """Give a node its quota, or what a fault left of it, and each replica on it its share of that."""
    left = _left(running, node)
    running.set_share(node, None)
    for within, share in _replicas(running, node):
        if Path(running.part_groups(node, within)[0]).is_dir():
            running.set_share(node, share * left, within)
    running.set_share(node, left)


def _left(running: Running, node: str) -> float:
    return fault_record.node_share(fault_record.read(running.state.folder), node)


def _replicas(running: Running, node: str) -> list[tuple[str, float]]:
    """The parts of a node that replicas run in, with the share each should have."""
    found = []
    for path in sorted((running.state.folder / "apps").glob("*/deployment.json")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            known = deployment.from_json(json.loads(path.read_text()))
            for placement in known.stages:
                found += [
                    (part(known.app, placement.stage), replica.share)
                    for replica in placement.replicas
                    if replica.node == node
                ]
    return found
