"""Queues (MEAD): exact MAP/PH/1 response times, baselines, prediction from a window, paths and shares."""

from fogmodels.queueing.phase_type import PhaseType
from fogmodels.queueing.response import ResponseTime, Unstable
from fogmodels.queueing.single_server import solve

__all__ = ["PhaseType", "ResponseTime", "Unstable", "solve"]
