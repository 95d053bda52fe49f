"""The three regressions of StreamBed (eq. 6-8) with their leave-one-out errors and prediction variance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fogmodels.checks import finite, whole

Vector = NDArray[np.float64]
Family = Literal["linear", "sqrt", "log"]

# From the most to the least hopeful about scaling; equal errors are settled in this order.
FAMILIES: tuple[Family, ...] = get_args(Family)

# log1p, as StreamBed's code has it (the paper prints log): it stays finite and gentle near zero.
TRANSFORMS: dict[Family, Callable[[Any], Any]] = {
    "linear": lambda x: np.asarray(x, dtype=float),
    "sqrt": np.sqrt,
    "log": np.log1p,
}


@dataclass(frozen=True, slots=True)
class Observation:
    """The maximum sustainable throughput measured with some task slots and some memory."""

    task_slots: int
    memory_mb: float
    mst: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "task_slots", whole("task_slots", self.task_slots))
        object.__setattr__(self, "memory_mb", finite("memory_mb", self.memory_mb, above=0.0))
        object.__setattr__(self, "mst", finite("mst", self.mst, at_least=0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """mst = a * f(memory_mb) + b * f(task_slots) + c by least squares, f given by the family."""

    family: Family
    a: float
    b: float
    c: float
    residual_sd: float
    degrees_of_freedom: int
    # Covariances of (a, b, value at the centre), once for even and once for uneven noise; and that centre.
    _covariances: tuple[Vector, Vector]
    _centre: Vector

    def mst(self, task_slots: float | Vector, memory_mb: float | Vector) -> Any:
        """The regression's value, which may be negative far from the observations."""
        f = TRANSFORMS[self.family]
        return self.a * f(memory_mb) + self.b * f(task_slots) + self.c

    def prediction_sd(self, task_slots: float | Vector, memory_mb: float) -> Any:
        """Standard deviation of one new measurement: noise plus the doubt about the coefficients."""
        f = TRANSFORMS[self.family]
        slots = np.asarray(f(task_slots), dtype=float)
        memory = np.broadcast_to(f(memory_mb), slots.shape)
        away = np.stack([memory, slots], axis=-1) - self._centre
        away = np.concatenate([away, np.ones((*away.shape[:-1], 1))], axis=-1)
        doubt = [np.einsum("...i,ij,...j", away, spread, away) for spread in self._covariances]
        return np.sqrt(self.residual_sd**2 + np.maximum(*doubt))


def observed(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """The observations as a checked tuple."""
    try:
        rows = tuple(observations)
    except TypeError:
        raise ValueError(f"observations must be a list of Observation, not {observations!r}.") from None
    if not rows:
        raise ValueError("observations is empty.")
    for position, row in enumerate(rows):
        if not isinstance(row, Observation):
            raise ValueError(f"observations[{position}] must be an Observation, not {row!r}.")
    return rows


def features(rows: Sequence[Observation], family: Family) -> Vector:
    """One row per observation: f(memory), f(task slots)."""
    f = TRANSFORMS[family]
    raw = np.array([(row.memory_mb, row.task_slots) for row in rows], dtype=float)
    return np.asarray(f(raw), dtype=float)


def targets(rows: Sequence[Observation]) -> Vector:
    """The measured throughputs."""
    return np.array([row.mst for row in rows], dtype=float)


def regress(rows: Sequence[Observation], family: Family) -> Regression:
    """Ordinary least squares with an intercept; the least coefficients where several fit equally well."""
    x, y = features(rows, family), targets(rows)
    (a, b), c = _least_squares(x, y)
    centre = x.mean(axis=0)
    residuals = y - (a * x[:, 0] + b * x[:, 1] + c)
    freedom = len(rows) - _rank(x) - 1
    sd = float(np.sqrt(residuals @ residuals / freedom)) if freedom > 0 else float("inf")
    covariances = _covariances(np.column_stack([_centred(x), np.ones(len(rows))]), residuals, sd)
    return Regression(family, a, b, c, sd, freedom, covariances, centre)


def _covariances(x: Vector, residuals: Vector, sd: float) -> tuple[Vector, Vector]:
    """Of the coefficients: the textbook's, and HC3 (MacKinnon and White 1985) for uneven noise.

    Throughputs scatter by per cent, so the large ones scatter most, and those hold the far end of the line.
    """
    inverse = np.linalg.pinv(x)
    slack = 1.0 - np.einsum("ij,ji->i", x, inverse)
    # A row that the line must pass through has no residual to learn from.
    deleted = np.where(slack > 1e-6, residuals / np.maximum(slack, 1e-6), 0.0)
    weighted = inverse * deleted
    return sd**2 * (inverse @ inverse.T), weighted @ weighted.T


def leave_one_out(rows: Sequence[Observation], family: Family) -> Vector:
    """For each observation its value minus what the regression over all the others predicts."""
    if len(rows) < 2:
        raise ValueError("leaving one out needs at least two observations.")
    x, y = features(rows, family), targets(rows)
    slopes, c = _least_squares(x, y)
    varying = _centred(x)[:, _varies(x)]
    if _rank(x) == varying.shape[1]:
        # Least squares needs no refits: the error left out is the residual over one minus its leverage.
        orthogonal, _ = np.linalg.qr(varying)
        slack = 1.0 - 1.0 / len(rows) - (orthogonal**2).sum(axis=1)
    else:
        slack = np.zeros(len(rows))
    alone = slack < 1e-6  # without this row something no longer varies: only a refit can tell
    errors = (y - (x @ slopes + c)) / np.where(alone, 1.0, slack)
    for left_out in np.flatnonzero(alone):
        kept = np.arange(len(rows)) != left_out
        slopes, c = _least_squares(x[kept], y[kept])
        errors[left_out] = y[left_out] - (x[left_out] @ slopes + c)
    return np.asarray(errors, dtype=float)


def loo_error(rows: Sequence[Observation], family: Family) -> float:
    """Leave-one-out mean absolute error: the score StreamBed's code minimises (eq. 9)."""
    return float(np.mean(np.abs(leave_one_out(rows, family))))


@dataclass(frozen=True, slots=True)
class HalfSplit:
    """How well the small half of the observations predicts the large half (StreamBed, model selection)."""

    rmse: dict[Family, float]
    identifiable: bool

    @property
    def best(self) -> Family | None:
        """The family with the least error; None where the small half cannot tell slots from memory."""
        if not self.identifiable:
            return None
        return min(FAMILIES, key=lambda family: self.rmse[family])


def half_split(observations: Iterable[Observation]) -> HalfSplit:
    """The paper's own choice of a family: train on the lower half by slots, test on the upper half.

    With repeated corner measurements the lower half often holds one number of slots only. Nothing can
    be learnt about scaling from it, so `identifiable` is then False and `best` None. fit_capacity
    therefore chooses by leave-one-out instead.
    """
    rows = sorted(observed(observations), key=lambda row: row.task_slots)
    half = len(rows) // 2
    if half < 1:
        raise ValueError("the half split needs at least two observations.")
    train, test = rows[:half], rows[half:]
    rmse: dict[Family, float] = {}
    identifiable = True
    for family in FAMILIES:
        x = features(train, family)
        slopes, c = _least_squares(x, targets(train))
        identifiable = identifiable and _rank(x) == 2
        misses = targets(test) - (features(test, family) @ slopes + c)
        rmse[family] = float(np.sqrt(np.mean(misses**2)))
    return HalfSplit(rmse, identifiable)


def feature_rank(rows: Sequence[Observation]) -> int:
    """How many of (memory, task slots) vary independently: 0, 1 or 2."""
    return min(_rank(features(rows, family)) for family in FAMILIES)


def _least_squares(x: Vector, y: Vector) -> tuple[Vector, float]:
    """Slopes and intercept of the centred problem; the slopes of least norm when the rank is short."""
    y_mean = float(y.mean())
    slopes, _, _, _ = np.linalg.lstsq(_centred(x), y - y_mean, rcond=None)
    return np.asarray(slopes, dtype=float), y_mean - float(x.mean(axis=0) @ slopes)


def _rank(x: Vector) -> int:
    """How many columns vary independently, judged at one scale: megabytes and slots differ by magnitudes."""
    varying = _centred(x)[:, _varies(x)]
    return int(np.linalg.matrix_rank(varying / np.abs(varying).max(axis=0))) if varying.size else 0


def _centred(x: Vector) -> Vector:
    """Columns minus their means; exactly zero where a column holds one value, whatever the mean rounds to."""
    return np.asarray(np.where(_varies(x), x - x.mean(axis=0), 0.0), dtype=float)


def _varies(x: Vector) -> NDArray[np.bool_]:
    """Which columns hold more than one value."""
    return np.asarray(np.ptp(x, axis=0) > 0)
