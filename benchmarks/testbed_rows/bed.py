"""The testbeds that the benchmarks measure: brought up with a chosen backend, always taken down."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import fognetem
from fognetem.matrix import LatencyMatrix

from fogctl.testbed.host import LinuxHost
from fogctl.testbed.model import Kind, Node, Role, Testbed
from fogctl.testbed.state import Record, StateFolder, state_dir
from fogctl.testbed.virtual import Virtual, take_down


@dataclass(frozen=True, slots=True)
class Settings:
    """How thoroughly to measure, and what."""

    quick: bool
    backends: tuple[str, ...]
    """The latency backends to measure, each of which works here."""
    sizes: tuple[int, ...]
    """How many nodes to bring up and down."""


def name() -> str:
    """The testbed's name: one for each process, so that runs do not meet."""
    return f"bench{os.getpid()}"


@contextmanager
def bed(
    backend: str | None, nodes: int, latencies: LatencyMatrix | None = None, cpu_cores: float | None = None
) -> Iterator[Virtual]:
    """So many nodes n0, n1 … whose latencies that backend injects (None: whichever the host has)."""
    names = tuple(f"n{number}" for number in range(nodes))
    testbed = Testbed(
        name(),
        Kind.virtual,
        tuple(Node(node, Role.edge, "bench", "host", cpu_cores, None) for node in names),
        latencies or LatencyMatrix(names),
    )
    virtual = Virtual(testbed)
    try:
        virtual.up()
        if backend is not None:
            inject_by(virtual, backend)
        yield virtual
    finally:
        virtual.down()


def remove_left() -> None:
    """Take down what an interrupted run left standing; does nothing if there is nothing."""
    take_down(StateFolder.of(name(), state_dir()), LinuxHost())


def inject_by(virtual: Virtual, backend: str) -> None:
    """Let this backend inject the latencies, whichever the testbed chose by itself."""
    running = virtual.running
    if running.record.backend == backend:
        return
    if running.record.backend is not None:
        fognetem.clear(running.backend, running.host)
    running.state.save(Record(running.testbed, running.latencies, backend))
    running = virtual.running
    # In the ledger like everything else: `fogctl down` cleans up even after kill -9.
    running.apply(fognetem.plan(running.latencies, running.backend))
