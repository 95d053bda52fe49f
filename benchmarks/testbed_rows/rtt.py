"""How far injected round trips are off, for each backend, on an idle host and with every core busy."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

from fognetem.matrix import LatencyMatrix, Path
from fognetem.measure import Measurement, Samples, measure

from benchmarks.row import Row
from benchmarks.testbed_rows.bed import Settings, bed
from benchmarks.testbed_rows.flows import busy_cores

# Four nodes have six pairs: one for each RTT, all measured at once as `fogctl net verify` does.
RTTS_MS = (0.0, 1.0, 10.0, 50.0, 150.0, 300.0)
PAIRS = (("n0", "n1"), ("n0", "n2"), ("n0", "n3"), ("n1", "n2"), ("n1", "n3"), ("n2", "n3"))
PROBES, QUICK_PROBES = 1000, 60
MEDIAN_TARGET_MS, P99_TARGET_MS = 0.5, 2.0


def rows(settings: Settings) -> Iterator[Row]:
    """The distribution of the error of single round trips, the measurement's own cost taken off."""
    asked = dict(zip(PAIRS, RTTS_MS, strict=True))
    matrix = LatencyMatrix(
        ("n0", "n1", "n2", "n3"), tuple((a, b, Path(rtt_ms)) for (a, b), rtt_ms in asked.items())
    )
    probes = QUICK_PROBES if settings.quick else PROBES
    for backend in settings.backends:
        with bed(backend, 4, matrix) as virtual:
            for load in ("idle", "busy"):
                with busy_cores() if load == "busy" else contextlib.nullcontext():
                    seen = measure(virtual.running.endpoints, matrix, probes)
                for pair, rtt_ms in asked.items():
                    yield from _errors(
                        f"{backend}, {load}: RTT {rtt_ms:g} ms", rtt_ms, seen, seen.pairs[pair]
                    )


def _errors(what: str, asked_ms: float, seen: Measurement, samples: Samples) -> Iterator[Row]:
    errors = [abs(trip - seen.baseline_ms - asked_ms) for trip in samples.round_trips]
    if not errors:
        raise RuntimeError(f"{what}: none of {samples.sent} probes came back")
    note = f"{len(errors)} probes, host {seen.busy:.0%} busy"
    if lost := samples.sent - len(errors):
        note += f", {lost} LOST"
    if seen.warning:
        note += f"; {seen.warning}"
    yield Row(f"{what}, median error", quantile(errors, 0.5), "ms", MEDIAN_TARGET_MS, note=note)
    yield Row(f"{what}, p99 error", quantile(errors, 0.99), "ms", P99_TARGET_MS, note=note)


def quantile(values: Sequence[float], fraction: float) -> float:
    """The smallest value that at least this fraction of all values does not exceed."""
    return sorted(values)[max(0, math.ceil(fraction * len(values)) - 1)]
