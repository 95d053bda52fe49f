"""From a latency matrix to steps: what to make, and what to change. Pure: no host is touched or looked at."""

from __future__ import annotations

from fognetem.backend import Backend, Kernel, Step, UserSpace
from fognetem.endpoint import Endpoint
from fognetem.kernel import ChangeDestination, Destination, ShapeInterface, netem_arguments
from fognetem.matrix import LatencyMatrix, changed_pairs
from fognetem.path import UNIMPAIRED
from fognetem.userspace import ChangePaths, QueueArrivals, StartDelayLine, plain

STEP_TYPES: tuple[type, ...] = (StartDelayLine, QueueArrivals, ChangePaths, ShapeInterface, ChangeDestination)
"""Every kind of step, for whoever writes them down and reads them back."""


def _checked(matrix: LatencyMatrix, backend: Backend) -> dict[str, Endpoint]:
    by_node = {endpoint.node: endpoint for endpoint in backend.endpoints}
    if len(by_node) != len(backend.endpoints):
        raise ValueError("two endpoints have the same node")
    if missing := [node for node in matrix.nodes if node not in by_node]:
        raise ValueError(f'node "{missing[0]}" of the latency matrix has no endpoint')
    if len({endpoint.address for endpoint in backend.endpoints}) != len(by_node):
        raise ValueError("two endpoints have the same address")
    return by_node


def plan(matrix: LatencyMatrix, backend: Backend) -> list[Step]:
    """Everything that must be there for the matrix to hold, in order."""
    by_node = _checked(matrix, backend)
    if isinstance(backend, UserSpace):
        endpoints = tuple((e.node, e.namespace, e.interface, e.address) for e in backend.endpoints)
        paths = tuple((a, b, plain(path)) for a, b, path in matrix.paths)
        # The queues have a reader before the first packet is sent to them.
        start = StartDelayLine(backend.run_dir, endpoints, paths)
        return [start, *(QueueArrivals(e.namespace, e.interface) for e in backend.endpoints)]
    number = _numbers(backend)
    steps: list[Step] = []
    for endpoint in backend.endpoints:
        if endpoint.node not in matrix.nodes:
            continue
        destinations: list[Destination] = []
        for other in matrix.nodes:
            path = matrix.path(endpoint.node, other)
            if path != UNIMPAIRED:
                netem_arguments(path)  # what the kernel cannot hold is refused before anything is touched
                destinations.append((number[other], by_node[other].address, plain(path)))
        if destinations:
            destinations.sort()
            steps.append(ShapeInterface(endpoint.namespace, endpoint.interface, tuple(destinations)))
    return steps


def difference(old: LatencyMatrix, new: LatencyMatrix, backend: Backend) -> list[Step]:
    """What to change on a running network so that the new matrix holds instead of the old one."""
    by_node = _checked(new, backend)
    changed = changed_pairs(old, new)
    if not changed:
        return []
    if isinstance(backend, UserSpace):
        return [
            ChangePaths(
                backend.run_dir, tuple((a, b, plain(before), plain(after)) for a, b, before, after in changed)
            )
        ]
    number = _numbers(backend)
    steps: list[Step] = []
    for a, b, before, after in changed:
        netem_arguments(after)
        for sender, receiver in ((a, b), (b, a)):
            here, there = by_node[sender], by_node[receiver]
            steps.append(
                ChangeDestination(
                    here.namespace,
                    here.interface,
                    number[receiver],
                    there.address,
                    plain(before),
                    plain(after),
                )
            )
    return steps


def _numbers(backend: Kernel) -> dict[str, int]:
    """The class number of each destination: its place among the endpoints, from 1."""
    return {endpoint.node: place for place, endpoint in enumerate(backend.endpoints, start=1)}
