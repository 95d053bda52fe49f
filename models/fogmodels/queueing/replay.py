"""Recorded arrivals through a first-come-first-served server: Lindley's recursion, vectorised."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fogmodels.arrivals.trace import inter_arrival_times
from fogmodels.queueing.phase_type import PhaseType
from fogmodels.queueing.response import ResponseTime, Sampled, Unstable

Vector = NDArray[np.float64]

_SERVICE_DRAWS = 200_000
_FEWEST_RUNS, _MOST_RUNS = 4, 400


def lindley(iats: ArrayLike, services: ArrayLike) -> Vector:
    """Response time of each customer, starting empty: W' = max(0, W + S - A).

    iats[i] is the time between customers i and i + 1 along the last axis; a last one, after the
    final customer, is ignored. Both arrays broadcast, so many service draws can run side by side.
    """
    work = np.asarray(services, dtype=float)
    gaps = np.asarray(iats, dtype=float)
    count = work.shape[-1]
    if gaps.shape[-1] not in (count, count - 1):
        raise ValueError(f"{count} service times need {count - 1} or {count} inter-arrival times")
    steps = work[..., :-1] - gaps[..., : count - 1]
    walk = np.concatenate([np.zeros((*steps.shape[:-1], 1)), np.cumsum(steps, axis=-1)], axis=-1)
    waiting = walk - np.minimum.accumulate(walk, axis=-1)
    return np.asarray(waiting + work)


def replay(iats: ArrayLike, service: PhaseType, seed: int = 0) -> ResponseTime:
    """The window itself as the model: recorded arrivals, independent draws of the service times.

    Exact for this window but for the sampling of services (several runs, fixed seed). It starts
    empty, as the recorded server is taken to have done.
    """
    times = inter_arrival_times(iats)
    utilisation = service.mean / float(times.mean())
    if not utilisation < 1.0:
        raise Unstable(utilisation)
    runs = int(np.clip(_SERVICE_DRAWS // times.size, _FEWEST_RUNS, _MOST_RUNS))
    rng = np.random.default_rng(seed)
    totals = [lindley(times, service.sample(times.size, rng)) for _ in range(runs)]
    responses = np.sort(np.concatenate(totals))
    return ResponseTime(
        mean=float(responses.mean()),
        utilisation=utilisation,
        method="replay",
        distribution=Sampled(responses),
    )
