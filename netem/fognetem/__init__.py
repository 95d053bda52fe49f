"""Latency emulation between the nodes of a testbed: plan, apply, verify, clear."""
