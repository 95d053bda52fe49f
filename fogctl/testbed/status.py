"""What a virtual testbed's nodes are and use at this moment, read from the kernel's own counters."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from fognetem.matrix import LatencyMatrix

from fogctl.testbed import cgroups, names, processes
from fogctl.testbed.cgroups import Hierarchies
from fogctl.testbed.model import Node, Role, Testbed

SAMPLE_S = 0.25


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node: what it may use and what it uses. None: not limited, or not known because it is not there."""

    name: str
    role: str
    site: str
    board: str
    address: str
    management_address: str
    cpu_quota_cores: float | None
    cpu_used_cores: float | None
    cpu_throttled: float | None
    """Fraction of the 100 ms periods in which the node had to wait for its quota."""
    memory_limit_bytes: int | None
    memory_used_bytes: int | None
    processes: int | None
    rtt_to_control_ms: float | None
    """As injected; `fogctl net verify` measures it."""
    missing: tuple[str, ...] = ()
    """The parts of the node that are not there."""
    ready: bool | None = None
    """Whether a real machine answers its cluster; None: the node is emulated or modelled."""
    labels: tuple[str, ...] = ()
    """What fogctl has put on a real machine: its testbed, and the stages it works for."""
    pods: tuple[str, ...] = ()
    """The testbed's pods on a real machine, each with its condition."""


@dataclass(frozen=True, slots=True)
class Status:
    """A testbed: whether it is whole, and its nodes."""

    name: str
    kind: str
    state: str
    """up, half-built or down."""
    latency_backend: str | None
    nodes: tuple[NodeStatus, ...]
    missing: tuple[str, ...] = ()
    """Every part of the testbed that is not there."""


@dataclass(frozen=True, slots=True)
class Counters:
    """A node's running totals."""

    used_s: float
    periods: int
    throttled: int


def observe(
    testbed: Testbed,
    latencies: LatencyMatrix,
    hierarchies: Hierarchies,
    sample_s: float = SAMPLE_S,
) -> tuple[NodeStatus, ...]:
    """What each node uses, CPU averaged over `sample_s` seconds."""
    before = {node.name: _counters(testbed.name, node.name, hierarchies) for node in testbed.nodes}
    started = time.monotonic()
    time.sleep(sample_s)
    after = {node.name: _counters(testbed.name, node.name, hierarchies) for node in testbed.nodes}
    elapsed_s = time.monotonic() - started
    control = next((node.name for node in testbed.nodes if node.role is Role.control), None)
    return tuple(
        _node(testbed, index, node, hierarchies, before[node.name], after[node.name], elapsed_s,
              None if control is None else latencies.rtt_ms(node.name, control))
        for index, node in enumerate(testbed.nodes)
    )  # fmt: skip


def _node(
    testbed: Testbed,
    index: int,
    node: Node,
    hierarchies: Hierarchies,
    before: Counters | None,
    after: Counters | None,
    elapsed_s: float,
    rtt_ms: float | None,
) -> NodeStatus:
    folder = names.folder(testbed.name)
    used = throttled = None
    if before is not None and after is not None:
        used = max(0.0, after.used_s - before.used_s) / elapsed_s
        periods = after.periods - before.periods
        throttled = (after.throttled - before.throttled) / periods if periods > 0 else 0.0
    quota = limit = memory = None
    if hierarchies.cpu is not None:
        group = hierarchies.cpu.group(folder, node.name)
        text = _read(f"{group}/{cgroups.cpu_files(hierarchies.cpu.version, None)[-1][0]}")
        quota_us = cgroups.read_quota(hierarchies.cpu.version, text) if text else None
        quota = None if quota_us is None else quota_us / cgroups.PERIOD_US
    if hierarchies.memory is not None:
        group = hierarchies.memory.group(folder, node.name)
        v2 = hierarchies.memory.version == 2
        text = _read(f"{group}/{'memory.max' if v2 else 'memory.limit_in_bytes'}")
        limit = cgroups.read_limit(text) if text else None
        text = _read(f"{group}/{'memory.current' if v2 else 'memory.usage_in_bytes'}")
        memory = int(text) if text else None
    groups = [hierarchy.group(folder, node.name) for hierarchy in hierarchies.used]
    return NodeStatus(
        name=node.name,
        role=node.role.value,
        site=node.site,
        board=node.board,
        address=names.data_address(index),
        management_address=names.management_address(index),
        cpu_quota_cores=quota,
        cpu_used_cores=used,
        cpu_throttled=throttled,
        memory_limit_bytes=limit,
        memory_used_bytes=memory,
        processes=len(processes.in_group(groups[0])) if groups and Path(groups[0]).is_dir() else None,
        rtt_to_control_ms=rtt_ms,
    )


def _counters(testbed: str, node: str, hierarchies: Hierarchies) -> Counters | None:
    """A node's totals; None if its groups are not there."""
    folder = names.folder(testbed)
    used_s = 0.0
    if hierarchies.usage is not None:
        group = hierarchies.usage.group(folder, node)
        if hierarchies.usage.version == 2:
            used_s = _stat(_read(f"{group}/cpu.stat")).get("usage_usec", 0) / 1e6
        else:
            used_s = int(_read(f"{group}/cpuacct.usage") or 0) / 1e9
    if hierarchies.cpu is None:
        return None
    text = _read(f"{hierarchies.cpu.group(folder, node)}/cpu.stat")
    if not text:
        return None
    stat = _stat(text)
    return Counters(used_s, stat.get("nr_periods", 0), stat.get("nr_throttled", 0))


def _stat(text: str) -> dict[str, int]:
    return {
        key: int(value) for key, value in (line.split() for line in text.splitlines() if line.count(" ") == 1)
    }


def _read(path: str) -> str:
    """The text of a kernel file; empty if it is not there."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
