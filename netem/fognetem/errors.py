"""The one exception for what goes wrong with a host's network while latencies are injected."""

from __future__ import annotations


class NetemError(Exception):
    """An expected failure of latency emulation: one sentence that says what is wrong and what to do."""
