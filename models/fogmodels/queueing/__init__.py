"""Queues (MEAD): exact MAP/PH/1 response times, baselines, prediction from a window, paths and shares."""

from fogmodels.queueing.baselines import kingman, mg1
from fogmodels.queueing.paths import Application, Edge, along, departures, replay_path, solve_stages
from fogmodels.queueing.phase_type import PhaseType
from fogmodels.queueing.prediction import VARIANTS, conservative, predict
from fogmodels.queueing.replay import lindley, replay
from fogmodels.queueing.response import Inaccurate, ResponseTime, Unstable
from fogmodels.queueing.shares import LEVELS, Shares, cheapest_shares, greedy_shares, responder
from fogmodels.queueing.single_server import solve

__all__ = [
    "LEVELS",
    "VARIANTS",
    "Application",
    "Edge",
    "Inaccurate",
    "PhaseType",
    "ResponseTime",
    "Shares",
    "Unstable",
    "along",
    "cheapest_shares",
    "conservative",
    "departures",
    "greedy_shares",
    "kingman",
    "lindley",
    "mg1",
    "predict",
    "replay",
    "replay_path",
    "responder",
    "solve",
    "solve_stages",
]
