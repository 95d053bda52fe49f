"""The simple models MEAD compares with: M/G/1 (Pollaczek and Khinchine) and Kingman's GI/G/1."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fogmodels.arrivals import MAP
from fogmodels.arrivals.trace import inter_arrival_times
from fogmodels.queueing.phase_type import PhaseType
from fogmodels.queueing.response import ResponseTime, Unstable
from fogmodels.queueing.single_server import solve


def mg1(rate: float, service: PhaseType) -> ResponseTime:
    """Poisson arrivals: mean by Pollaczek and Khinchine, percentiles from the exact M/PH/1."""
    utilisation = _utilisation(rate, service)
    waiting = rate * service.moment(2) / (2 * (1 - utilisation))
    exact = solve(MAP.poisson(rate), service)
    return ResponseTime(
        mean=waiting + service.mean, utilisation=utilisation, method="M/G/1", distribution=exact.distribution
    )


def kingman(rate: float, arrival_scv: float, service: PhaseType) -> ResponseTime:
    """Kingman's heavy-traffic approximation for independent arrivals; a mean only."""
    if not (np.isfinite(arrival_scv) and arrival_scv >= 0):
        raise ValueError(f"an SCV must be finite and not negative, not {arrival_scv}")
    utilisation = _utilisation(rate, service)
    factor = utilisation / (1 - utilisation) * (arrival_scv + service.scv) / 2
    return ResponseTime(mean=service.mean * (1 + factor), utilisation=utilisation, method="Kingman GI/G/1")


def mg1_of(iats: ArrayLike, service: PhaseType) -> ResponseTime:
    """M/G/1 with the window's arrival rate."""
    return mg1(1.0 / float(inter_arrival_times(iats).mean()), service)


def kingman_of(iats: ArrayLike, service: PhaseType) -> ResponseTime:
    """Kingman's formula with the window's arrival rate and SCV."""
    times = inter_arrival_times(iats)
    mean = float(times.mean())
    return kingman(1.0 / mean, float(times.var()) / mean**2, service)


def _utilisation(rate: float, service: PhaseType) -> float:
    if not (np.isfinite(rate) and rate > 0):
        raise ValueError(f"an arrival rate must be positive and finite, not {rate}")
    utilisation = rate * service.mean
    if not utilisation < 1.0:
        raise Unstable(utilisation)
    return utilisation
