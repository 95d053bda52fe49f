"""The network of a running testbed: its latencies read back, changed live, and measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import Any

import fognetem
from fognetem import LatencyMatrix, NetemError, Verification
from fognetem.apply import counters, warning

from fogctl.errors import FAILED, FogError
from fogctl.testbed.running import Running
from fogctl.testbed.steps import Step


@contextmanager
def sentences() -> Iterator[None]:
    """What fognetem expects to go wrong is an expected failure here too."""
    try:
        yield
    except NetemError as error:
        raise FogError(str(error), hint="fogctl up mends a testbed", exit_code=FAILED) from error
    except ValueError as error:
        raise FogError(str(error)) from error


def mend(running: Running) -> list[Step]:
    """What must be made again so that the latencies the testbed should have are injected."""
    with sentences():
        return [
            step
            for step in fognetem.plan(running.latencies, running.backend)
            if not step.present(running.host)
        ]


def steps_to(running: Running, wanted: LatencyMatrix, mending: bool = False) -> list[Step]:
    """What gets the testbed to the wanted latencies; with `mending`, also whatever is missing by now.

    Looking for what is missing takes a while on many nodes, a change of paths does not.
    """
    with sentences():
        missing = mend(running) if mending else []
        return [*missing, *fognetem.difference(running.latencies, wanted, running.backend)]


def change(running: Running, wanted: LatencyMatrix, mending: bool = False) -> tuple[Running, list[Step]]:
    """Inject the wanted latencies from now on, each step in the ledger first; the testbed then, the steps."""
    steps = steps_to(running, wanted, mending)
    with sentences():
        return running.apply(steps, wanted), steps


def verify(
    running: Running, tolerance_ms: float, probes: int | None, progress: Callable[[float], None] | None
) -> Verification:
    """Measure every pair of nodes and compare with what should be injected."""
    with sentences():
        if gone := mend(running):
            raise NetemError(f"the latencies are not all injected: {gone[0].describe()} is missing")
        return fognetem.verify(running.latencies, running.backend, tolerance_ms, probes, progress)


def injected(running: Running) -> LatencyMatrix:
    """What the host really injects, read back."""
    with sentences():
        return fognetem.show(running.backend, running.host)


def packet_counters(running: Running) -> dict[str, Any] | None:
    """What became of the packets, where the backend counts them."""
    with sentences():
        return counters(running.backend)


def trouble(running: Running) -> str | None:
    """What the backend could not get from the host (real-time priority), if anything."""
    if running.record.backend is None:
        return None
    with sentences():
        return warning(running.backend)


def read_matrix(file: FilePath, nodes: tuple[str, ...]) -> LatencyMatrix:
    """A matrix from a CSV file for exactly these nodes; nodes it does not name are not impaired."""
    with sentences():
        matrix = LatencyMatrix.from_csv(file)
    if unknown := [node for node in matrix.nodes if node not in nodes]:
        raise FogError(
            f"the testbed has no node {unknown[0]}", file=file, hint=f"its nodes: {', '.join(nodes)}"
        )
    return LatencyMatrix(nodes, matrix.paths)
