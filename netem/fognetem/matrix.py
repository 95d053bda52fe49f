"""The latency matrix: round-trip delay, jitter, loss and rate between every pair of nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Path:
    """What lies between two nodes. Half of the RTT and of the jitter goes on each direction."""

    rtt_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    """Fraction of packets lost in each direction, 0 to 1."""
    rate_bit_s: float | None = None
    """Bits per second in each direction; None: not limited."""


@dataclass(frozen=True, slots=True)
class LatencyMatrix:
    """Symmetric paths between nodes; a pair that is not given has the default path (no impairment)."""

    nodes: tuple[str, ...]
    paths: tuple[tuple[str, str, Path], ...] = ()
