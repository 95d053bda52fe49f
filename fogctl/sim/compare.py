"""How far a simulated run is from the live one it was calibrated from: scores, and replicas over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Steps = Sequence[tuple[float, float]]
"""When a number changed, and to what, oldest first."""

AGREEMENT = 0.9
"""Replicas must be the same for this part of the time at least."""


@dataclass(frozen=True, slots=True)
class Distance:
    """One score, live and simulated."""

    live: float
    simulated: float

    @property
    def absolute(self) -> float:
        """How far the simulated one is above the live one."""
        return self.simulated - self.live

    @property
    def relative(self) -> float | None:
        """The same as a part of the live one; None where that is 0."""
        return self.absolute / abs(self.live) if self.live else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the validation of the simulator says."""

    scores: Mapping[str, Distance]
    agreement: float
    """Part of the time in which live and simulated replicas were the same."""
    within_one: float
    """The same where one replica more or fewer counts as the same."""
    mean_difference: float
    """Replicas simulated beyond the live ones, on average."""

    @property
    def valid(self) -> bool:
        """Whether replicas agree as often as they must."""
        return self.agreement >= AGREEMENT


def compare(
    live_scores: Mapping[str, float | None],
    simulated_scores: Mapping[str, float | None],
    live_replicas: Mapping[str, Steps],
    simulated_replicas: Mapping[str, Steps],
    end_s: float,
    start_s: float = 0.0,
) -> Comparison:
    """Scores by name (those that both have), replicas by stage. Times count from each run's own start."""
    if set(live_replicas) != set(simulated_replicas) or not live_replicas:
        raise ValueError("both runs must have the same stages, one at least")
    scores = {
        name: Distance(float(value), float(other))
        for name, value in live_scores.items()
        if value is not None and (other := simulated_scores.get(name)) is not None
    }
    found = [
        agreement(steps, simulated_replicas[stage], start_s, end_s) for stage, steps in live_replicas.items()
    ]
    same, near, beyond = (float(np.mean(values)) for values in zip(*found, strict=True))
    return Comparison(scores, same, near, beyond)


def agreement(live: Steps, simulated: Steps, start_s: float, end_s: float) -> tuple[float, float, float]:
    """Part of the time in which two step functions are equal, in which they are at most 1 apart, and the mean
    of second minus first."""
    if not end_s > start_s:
        raise ValueError(f"the period must have a length: it starts at {start_s:g} s and ends at {end_s:g} s")
    edges = np.unique([start_s, end_s, *(at_s for at_s, _ in (*live, *simulated))])
    edges = edges[(edges >= start_s) & (edges <= end_s)]
    widths = np.diff(edges)
    one, other = _values(live, edges[:-1]), _values(simulated, edges[:-1])
    length = end_s - start_s
    same = float(widths[one == other].sum()) / length
    near = float(widths[np.abs(one - other) <= 1.0].sum()) / length
    return same, near, float((other - one) @ widths) / length


def _values(steps: Steps, at: NDArray[np.float64]) -> NDArray[np.float64]:
    if not steps:
        raise ValueError("a run without a single number of replicas cannot be compared")
    times = np.array([at_s for at_s, _ in steps])
    if (np.diff(times) < 0).any():
        raise ValueError("steps must be in the order of time")
    # Before its first step a run has what it begins with.
    index = np.maximum(np.searchsorted(times, at, side="right") - 1, 0)
    return np.array([float(value) for _, value in steps])[index]
