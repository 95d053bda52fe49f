"""Live changes of latency: how long a `set` takes, and what it does to packets under way."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import fognetem
from fognetem.matrix import Path

from benchmarks.row import Row
from benchmarks.testbed_rows.bed import Settings, bed
from benchmarks.testbed_rows.flows import Flow, udp
from fogctl.testbed import network
from fogctl.testbed.running import Running
from fogctl.testbed.virtual import Virtual

CHANGES = 20
RTTS_MS = (40.0, 200.0, 10.0, 120.0, 0.0, 60.0, 20.0)
TARGET_MS = 10.0
PER_S = 2000
STARTED_S = 0.5
"""The changes begin when packets surely flow."""


def rows(settings: Settings) -> Iterator[Row]:
    """Twenty changes up and down under a steady flow of packets."""
    apart_s = 0.05 if settings.quick else 0.25
    for backend in settings.backends:
        with bed(backend, 4) as virtual:
            recorded_ms, seen = _under_flow(virtual.running, apart_s)
            bare_ms = _bare(virtual)
        for what, taken in (
            ("set, until the backend has it", bare_ms),
            ("set, with lock, ledger and record", recorded_ms),
        ):
            note = f"median of {CHANGES}, longest {max(taken):.1f} ms"
            yield Row(f"{backend}: {what}", statistics.median(taken), "ms", TARGET_MS, note=note)
        note = f"{CHANGES} changes under {seen.sent_per_s:,.0f} packets/s, {seen.sent} sent"
        yield Row(f"{backend}: packets lost by changes", seen.lost, "packets", 0, note=note)
        yield Row(f"{backend}: packets reordered by changes", seen.reordered, "packets", 0, note=note)


def _under_flow(running: Running, apart_s: float) -> tuple[list[float], Flow]:
    """The changes as `fogctl net set` makes them; the time of each in ms, and what became of the packets."""
    taken: list[float] = []

    def during() -> None:
        current = running
        time.sleep(STARTED_S)
        for number in range(CHANGES):
            wanted = current.latencies.with_path("n0", "n1", Path(RTTS_MS[number % len(RTTS_MS)]))
            began = time.monotonic()
            current, _ = network.change(current, wanted)
            taken.append(1000 * (time.monotonic() - began))
            time.sleep(apart_s)

    # The flow ends with the changes; two seconds for each is far more than they need.
    return taken, udp(running, STARTED_S + CHANGES * (apart_s + 2.0), PER_S, during=during)


def _bare(virtual: Virtual) -> list[float]:
    """The same changes told to the backend alone, in ms."""
    running, taken = virtual.running, []
    current = running.latencies
    for number in range(CHANGES):
        wanted = current.with_path("n0", "n1", Path(RTTS_MS[number % len(RTTS_MS)]))
        began = time.monotonic()
        fognetem.change(current, wanted, running.backend, running.host)
        taken.append(1000 * (time.monotonic() - began))
        current = wanted
    return taken
