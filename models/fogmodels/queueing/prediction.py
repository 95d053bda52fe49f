"""From a monitoring window to a response time: the recommended predictor and every variant beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from fogmodels.arrivals import fit_map, fit_maps
from fogmodels.arrivals.trace import FEWEST_EVENTS, inter_arrival_times
from fogmodels.queueing.baselines import kingman_of, mg1_of
from fogmodels.queueing.phase_type import PhaseType
from fogmodels.queueing.replay import replay
from fogmodels.queueing.response import Distribution, ResponseTime, Unstable
from fogmodels.queueing.single_server import solve


def predict(iats: ArrayLike, service: PhaseType) -> ResponseTime:
    """The recommended predictor over a monitoring window: the window replayed.

    Recorded arrivals through a first-come-first-served server that starts empty, averaged over
    independent draws of the service times. Of all variants it is the nearest to the window's own
    truth at every load, and none of the others predicts the next window reliably better
    (docs/models.md has the table). Raises Unstable at utilisation >= 1.
    """
    return replay(iats, service)


def by_map(iats: ArrayLike, service: PhaseType) -> ResponseTime:
    """The stationary MAP/PH/1 of the fitted process: what the window would lead to if it went on."""
    return solve(fit_map(iats), service)


def combination(iats: ArrayLike, service: PhaseType) -> ResponseTime:
    """Half replay, half fitted MAP: quantile by quantile, so mean and percentiles stay consistent."""
    parts = (replay(iats, service), by_map(iats, service))
    return ResponseTime(
        mean=sum(part.mean for part in parts) / 2,
        utilisation=parts[0].utilisation,
        method="replay and MAP/PH/1",
        distribution=_QuantileMean(tuple(_distribution(part) for part in parts)),
    )


VARIANTS: Mapping[str, Callable[[ArrayLike, PhaseType], ResponseTime]] = MappingProxyType(
    {"M/G/1": mg1_of, "Kingman": kingman_of, "MAP": by_map, "replay": replay, "combination": combination}
)


def conservative(
    iats: ArrayLike, service: PhaseType, best: int = 5, windows: Sequence[float] = (1.0, 0.5)
) -> ResponseTime:
    """MEAD's own use of its models (section IV-C): the worst case over windows and fits.

    Each window is the most recent share of the recorded times; for each, the `best` fits are
    solved. A window that overloads the server raises Unstable: that is its worst case.
    """
    times = inter_arrival_times(iats)
    if not len(windows) or not all(0 < share <= 1 for share in windows):
        raise ValueError("windows are shares of the recorded times, each in (0, 1]")
    cases: list[ResponseTime] = []
    for share in windows:
        recent = times[-max(FEWEST_EVENTS, round(share * times.size)) :]
        if not service.mean < recent.mean():
            raise Unstable(service.mean / float(recent.mean()))
        cases += [solve(process, service) for process in fit_maps(recent, best)]
    return ResponseTime(
        mean=max(case.mean for case in cases),
        utilisation=max(case.utilisation for case in cases),
        method=f"worst of {len(cases)} MAP/PH/1",
        distribution=_Worst(tuple(_distribution(case) for case in cases)),
    )


def _distribution(response: ResponseTime) -> Distribution:
    if response.distribution is None:
        raise ValueError(f"{response.method} gives a mean only, no distribution")
    return response.distribution


@dataclass(frozen=True, slots=True)
class _QuantileMean:
    parts: tuple[Distribution, ...]

    def quantile(self, fraction: float) -> float:
        return float(np.mean([part.quantile(fraction) for part in self.parts]))

    def survival(self, x: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.quantile(middle) <= x else (low, middle)
        return 1.0 - low


@dataclass(frozen=True, slots=True)
class _Worst:
    parts: tuple[Distribution, ...]

    def quantile(self, fraction: float) -> float:
        return max(part.quantile(fraction) for part in self.parts)

    def survival(self, x: float) -> float:
        return max(part.survival(x) for part in self.parts)
