"""Scalability after Theodolite: lag trend, its objective, resource demand and load capacity."""

from fogmodels.scalability.search import Experiment, Search, Strategy, load_capacity, resource_demand
from fogmodels.scalability.trend import LagTrend, Objective, lag_trend, lag_trend_ratio

__all__ = [
    "Experiment",
    "LagTrend",
    "Objective",
    "Search",
    "Strategy",
    "lag_trend",
    "lag_trend_ratio",
    "load_capacity",
    "resource_demand",
]
