"""Which rate to try next: StreamBed's capacity estimator as a pure state machine, no clock and no load."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fogmodels.checks import finite, whole


@dataclass(frozen=True, slots=True)
class Trial:
    """One measured rate: what was asked, what the source achieved, and whether that counts as sustained."""

    target: float
    achieved: float
    sustained: bool


@dataclass(frozen=True, slots=True)
class RateSearch:
    """A dichotomic search for the maximum sustainable throughput (StreamBed, section 4).

    Start with the mean rate achieved during the warm-up. A sustained rate becomes the lower bound, any
    other the upper one; the next target is the middle of the two, or `growth` times the last target
    while nothing has failed yet. Each step returns a new search:

        search = RateSearch(start=warmup_mean, max_trials=7)
        while search.target is not None:
            search = search.record(achieved=measure(search.target))
        search.mst

    The paper calls a rate sustained if at least 99 % of it is achieved. Buffers absorb excess for a
    long time, so a caller that watches the lag should pass its own verdict to `record`.
    """

    start: float
    max_trials: int = 7
    tolerance: float = 0.01
    growth: float = 2.0
    sensitivity: float = 0.0
    trials: tuple[Trial, ...] = ()

    def __post_init__(self) -> None:
        finite("start", self.start, above=0.0)
        whole("max_trials", self.max_trials)
        finite("tolerance", self.tolerance, at_least=0.0)
        if self.tolerance >= 1:
            raise ValueError(f"tolerance must be below 1, not {self.tolerance:g}.")
        finite("growth", self.growth, above=1.0)
        finite("sensitivity", self.sensitivity, at_least=0.0)

    @property
    def lower(self) -> float:
        """The highest rate seen sustained since the search began; 0 if none was."""
        return max((trial.target for trial in self.trials if trial.sustained), default=0.0)

    @property
    def upper(self) -> float | None:
        """The lowest rate that was not sustained; None while there is none."""
        return min((trial.target for trial in self.trials if not trial.sustained), default=None)

    @property
    def target(self) -> float | None:
        """The next rate to try, or None when the search is over.

        It ends after `max_trials`, or when the next target is within `sensitivity` of the last one
        (off at 0, as in StreamBed's published code; the paper suggests 0.01).
        """
        if not self.trials:
            return self.start
        if len(self.trials) >= self.max_trials:
            return None
        last = self.trials[-1].target
        proposed = last * self.growth if self.upper is None else (self.lower + self.upper) / 2
        if self.sensitivity and abs(proposed - last) <= self.sensitivity * last:
            return None
        return proposed

    @property
    def mst(self) -> float:
        """The rate achieved at the highest sustained target; 0 if no target was sustained."""
        best = max((trial for trial in self.trials if trial.sustained), key=lambda t: t.target, default=None)
        return 0.0 if best is None else best.achieved

    def record(self, achieved: float, sustained: bool | None = None) -> RateSearch:
        """The search after the current target was measured; `sustained` overrides the 99 % rule."""
        if self.target is None:
            raise ValueError("the search is over, so there is no target to record a rate for.")
        achieved = finite("achieved", achieved, at_least=0.0)
        if sustained is None:
            sustained = achieved >= (1 - self.tolerance) * self.target
        return replace(self, trials=(*self.trials, Trial(self.target, achieved, bool(sustained))))

    def replay(self, achieved: Iterable[float]) -> RateSearch:
        """The search after a history of achieved rates, each for the target that was next at the time."""
        search = self
        for rate in achieved:
            search = search.record(rate)
        return search


def trials_within(duration_s: float, warmup_s: float, trial_s: float) -> int:
    """How many trials start before a run of `duration_s` ends; each takes `trial_s` after the warm-up."""
    duration_s = finite("duration_s", duration_s, above=0.0)
    warmup_s = finite("warmup_s", warmup_s, at_least=0.0)
    trial_s = finite("trial_s", trial_s, above=0.0)
    if duration_s <= warmup_s:
        raise ValueError(f"duration_s ({duration_s:g}) must be longer than warmup_s ({warmup_s:g}).")
    return math.ceil((duration_s - warmup_s) / trial_s)
