"""Packets per second through each backend: a flood, and the highest steady rate at which none is lost."""

from __future__ import annotations

from collections.abc import Iterator

from fognetem.matrix import Path

from benchmarks.row import Row
from benchmarks.testbed_rows.bed import Settings, bed
from benchmarks.testbed_rows.flows import Flow, udp
from fogctl.testbed.running import Running

RTT_MS = 10.0
SIZE = 100
STEPS = (5_000, 10_000, 20_000, 30_000, 40_000, 60_000, 80_000, 120_000)
QUICK_STEPS = (1_000, 5_000)
TOLERATED = 0.001
"""A steady rate holds if at most this fraction is lost: one wake-up late on a shared host is not a limit."""


def rows(settings: Settings) -> Iterator[Row]:
    """UDP packets of 100 bytes from one node to another, 10 ms of RTT between them."""
    seconds = 0.7 if settings.quick else 2.0
    for backend in settings.backends:
        with bed(backend, 2) as virtual:
            virtual.set_latency("n0", "n1", Path(RTT_MS))
            running = virtual.running
            flood = udp(running, seconds, 0, size=SIZE)
            free = udp(running, seconds, 0, size=SIZE, management=True)
            yield Row(
                f"{backend}: UDP flood, received",
                flood.received_per_s,
                "packets/s",
                peer=free.received_per_s,
                peer_name="unimpaired path",
                more_is_better=True,
                note=f"{flood.sent_per_s:,.0f}/s sent",
            )
            yield Row(
                f"{backend}: UDP flood, lost",
                100 * flood.loss,
                "%",
                peer=100 * free.loss,
                peer_name="unimpaired path",
                note=f"{flood.reordered} reordered",
            )
            held = _highest(running, QUICK_STEPS if settings.quick else STEPS, seconds)
            yield Row(
                f"{backend}: highest steady rate",
                held.received_per_s if held else 0.0,
                "packets/s",
                more_is_better=True,
                note=f"{held.lost} of {held.sent} lost" if held else "the lowest step already loses",
            )


def _highest(running: Running, steps: tuple[int, ...], seconds: float) -> Flow | None:
    held = None
    for per_s in steps:
        seen = udp(running, seconds, per_s, size=SIZE)
        # A sender that cannot keep the pace any more has found its own limit, not the backend's.
        if seen.loss > TOLERATED or seen.sent_per_s < 0.8 * per_s:
            break
        held = seen
    return held
