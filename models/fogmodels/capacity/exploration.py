"""What to measure next: corners, then expected improvement under a Gaussian process; and when to stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import linalg, special

from fogmodels.capacity.regression import FAMILIES, Observation, Vector, feature_rank, loo_error, observed
from fogmodels.checks import finite, finite_vector, whole


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration that could be measured."""

    task_slots: int
    memory_mb: float


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The configurations the testbed can run: every listed number of slots with every memory size."""

    task_slots: tuple[int, ...]
    memory_mb: tuple[float, ...]

    def __post_init__(self) -> None:
        slots = {whole("task_slots", count) for count in finite_vector("task_slots", self.task_slots)}
        memory = {finite("memory_mb", size, above=0.0) for size in finite_vector("memory_mb", self.memory_mb)}
        if len(slots) < 2:
            raise ValueError("task_slots needs at least two values, or there is no scaling to learn.")
        object.__setattr__(self, "task_slots", tuple(sorted(slots)))
        object.__setattr__(self, "memory_mb", tuple(sorted(memory)))

    def candidates(self) -> list[Candidate]:
        """All configurations, small ones first."""
        return [Candidate(slots, memory) for slots, memory in product(self.task_slots, self.memory_mb)]

    def corners(self) -> list[Candidate]:
        """Fewest and most slots, with the least memory, then with the most: two if memory is fixed."""
        slots = (self.task_slots[0], self.task_slots[-1])
        memories = dict.fromkeys((self.memory_mb[0], self.memory_mb[-1]))
        return [Candidate(count, memory) for memory in memories for count in slots]

    def unit(self, points: Sequence[Candidate | Observation]) -> Vector:
        """The points scaled so that the space is the unit square; one row (slots, memory) each."""
        low = np.array([self.task_slots[0], self.memory_mb[0]], dtype=float)
        high = np.array([self.task_slots[-1], self.memory_mb[-1]], dtype=float)
        raw = np.array([(point.task_slots, point.memory_mb) for point in points], dtype=float)
        return np.asarray((raw - low) / np.where(high > low, high - low, 1.0), dtype=float)


@dataclass(frozen=True, slots=True)
class StopRule:
    """When to stop measuring (StreamBed, section 6, candidate search).

    At least three measurements beyond the corners, at most twenty in all; in between stop as soon as
    the score rises by more than a tenth from one measurement to the next.
    """

    beyond_corners: int = 3
    rise: float = 0.10
    most: int = 20

    def __post_init__(self) -> None:
        whole("beyond_corners", self.beyond_corners, at_least=0)
        finite("rise", self.rise, at_least=0.0)
        whole("most", self.most)

    def done(self, scores: Sequence[float | None], corners: int = 4) -> bool:
        """`scores[k]` is the score after measurement k+1; None where none could be computed yet."""
        if len(scores) >= self.most:
            return True
        if len(scores) <= corners + self.beyond_corners:
            return False
        before, now = scores[-2], scores[-1]
        return before is not None and now is not None and now > before * (1 + self.rise)


def best_score(observations: Iterable[Observation]) -> float | None:
    """The least leave-one-out error of the three families (eq. 9); None while too little is known."""
    rows = observed(observations)
    varying = 2 if len({row.memory_mb for row in rows}) > 1 else 1
    if len(rows) < varying + 2 or feature_rank(rows) < varying or len({row.task_slots for row in rows}) < 2:
        return None
    score = min(loo_error(rows, family) for family in FAMILIES)
    # A perfect fit leaves rounding errors, whose ups and downs mean nothing.
    return score if score > 1e-9 * max(row.mst for row in rows) else 0.0


def score_history(observations: Iterable[Observation]) -> list[float | None]:
    """`best_score` after each measurement, in measurement order."""
    rows = observed(observations)
    return [best_score(rows[: count + 1]) for count in range(len(rows))]


def next_measurement(
    space: SearchSpace, observations: Sequence[Observation], stop: StopRule | None = None
) -> Candidate | None:
    """The configuration to measure next, or None when the stop rule says that it is enough.

    Corners come first. Then a Gaussian process learns how the score (eq. 9) responds to where one
    measures, and the candidate with the greatest expected improvement is taken; one that was measured
    before may come again, because measurements are noisy. Deterministic; ties go to the smaller one.
    """
    rows = observed(observations) if observations else ()
    measured = {(row.task_slots, row.memory_mb) for row in rows}
    for corner in space.corners():
        if (corner.task_slots, corner.memory_mb) not in measured:
            return corner
    scores = score_history(rows)
    if (stop or StopRule()).done(scores, corners=len(space.corners())):
        return None
    candidates = space.candidates()
    x = space.unit(candidates)
    known = [score for score in scores if score is not None]
    if not known:
        return candidates[_emptiest(x, space.unit(rows))]
    # The bootstrap points share the first score there is.
    y = np.array([known[0] if score is None else score for score in scores])
    mean, sd = GaussianProcess.fit(space.unit(rows), y).posterior(x)
    gain = expected_improvement(mean, sd, float(y.min()))
    # All gains can round to zero after a perfect fit; then look where least was measured.
    return candidates[int(np.argmax(gain)) if gain.max() > 0 else _emptiest(x, space.unit(rows))]


def expected_improvement(mean: Vector, sd: Vector, best: float) -> Vector:
    """How far below `best` a normal variable is expected to fall, counting only falls (minimisation)."""
    mean, sd = np.atleast_1d(np.asarray(mean, dtype=float)), np.atleast_1d(np.asarray(sd, dtype=float))
    if mean.shape != sd.shape:
        raise ValueError(f"mean has shape {mean.shape} but sd has shape {sd.shape}.")
    if not (np.isfinite(mean).all() and np.isfinite(sd).all()) or (sd < 0).any():
        raise ValueError("mean and sd must be finite and sd must not be negative.")
    drop = finite("best", best) - mean
    z = np.divide(drop, sd, out=np.zeros_like(drop), where=sd > 0)
    spread = drop * special.ndtr(z) + sd * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.where(sd > 0, np.maximum(spread, 0.0), np.maximum(drop, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class GaussianProcess:
    """Gaussian process regression with a Matérn-5/2 kernel on standardised values."""

    x: Vector
    length_scale: float
    noise: float
    _offset: float
    _scale: float
    _factor: Vector
    _weights: Vector

    @classmethod
    def fit(
        cls, x: Vector, y: Vector, length_scale: float | None = None, noise: float | None = None
    ) -> GaussianProcess:
        """Condition on y at the rows of x; what is not given is the grid's most likely value.

        `noise` is the variance of a measurement in units of the variance of y.
        """
        x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
        if x.ndim != 2 or y.shape != (len(x),) or not len(x):
            raise ValueError(f"x must be rows of points and y one value each, not {x.shape} and {y.shape}.")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise ValueError("x and y must be finite.")
        lengths = (0.1, 0.2, 0.4, 0.8, 1.6) if length_scale is None else (length_scale,)
        noises = (1e-3, 1e-2, 1e-1, 0.5) if noise is None else (noise,)
        for length, variance in product(lengths, noises):
            finite("length_scale", length, above=0.0)
            finite("noise", variance, above=0.0)
        offset, scale = float(y.mean()), float(y.std()) or 1.0
        z = (y - offset) / scale
        fits = []
        for length, variance in product(lengths, noises):
            factor = linalg.cholesky(matern52(x, x, length) + variance * np.eye(len(x)), lower=True)
            weights = linalg.cho_solve((factor, True), z)
            likelihood = -0.5 * z @ weights - np.log(np.diag(factor)).sum()
            fits.append((float(likelihood), length, variance, factor, weights))
        _, length, variance, factor, weights = max(fits, key=lambda made: made[0])
        return cls(x, length, variance, offset, scale, factor, weights)

    def posterior(self, points: Vector) -> tuple[Vector, Vector]:
        """Mean and standard deviation of the underlying function at the rows of `points`."""
        points = np.asarray(points, dtype=float)
        if points.ndim != 2 or points.shape[1] != self.x.shape[1]:
            raise ValueError(f"points must be rows of {self.x.shape[1]} numbers, not shape {points.shape}.")
        cross = matern52(points, self.x, self.length_scale)
        half = linalg.solve_triangular(self._factor, cross.T, lower=True)
        variance = np.maximum(1.0 - np.einsum("ij,ij->j", half, half), 0.0)
        return self._offset + self._scale * (cross @ self._weights), self._scale * np.sqrt(variance)


def matern52(left: Vector, right: Vector, length_scale: float) -> Vector:
    """The Matérn kernel with smoothness 5/2 and unit variance between two sets of rows."""
    distance = np.sqrt(((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2))
    r = np.sqrt(5.0) * distance / length_scale
    return np.asarray((1.0 + r + r**2 / 3.0) * np.exp(-r), dtype=float)


def _emptiest(candidates: Vector, measured: Vector) -> int:
    """The candidate farthest from everything measured."""
    distance = np.sqrt(((candidates[:, None, :] - measured[None, :, :]) ** 2).sum(axis=2))
    return int(np.argmax(distance.min(axis=1)))
