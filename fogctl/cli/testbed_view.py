"""How a testbed's status looks to people."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fogctl.cli.output import table

if TYPE_CHECKING:
    from fogctl.testbed.status import NodeStatus, Status


def escaped(text: str) -> str:
    """Text that rich shows as it is."""
    return text.replace("[", "\\[")


def status_view(found: Status) -> list[Any]:
    """A table of the nodes, and what is missing."""
    about, used = ("node", "role", "site", "board", "address"), ("cpu quota", "cpu used", "throttled")
    columns = (*about, *used, "memory", "limit", "processes", "rtt to control")
    title = f"testbed {found.name}: {found.state}, latencies by {found.latency_backend or 'nothing'}"
    lines: list[Any] = [table(title, columns, map(_row, found.nodes))]
    if os.geteuid() != 0:
        lines.append("networks and latencies are checked as root only: sudo fogctl status")
    if found.missing:
        lines.append(escaped(f"{len(found.missing)} parts are missing; sudo fogctl up mends them:"))
        lines += [escaped(f"  {what}") for what in found.missing[:20]]
        if len(found.missing) > 20:
            lines.append(escaped(f"  and {len(found.missing) - 20} more (-o json lists all)"))
    return lines


def _row(node: NodeStatus) -> tuple[str, ...]:
    def shown(value: float | None, form: str, unit: str = "", none: str = "–") -> str:
        return none if value is None else format(value, form) + unit

    used = node.cpu_used_cores
    if used is not None and node.cpu_quota_cores:
        used = used / node.cpu_quota_cores
    mebi = 2**20
    return (
        node.name,
        node.role,
        node.site,
        node.board,
        node.address,
        shown(node.cpu_quota_cores, ".3g", " cores", "unlimited"),
        shown(used, ".0%"),
        shown(node.cpu_throttled, ".0%"),
        shown(node.memory_used_bytes and node.memory_used_bytes / mebi, ".0f", " MiB"),
        shown(node.memory_limit_bytes and node.memory_limit_bytes / mebi, ".0f", " MiB", "unlimited"),
        shown(node.processes, "d"),
        shown(node.rtt_to_control_ms, "g", " ms"),
    )
