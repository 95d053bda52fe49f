"""Arrival processes (MEAD): Markovian arrival processes and how to fit them to a recorded window."""

from fogmodels.arrivals.fitting import fit_map, fit_maps
from fogmodels.arrivals.markovian import MAP
from fogmodels.arrivals.trace import autocorrelation, from_timestamps

__all__ = ["MAP", "autocorrelation", "fit_map", "fit_maps", "from_timestamps"]
