"""TCP throughput between two nodes through each backend, beside the management path that nothing impairs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from fognetem.matrix import Path

from benchmarks.row import Row
from benchmarks.testbed_rows.bed import Settings, bed
from benchmarks.testbed_rows.flows import tcp_bit_s

RTTS_MS = (0.0, 20.0)


def rows(settings: Settings) -> Iterator[Row]:
    """One connection, warm, at 0 and 20 ms; both paths in turn, so that they meet the same host."""
    seconds, warm_s, repeats = (0.7, 0.3, 1) if settings.quick else (2.0, 1.0, 3)
    for backend in settings.backends:
        with bed(backend, 2) as virtual:
            for rtt_ms in RTTS_MS:
                virtual.set_latency("n0", "n1", Path(rtt_ms))
                running = virtual.running
                ours, free = [], []
                for _ in range(repeats):
                    ours.append(tcp_bit_s(running, seconds, warm_s) / 1e6)
                    free.append(tcp_bit_s(running, seconds, warm_s, management=True) / 1e6)
                yield Row(
                    f"{backend}: one TCP connection, RTT {rtt_ms:g} ms",
                    statistics.median(ours),
                    "Mbit/s",
                    peer=statistics.median(free),
                    peer_name="unimpaired path",
                    more_is_better=True,
                    note=f"median of {repeats}",
                )
