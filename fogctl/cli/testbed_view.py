"""How a testbed's status looks to people."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fogctl.cli.output import table
from fogctl.testbed.model import Kind

if TYPE_CHECKING:
    from fogctl.testbed.status import NodeStatus, Status


def escaped(text: str) -> str:
    """Text that rich shows as it is."""
    return text.replace("[", "\\[")


def status_view(found: Status) -> list[Any]:
    """A table of the nodes, and what is missing."""
    if found.kind == Kind.k3s.value:
        return _cluster_view(found)
    # Fits 100 columns; `-o json` has every figure apart.
    columns = (
        "node",
        "role",
        "site",
        "board",
        "address",
        "cpu of cores",
        "throttled",
        "memory MiB",
        "procs",
        "rtt ms",
    )
    title = f"testbed {found.name}: {found.state}, latencies by {found.latency_backend or 'nothing'}"
    lines: list[Any] = [table(title, columns, map(_row, found.nodes))]
    if os.geteuid() != 0:
        lines.append("networks and latencies are checked as root only: sudo fogctl status")
    return lines + _missing(found, "sudo fogctl up")


def _cluster_view(found: Status) -> list[Any]:
    """The nodes of a cluster: what they offer, which pods of ours they have."""
    columns = ("node", "role", "site", "board", "address", "ready", "cores", "memory MiB", "pods", "rtt ms")
    rows = [
        (
            *(node.name, node.role, node.site, node.board, node.address or "–"),
            "yes" if node.ready else "no",
            _shown(node.cpu_quota_cores, ".3g"),
            _shown(_mebi(node.memory_limit_bytes), ".0f"),
            escaped(", ".join(node.pods)) or "–",
            _shown(node.rtt_to_control_ms, "g"),
        )
        for node in found.nodes
    ]
    title = f"testbed {found.name}: {found.state}, latencies by {found.latency_backend or 'nothing'}"
    return [table(title, columns, rows), *_missing(found, "fogctl up")]


def _missing(found: Status, mends: str) -> list[str]:
    if not found.missing:
        return []
    lines = [escaped(f"{len(found.missing)} parts are missing; {mends} mends them:")]
    lines += [escaped(f"  {what}") for what in found.missing[:20]]
    if len(found.missing) > 20:
        lines.append(escaped(f"  and {len(found.missing) - 20} more (-o json lists all)"))
    return lines


def _row(node: NodeStatus) -> tuple[str | None, ...]:
    used = node.cpu_used_cores
    if used is not None and node.cpu_quota_cores:
        used = used / node.cpu_quota_cores
    return (
        node.name,
        node.role,
        node.site,
        node.board,
        node.address,
        _of(_shown(used, ".0%"), _shown(node.cpu_quota_cores, ".3g")),
        _shown(node.cpu_throttled, ".0%"),
        _of(_shown(_mebi(node.memory_used_bytes), ".0f"), _shown(_mebi(node.memory_limit_bytes), ".0f")),
        _shown(node.processes, "d"),
        _shown(node.rtt_to_control_ms, "g"),
    )


def _of(used: str | None, whole: str | None) -> str:
    """What is used of what there is; a whole that is not limited is left out."""
    return " of ".join(part for part in (used or "–", whole) if part)


def _shown(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)


def _mebi(size_bytes: int | None) -> float | None:
    return None if size_bytes is None else size_bytes / 2**20
