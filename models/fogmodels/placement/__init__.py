"""Contention- and latency-aware placement of tasks on workers (CAPSys, EuroSys 2025).

`Problem.from_dict` reads a problem; `count_plans`, `bounds`, `pareto`, `tune` describe it; `place` solves it.
"""

from fogmodels.placement.costs import Placement, TaskCounts, bounds
from fogmodels.placement.counting import TooLarge
from fogmodels.placement.problem import Operator, Problem, Worker
from fogmodels.placement.searched import Undecided
from fogmodels.placement.solve import NoPlan, count_plans, pareto, place, tune, tune_and_place
from fogmodels.placement.tuning import Limits

__all__ = [
    "Limits",
    "NoPlan",
    "Operator",
    "Placement",
    "Problem",
    "TaskCounts",
    "TooLarge",
    "Undecided",
    "Worker",
    "bounds",
    "count_plans",
    "pareto",
    "place",
    "tune",
    "tune_and_place",
]
