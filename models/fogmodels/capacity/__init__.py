"""Capacity planning after StreamBed: parallelism under a budget, slots for a rate, what to measure next."""

from fogmodels.capacity.exploration import (
    Candidate,
    GaussianProcess,
    SearchSpace,
    StopRule,
    best_score,
    expected_improvement,
    next_measurement,
    score_history,
)
from fogmodels.capacity.model import CapacityModel, Interval, SlotsInterval, fit_capacity
from fogmodels.capacity.parallelism import Parallelism, best_parallelism, true_rate
from fogmodels.capacity.rate_search import RateSearch, Trial, trials_within
from fogmodels.capacity.regression import (
    FAMILIES,
    Family,
    HalfSplit,
    Observation,
    Regression,
    half_split,
    leave_one_out,
    loo_error,
)

__all__ = [
    "FAMILIES",
    "Candidate",
    "CapacityModel",
    "Family",
    "GaussianProcess",
    "HalfSplit",
    "Interval",
    "Observation",
    "Parallelism",
    "RateSearch",
    "Regression",
    "SearchSpace",
    "SlotsInterval",
    "StopRule",
    "Trial",
    "best_parallelism",
    "best_score",
    "expected_improvement",
    "fit_capacity",
    "half_split",
    "leave_one_out",
    "loo_error",
    "next_measurement",
    "score_history",
    "trials_within",
    "true_rate",
]
