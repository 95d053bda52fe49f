"""Fitting Markovian arrival processes to a window by Kronecker composition of MAP(2)s."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares

from fogmodels.arrivals.composition import MOST_COMPONENTS, Composition, Parameters, most_components
from fogmodels.arrivals.markovian import MAP
from fogmodels.arrivals.reference_load import map_load, trace_load
from fogmodels.arrivals.trace import TraceStatistics, describe, inter_arrival_times

Vector = NDArray[np.float64]

_LOADS = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
_REFERENCE_DRAWS = 200_000
_GOOD_ENOUGH = 0.05  # rms error of log dispersion below which another MAP(2) is not worth its states
_LEAST_GAIN = 0.7  # and the factor by which it must lower the error


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A candidate: its process (mean as recorded) and its loss, the lower the better."""

    process: MAP
    loss: float
    components: int


def fit_map(iats: ArrayLike) -> MAP:
    """The MAP of a window: moments, autocorrelation and load; its order is chosen automatically.

    A base of independent phase-type times, composed with up to three correlated MAP(2)s (KPC, as in
    MEAD section IV-B). Deterministic, and free of units: times in ms give the same process, scaled.
    """
    times = inter_arrival_times(iats)
    seen, loads = _observe(times)
    return _fit(seen, loads, _order(seen), third_weight=0.1).process


def fit_maps(iats: ArrayLike, best: int = 5) -> list[MAP]:
    """The `best` distinct fits of a window, best first (MEAD section IV-C: plan for the worst).

    They differ in order and in how much the third moment weighs against the reference load.
    """
    if isinstance(best, bool) or int(best) != best or best < 1:
        raise ValueError(f"the number of fits is a whole number from 1 up, not {best}")
    times = inter_arrival_times(iats)
    seen, loads = _observe(times)
    order = _order(seen)
    first = _fit(seen, loads, order, third_weight=0.1)
    others: list[Fit] = []
    weights = [0.1, 1.0] + [10.0 ** (-1 - 0.25 * i) for i in range(1, int(best))]
    for weight in weights:
        for components in range(MOST_COMPONENTS + 1):
            if len(others) <= best and (components, weight) != (order, 0.1):
                others.append(_fit(seen, loads, components, weight))
    ranked = [first, *sorted(others, key=lambda fit: fit.loss)]
    return [fit.process for fit in ranked[: int(best)]]


def _observe(times: Vector) -> tuple[TraceStatistics, Vector]:
    seen = describe(times)
    runs = int(np.clip(_REFERENCE_DRAWS // times.size, 1, 200))
    return seen, trace_load(times / seen.mean, _LOADS, runs, seed=1)


def _order(seen: TraceStatistics) -> int:
    """How many correlated MAP(2)s the dispersion curve asks for."""
    errors = [_dispersion_fit(seen, 0)[1]]
    most = most_components(seen.scv)
    for components in range(1, most + 1):
        # What sampling noise alone does to the curve is no reason for more states.
        noise = 2.0 * np.sqrt(2.0 * float(seen.blocks[-1]) / seen.events)
        if errors[-1] < max(_GOOD_ENOUGH, noise / 4):
            return components - 1
        errors.append(_dispersion_fit(seen, components)[1])
        if errors[-1] > _LEAST_GAIN * errors[-2]:
            return components - 1
    return most


def _dispersion_fit(seen: TraceStatistics, components: int) -> tuple[Composition, float]:
    """Least squares of log dispersion over all block lengths, whatever the third moment."""
    space = Parameters(components, seen.scv, float(seen.blocks[-1]))
    target = np.log(np.maximum(seen.dispersion, 1e-6))

    def residual(x: Vector) -> Vector:
        model = space.composition(x).dispersion(seen.scv, seen.blocks)
        return np.asarray(np.log(model) - target)

    if components == 0:
        made = space.composition(space.first)
        return made, float(np.sqrt(np.mean(residual(space.first) ** 2)))
    fixed = slice(0, 2 * components)

    def of_correlation(y: Vector) -> Vector:
        x = space.first.copy()
        x[fixed] = y
        return np.concatenate([residual(x), 1e-3 * y[:components]])

    found = least_squares(
        of_correlation, space.first[fixed], bounds=(space.low[fixed], space.high[fixed]), max_nfev=40
    )
    x = space.first.copy()
    x[fixed] = found.x
    return space.composition(x), float(np.sqrt(np.mean(residual(x) ** 2)))


def _fit(seen: TraceStatistics, loads: Vector, components: int, third_weight: float) -> Fit:
    """Fit everything at once, starting from the dispersion fit.

    Moments and autocorrelation leave open how the third moment is shared among the factors, and
    that share moves the predicted waiting time several times up or down. It is settled by the load
    the window itself puts on an exponential server at four utilisations.
    """
    components = min(components, most_components(seen.scv))
    space = Parameters(components, seen.scv, float(seen.blocks[-1]))
    start = space.pack(_dispersion_fit(seen, components)[0])
    residual = partial(_residuals, space, seen, np.log(loads), third_weight)

    def one(x: Vector) -> Vector:
        return np.asarray(residual(x[None, :])[0])

    def jacobian(x: Vector) -> Vector:
        step = np.where(x + 1e-4 < space.high, 1e-4, -1e-4)
        around = residual(np.vstack([x, x + np.diag(step)]))
        return np.asarray(((around[1:] - around[0]) / step[:, None]).T)

    free = space.first.size > 0
    if free:
        found = least_squares(
            one, start, jac=jacobian, bounds=(space.low, space.high), max_nfev=15, ftol=1e-4
        )
        start = found.x
    made = space.composition(start)
    loss = float(np.sum(one(start)[: seen.blocks.size + loads.size] ** 2))
    return Fit(MAP(*made.matrices()).scaled(seen.mean), loss, components)


def _residuals(
    space: Parameters, seen: TraceStatistics, log_loads: Vector, third_weight: float, points: Vector
) -> Vector:
    made = [space.composition(x) for x in points]
    pairs = [composition.matrices() for composition in made]
    predicted = np.empty((len(pairs), log_loads.size))
    orders = np.array([pair[0].shape[0] for pair in pairs])  # an Erlang base changes its order with its SCV
    for order in np.unique(orders):
        same = np.flatnonzero(orders == order)
        hidden, observed = (np.array([pairs[i][part] for i in same]) for part in (0, 1))
        predicted[same] = map_load(hidden, observed, _LOADS)
    dispersion = np.array([m.dispersion(seen.scv, seen.blocks) for m in made])
    target = np.log(np.maximum(seen.dispersion, 1e-6))
    even = np.sqrt(log_loads.size / seen.blocks.size)
    third = np.array([np.log(m.third) for m in made]) - np.log(seen.third)
    return np.concatenate(
        [
            0.5 * even * (np.log(dispersion) - target),
            np.log(predicted) - log_loads,
            third_weight * third[:, None],
            0.02 * (points - space.first),
        ],
        axis=1,
    )
