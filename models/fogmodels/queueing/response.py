"""What a queue answers: the response time's mean and percentiles, exact or sampled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


class Unstable(ValueError):  # noqa: N818 - the public name callers know
    """The queue has no stationary response time: work arrives as fast as it is served, or faster."""

    def __init__(self, utilisation: float) -> None:
        self.utilisation = utilisation
        super().__init__(f"utilisation {utilisation:.6g} is not below 1: the queue grows without bound")


class Inaccurate(ArithmeticError):  # noqa: N818 - as above
    """A numerical self-check failed: no number is given rather than a wrong one."""


class Distribution(Protocol):
    """A response-time distribution on the positive axis."""

    def survival(self, x: float) -> float:
        """P(response time > x)."""
        ...

    def quantile(self, fraction: float) -> float:
        """The value that a `fraction` of response times does not exceed."""
        ...


@dataclass(frozen=True, slots=True)
class ResponseTime:
    """Time from arrival to the end of service, in the unit of the inputs."""

    mean: float
    utilisation: float
    method: str
    distribution: Distribution | None = field(default=None, repr=False)

    def percentile(self, q: float) -> float:
        """The q-th percentile; 0.95 and 95 both mean the 95th."""
        fraction = as_fraction(q)
        if self.distribution is None:
            raise ValueError(f"{self.method} gives a mean only, no percentiles")
        return self.distribution.quantile(fraction)

    def survival(self, x: float) -> float:
        """P(response time > x)."""
        if not np.isfinite(x):
            raise ValueError(f"a time must be finite, not {x}")
        if self.distribution is None:
            raise ValueError(f"{self.method} gives a mean only, no distribution")
        return 1.0 if x <= 0 else self.distribution.survival(float(x))


def as_fraction(q: float) -> float:
    """0 < q < 1 as it is, 1 < q < 100 as per cent; ValueError otherwise."""
    if isinstance(q, (int, float, np.number)) and not isinstance(q, bool):
        if 0 < q < 1:
            return float(q)
        if 1 < q < 100:
            return float(q) / 100.0
    raise ValueError(f"a percentile is a fraction in (0, 1) or per cent in (1, 100), not {q}")


@dataclass(frozen=True, slots=True, eq=False)
class MatrixExponential:
    """Survival start @ expm(rates x) @ tail with non-negative off-diagonal rates; nothing is truncated."""

    start: Matrix
    rates: Matrix
    tail: Matrix
    _powers: list[Matrix] = field(default_factory=list, repr=False)

    @property
    def _step(self) -> float:
        return 0.5 / float(-np.diag(self.rates).min())

    def survival(self, x: float) -> float:
        """P(X > x)."""
        if x <= 0:
            return 1.0
        doublings = max(0, int(np.ceil(np.log2(x / self._step))))
        power = positive_exponential(self.rates * (x / 2.0**doublings))
        for _ in range(doublings):
            power = power @ power
        return min(1.0, float(self.start @ power @ self.tail))

    def phase_type(self) -> tuple[Matrix, Matrix]:
        """Start vector and sub-generator of the same distribution, by reversing time."""
        return self.start * self.tail, self.rates * self.tail[None, :] / self.tail[:, None]

    def quantile(self, fraction: float) -> float:
        """Invert the survival function.

        Powers of expm(rates * step) by repeated squaring bracket the answer between two grid
        points one step apart; inside, the Taylor series of the exponential is exact to rounding,
        and safeguarded Newton steps finish.
        """
        target = 1.0 - fraction
        step, powers = self._step, self._powers
        if not powers:
            powers.append(positive_exponential(self.rates * step))
        while float(self.start @ powers[-1] @ self.tail) > target:
            powers.append(powers[-1] @ powers[-1])
            if len(powers) > 100:
                raise Inaccurate("the response time's tail does not decay: no percentile can be given")
        vector, passed = self.start, 0.0
        for k in range(len(powers) - 1, -1, -1):
            ahead = vector @ powers[k]
            if float(ahead @ self.tail) > target:
                vector, passed = ahead, passed + step * 2.0**k
        return passed + step * self._within(vector, step, target)

    def _within(self, vector: Matrix, step: float, target: float) -> float:
        """The t in [0, 1] at which vector @ expm(rates step t) @ tail falls to the target."""
        series = [float(vector @ self.tail) - target]
        term = vector
        for order in range(1, 24):
            term = (term @ self.rates) * (step / order)
            series.append(float(term @ self.tail))
        low, high, t = 0.0, 1.0, 0.5
        for _ in range(100):
            value = slope = 0.0
            for coefficient in reversed(series):
                slope = slope * t + value
                value = value * t + coefficient
            low, high = (t, high) if value > 0 else (low, t)
            newton = t - value / slope if slope < 0 else -1.0
            following = newton if low <= newton <= high else 0.5 * (low + high)
            if abs(following - t) <= 1e-14:
                return following
            t = following
        return t


def positive_exponential(matrix: Matrix) -> Matrix:
    """expm of a matrix with non-negative off-diagonal entries and a diagonal above -1.

    Shifting the diagonal makes every term of the series non-negative: no cancellation.
    """
    shift = float(-np.diag(matrix).min())
    positive = matrix.copy()
    positive.flat[:: matrix.shape[0] + 1] += shift
    total = np.eye(matrix.shape[0])
    term = total
    for order in range(1, 60):
        term = (term @ positive) / order
        total = total + term
        if term.max() <= 1e-18:
            break
    return np.asarray(np.exp(-shift) * total)


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """An empirical distribution: sorted values, each with the same weight."""

    values: Matrix

    def survival(self, x: float) -> float:
        """Share of values above x."""
        return 1.0 - float(np.searchsorted(self.values, x, side="right")) / self.values.size

    def quantile(self, fraction: float) -> float:
        """Interpolated order statistic."""
        position = fraction * (self.values.size - 1)
        low = int(position)
        high = min(low + 1, self.values.size - 1)
        return float(self.values[low] + (position - low) * (self.values[high] - self.values[low]))
