"""Latency emulation between the nodes of a testbed: plan, apply, verify, clear."""

from fognetem.errors import NetemError
from fognetem.matrix import LatencyMatrix, Path

__all__ = ["LatencyMatrix", "NetemError", "Path"]
