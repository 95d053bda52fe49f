"""StreamBed's Capacity Estimator: warm-up, then cool-down, ramp-up and observation for each rate tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fogmodels.capacity import RateSearch

from fogctl.errors import REFUSED, FogError
from fogctl.planner.measure import Measure, Say, StageSeen, Window, verdict

WARM_UP_PATIENCE = 2
"""So many more warm-ups are given to an app that has processed nothing in the first."""


@dataclass(frozen=True, slots=True)
class Phases:
    """How long each part of an estimate takes, and when it ends (StreamBed, section 4)."""

    warm_up_s: float = 60.0
    cool_down_s: float = 10.0
    """At a tenth of the rate; repeated until the backlog is gone, at most `patience` times."""
    ramp_up_s: float = 30.0
    observe_s: float = 120.0
    sensitivity: float = 0.05
    most_trials: int = 8
    patience: int = 36
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name in ("warm_up_s", "cool_down_s", "ramp_up_s", "observe_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if not 0 < self.sensitivity < 1:
            raise ValueError(f"sensitivity must lie between 0 and 1, not {self.sensitivity}")
        if self.most_trials < 1 or self.patience < 1:
            raise ValueError("most_trials and patience are whole numbers of at least 1")

    @property
    def trial_s(self) -> float:
        """The least time one rate takes."""
        return self.cool_down_s + self.ramp_up_s + self.observe_s

    @property
    def most_s(self) -> float:
        """About what an estimate takes at most, if backlogs go in one cool-down."""
        return self.warm_up_s + self.most_trials * self.trial_s


@dataclass(frozen=True, slots=True)
class RateSeen:
    """One rate that was tried."""

    rate_per_s: float
    achieved_per_s: float
    sustained: bool
    reason: str
    slope_per_s: float | None
    stages: tuple[StageSeen, ...] = ()

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> RateSeen:
        """As a journal has it."""
        return cls(**{**data, "stages": tuple(StageSeen(**stage) for stage in data["stages"])})


@dataclass(frozen=True, slots=True)
class Estimate:
    """The maximum sustainable throughput, between a rate that was sustained and one that was not."""

    mst: float
    lower: float
    upper: float | None
    trials: tuple[RateSeen, ...]

    @property
    def error(self) -> float | None:
        """How far above `mst` the truth may be, as a share of it; None if nothing was too much."""
        return None if self.upper is None or not self.mst else self.upper / self.mst - 1

    @property
    def stages(self) -> tuple[StageSeen, ...]:
        """True rates and busyness of the window that decided: the highest rate sustained."""
        best = [trial for trial in self.trials if trial.sustained]
        return max(best, key=lambda trial: trial.rate_per_s).stages if best else ()


def estimate(
    measure: Measure,
    first_rate_per_s: float,
    phases: Phases | None = None,
    *,
    known: Sequence[RateSeen] = (),
    on_trial: Callable[[RateSeen], None] = lambda _: None,
    say: Say = lambda _: None,
) -> Estimate:
    """Search for the highest rate that is sustained, by halving, to a sensitivity.

    `first_rate_per_s` is what the warm-up sends: more than the deployment can take. What it processes of that
    is the first rate tried. `known` are the trials of an estimate that was interrupted: it goes on there.
    """
    phases = phases or Phases()
    if not 0 < first_rate_per_s < float("inf"):
        raise ValueError(f"the first rate must be above 0, not {first_rate_per_s}")
    say(f"warming up for {phases.warm_up_s:g} s at {first_rate_per_s:,.0f} records/s")
    warm = measure.run(first_rate_per_s, phases.warm_up_s)
    for _ in range(WARM_UP_PATIENCE):
        if known or warm.processed_per_s > 0:
            break
        # A cold app may need longer for its first batches; it has enough to do, so little is added.
        warm = measure.run(0.1 * first_rate_per_s, phases.warm_up_s)
    if not known and warm.processed_per_s <= 0:
        raise FogError(
            f"nothing was processed in {(1 + WARM_UP_PATIENCE) * phases.warm_up_s:g} s",
            hint="look at fogctl app status, or warm up longer",
            exit_code=REFUSED,
        )
    start = known[0].rate_per_s if known else min(warm.processed_per_s, first_rate_per_s)
    search = RateSearch(start, phases.most_trials, growth=1.5, sensitivity=phases.sensitivity)
    trials = list(known)
    for trial in known:
        search = search.record(trial.achieved_per_s, trial.sustained)
    left = warm.lags[-1] if warm.lags else 0.0
    while (rate := search.target) is not None:
        _cool_down(measure, rate, left, phases, say)
        measure.run(rate, phases.ramp_up_s)
        window = measure.run(rate, phases.observe_s)
        seen = judged(window, rate, phases.confidence)
        trials.append(seen)
        on_trial(seen)
        say(f"{rate:,.0f} records/s: {'sustained' if seen.sustained else 'too much'} ({seen.reason})")
        search = search.record(seen.achieved_per_s, seen.sustained)
        left = window.lags[-1] if window.lags else 0.0
    return Estimate(search.mst, search.lower, search.upper, tuple(trials))


def judged(window: Window, rate_per_s: float, confidence: float) -> RateSeen:
    """What a window says about a rate; refused if it was never injected."""
    if window.limited_by is not None or window.injected_per_s < 0.99 * rate_per_s:
        raise FogError(
            f"the {window.limited_by or 'injector'} managed only {window.injected_per_s:,.0f} of "
            f"{rate_per_s:,.0f} records/s, so this says nothing about the deployment",
            hint="give the injector more processes, or measure fewer nodes",
            exit_code=REFUSED,
        )
    found = verdict(window, rate_per_s, confidence=confidence)
    slope = None if found.trend is None else found.trend.slope_per_s
    achieved = min(window.processed_per_s, rate_per_s)
    return RateSeen(rate_per_s, achieved, found.sustained, found.reason, slope, window.stages)


def _cool_down(measure: Measure, rate: float, backlog: float, phases: Phases, say: Say) -> None:
    """Little load until what a rate that was too much has left is gone: a second's worth is no backlog."""
    for attempt in range(phases.patience):
        window = measure.run(0.1 * rate, phases.cool_down_s)
        backlog = window.lags[-1] if window.lags else backlog
        # Within a batch the lag is never below what came since it began.
        if backlog <= 0.1 * rate * max(1.0, 2 * window.cycle_s) + rate:
            return
        if attempt == 0:
            say(f"waiting for a backlog of {backlog:,.0f} records")
    raise FogError(
        f"a backlog of {backlog:,.0f} records is not gone after {phases.patience * phases.cool_down_s:g} s",
        hint="the first rate was far too high: give a lower one",
        exit_code=REFUSED,
    )
