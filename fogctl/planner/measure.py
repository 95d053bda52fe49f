"""What a measurement of a deployment gives, and whether it sustained its load: the seam to what is loaded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from fogmodels.scalability import LagTrend, lag_trend

RATE_SHARE = 0.99
"""A rate counts as processed if so much of it was (StreamBed, section 4)."""
LEAST_SAMPLES = 10
"""A window with fewer looks at the lag has no trend to speak of."""


@dataclass(frozen=True, slots=True)
class StageSeen:
    """One stage during a window: what it took in, and which share of the time its tasks worked."""

    name: str
    rate_per_s: float
    busyness: float
    tasks: int = 1

    @property
    def true_rate_per_s(self) -> float:
        """What one task would take in if it always worked; 0 if it never did."""
        return self.rate_per_s / (self.tasks * self.busyness) if self.busyness > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Window:
    """What was seen while records came at a rate."""

    times_s: tuple[float, ...]
    lags: tuple[float, ...]
    """Records that had come and were not processed, at those times."""
    injected_per_s: float
    processed_per_s: float
    """From the end of one batch to the end of another: between, a count is off by up to a batch."""
    cycle_s: float
    """The longest time between two ends of batches."""
    limited_by: str | None = None
    """What kept the injector from its rate; None: nothing did."""
    stages: tuple[StageSeen, ...] = ()


class Measure(Protocol):
    """A deployment that can be loaded and looked at; simulated or real."""

    def run(self, rate_per_s: float, seconds: float) -> Window:
        """Inject at this rate for so long, and say what was seen."""
        ...


Say = Callable[[str], None]
"""Is told, in a sentence, what goes on."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a rate was sustained in a window, and why."""

    sustained: bool
    reason: str
    trend: LagTrend | None


def verdict(window: Window, rate_per_s: float, *, confidence: float = 0.95) -> Verdict:
    """Sustained: no upward trend of the lag, and at least 99 % of the rate was processed.

    The rate alone is not enough: buffers take in the excess for a long time. The trend alone is not either:
    an injector that is held back leaves no lag. Growth by less than 1 % of the rate counts as none, because
    that is what the other condition forgives.
    """
    if not (math.isfinite(rate_per_s) and rate_per_s > 0):
        raise ValueError(f"the rate must be above 0, not {rate_per_s}")
    if len(window.times_s) < LEAST_SAMPLES:
        return Verdict(False, f"only {len(window.times_s)} looks at the lag", None)
    forgiven = (1 - RATE_SHARE) * rate_per_s
    trend = lag_trend(
        window.times_s,
        window.lags,
        confidence=confidence,
        tolerance_per_s=forgiven,
        cycle_s=window.cycle_s,
    )
    if trend.verdict == "rising":
        return Verdict(False, f"the lag grew by {trend.slope_per_s:,.0f} records/s", trend)
    if trend.verdict == "falling":
        # Processing an old backlog is no proof for the rate: what was processed may be far above it.
        return Verdict(True, f"the lag fell by {-trend.slope_per_s:,.0f} records/s", trend)
    share = window.processed_per_s / rate_per_s
    if share < RATE_SHARE - _chance(window, trend) / rate_per_s:
        return Verdict(False, f"only {share:.1%} of the rate was processed", trend)
    return Verdict(True, f"{share:.1%} of the rate was processed, and the lag shows no trend", trend)


def _chance(window: Window, trend: LagTrend) -> float:
    """By how many records a second the rate processed may be short by chance.

    What was processed differs from what came by how the lag at the window's end differs from that at its
    begin; apart from a trend, that is two draws from the lag's own spread.
    """
    times, lags = np.asarray(window.times_s), np.asarray(window.lags)
    rest = lags - trend.slope_per_s * (times - times[0])
    return 2.0 * float(rest.std()) / max(float(times[-1] - times[0]), 1e-9)
