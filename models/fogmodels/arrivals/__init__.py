"""Arrival processes (MEAD): Markovian arrival processes and how to fit them to a recorded window."""

from fogmodels.arrivals.markovian import MAP

__all__ = ["MAP"]
