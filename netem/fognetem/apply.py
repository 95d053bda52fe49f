"""Acting on a host: apply a plan, change it live, read back what is injected, clear it."""

from __future__ import annotations

from typing import Any

from fognetem.backend import Backend, Kernel, Step, UserSpace
from fognetem.control import ask
from fognetem.errors import NetemError
from fognetem.host import Host, namespace_exists
from fognetem.kernel import injected
from fognetem.matrix import LatencyMatrix
from fognetem.path import Path
from fognetem.plan import difference, plan
from fognetem.userspace import shown


def apply(matrix: LatencyMatrix, backend: Backend, host: Host) -> list[Step]:
    """Inject the matrix: every step of the plan that is not there yet; undone again if one fails."""
    done: list[Step] = []
    for step in plan(matrix, backend):
        if step.present(host):
            continue
        try:
            done.append(step)
            step.apply(host)
        except BaseException:
            for made in reversed(done):
                made.undo(host)
            raise
    return done


def change(old: LatencyMatrix, new: LatencyMatrix, backend: Backend, host: Host) -> list[Step]:
    """Change what is injected from the old matrix to the new one, live."""
    steps = difference(old, new, backend)
    for step in steps:
        step.apply(host)
    return steps


def show(backend: Backend, host: Host) -> LatencyMatrix:
    """What is injected now, read back from the delay line or the kernel."""
    if isinstance(backend, UserSpace):
        return shown(backend.run_dir)
    return _shown_by_kernel(backend, host)


def _shown_by_kernel(backend: Kernel, host: Host) -> LatencyMatrix:
    nodes = tuple(endpoint.node for endpoint in backend.endpoints)
    directed: dict[tuple[str, str], Path] = {}
    for endpoint in backend.endpoints:
        if not namespace_exists(endpoint.namespace):
            raise NetemError(f"network namespace {endpoint.namespace} is gone")
        with host.netlink(endpoint.namespace) as netlink:
            found = list(netlink.link_lookup(ifname=endpoint.interface))
            if not found:
                raise NetemError(f"there is no interface {endpoint.interface} in {endpoint.namespace}")
            for number, path in injected(netlink, found[0]).items():
                if number <= len(nodes):
                    directed[endpoint.node, nodes[number - 1]] = path
    for (a, b), path in directed.items():
        if directed.get((b, a), Path()) != path:
            raise NetemError(f"{a}–{b} is not the same both ways: {path} and {directed.get((b, a), Path())}")
    return LatencyMatrix(nodes, tuple((a, b, path) for (a, b), path in directed.items()))


def counters(backend: Backend) -> dict[str, Any] | None:
    """How many packets the delay line delayed, lost and dropped; None where the kernel does not say."""
    if isinstance(backend, UserSpace):
        answer = ask(backend.run_dir, {"op": "counters"})
        return {"total": answer["total"], "pairs": answer["pairs"]}
    return None


def warning(backend: Backend) -> str | None:
    """What the delay line could not get from the host (real-time priority), if anything."""
    if isinstance(backend, UserSpace):
        found: str | None = ask(backend.run_dir, {"op": "status"})["warning"]
        return found
    return None


def clear(backend: Backend, host: Host) -> None:
    """Remove every impairment; nothing happens if there is none."""
    for step in reversed(
        plan(LatencyMatrix.uniform((e.node for e in backend.endpoints), Path(1.0)), backend)
    ):
        step.undo(host)
