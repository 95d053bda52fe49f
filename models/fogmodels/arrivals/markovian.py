"""Markovian arrival processes: validation, closed-form statistics, sampling and composition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import factorial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fogmodels.arrivals.sampling import sample_markovian, sample_renewal

Matrix = NDArray[np.float64]

_ROW_SUM_TOLERANCE = 1e-8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MAP:
    """A Markovian arrival process (MEAD section IV-A): hidden transitions D0, arrivals D1.

    Both are n x n; D0 + D1 is the generator of an irreducible chain. Inter-arrival times come
    out in the inverse of whatever unit the rates are in.
    """

    D0: Matrix
    D1: Matrix
    _moment_matrix: Matrix = field(init=False)
    _embedded: Matrix = field(init=False)
    _phase: Matrix = field(init=False)

    def __init__(self, D0: ArrayLike, D1: ArrayLike) -> None:
        hidden, observed = _generator_pair(D0, D1)
        inverse = np.linalg.inv(-hidden)
        embedded = np.maximum(inverse @ observed, 0.0)
        embedded /= embedded.sum(axis=1, keepdims=True)
        for name, value in (
            ("D0", hidden),
            ("D1", observed),
            ("_moment_matrix", inverse),
            ("_embedded", embedded),
            ("_phase", _phase_at_arrivals(hidden, observed)),
        ):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"MAP(states={self.states}, mean={self.mean:.6g}, scv={self.scv:.4g})"

    @classmethod
    def poisson(cls, rate: float) -> MAP:
        """Independent exponential inter-arrival times with the given rate."""
        if not (np.isfinite(rate) and rate > 0):
            raise ValueError(f"an arrival rate must be positive and finite, not {rate}")
        return cls([[-rate]], [[rate]])

    @classmethod
    def renewal(cls, beta: ArrayLike, S: ArrayLike) -> MAP:
        """Independent phase-type inter-arrival times with start vector beta and sub-generator S."""
        start = np.atleast_1d(np.asarray(beta, dtype=float))
        inner = np.atleast_2d(np.asarray(S, dtype=float))
        return cls(inner, np.outer(-inner.sum(axis=1), start))

    @property
    def states(self) -> int:
        """Number of phases."""
        return int(self.D0.shape[0])

    @property
    def embedded(self) -> Matrix:
        """Transition matrix of the phase from one arrival to the next, (-D0)^-1 D1."""
        return self._embedded

    @property
    def phase_at_arrivals(self) -> Matrix:
        """Stationary distribution of the phase just after an arrival."""
        return self._phase

    @property
    def phase_in_time(self) -> Matrix:
        """Stationary distribution of the phase at a random instant."""
        weights = self._phase @ self._moment_matrix
        return np.asarray(weights / weights.sum())

    @property
    def mean(self) -> float:
        """Mean inter-arrival time."""
        return self.moment(1)

    @property
    def rate(self) -> float:
        """Arrivals per unit of time in the long run."""
        return 1.0 / self.mean

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the inter-arrival times."""
        return self.moment(2) / self.mean**2 - 1.0

    @property
    def skewness(self) -> float:
        """Skewness of the inter-arrival times."""
        m1, m2, m3 = (self.moment(k) for k in (1, 2, 3))
        variance = m2 - m1 * m1
        return float((m3 - 3 * m1 * variance - m1**3) / variance**1.5)

    def moment(self, order: int) -> float:
        """E[X^order] of the inter-arrival times (MEAD equation 1)."""
        if int(order) != order or order < 1:
            raise ValueError(f"a moment's order is a whole number from 1 up, not {order}")
        vector = np.ones(self.states)
        for _ in range(int(order)):
            vector = self._moment_matrix @ vector
        return float(factorial(int(order)) * (self._phase @ vector))

    def acf(self, lags: int | Iterable[int]) -> Matrix:
        """Autocorrelation of the inter-arrival times at the given lags (MEAD equation 2).

        The paper's printed numerator subtracts E[X^2]; the covariance subtracts E[X]^2, as here.
        A whole number n stands for the lags 1..n.
        """
        wanted = _lags(lags)
        if wanted.size == 0:
            return np.empty(0)
        left = self._phase @ self._moment_matrix
        right = self._moment_matrix.sum(axis=1)
        mean = float(self._phase @ right)
        # Deflating the chain's unit eigenvalue avoids subtracting two nearly equal products.
        deflated = self._embedded - np.outer(np.ones(self.states), self._phase)
        variance = self.moment(2) - mean * mean
        covariance = np.empty(wanted.size)
        order = np.argsort(wanted, kind="stable")
        vector, at = right - mean, 0
        for position in order:
            gap = int(wanted[position]) - at
            if gap > 64:
                vector = np.linalg.matrix_power(deflated, gap) @ vector
            else:
                for _ in range(gap):
                    vector = deflated @ vector
            at = int(wanted[position])
            covariance[position] = left @ vector
        return np.where(wanted == 0, 1.0, covariance / variance)

    def sample(self, n: int, rng: np.random.Generator | int) -> Matrix:
        """Draw n consecutive inter-arrival times of the stationary process; rng may be a seed."""
        rng = np.random.default_rng(rng)
        if int(n) != n or n < 0:
            raise ValueError(f"the number of samples is a whole number from 0 up, not {n}")
        if n == 0:
            return np.empty(0)
        if self._is_renewal():
            return sample_renewal(self._phase, self.D0, int(n), rng)
        return sample_markovian(self._phase, self.D0, self.D1, int(n), rng)

    def scaled(self, mean: float) -> MAP:
        """The same process with another mean inter-arrival time; shape and correlation stay."""
        if not (np.isfinite(mean) and mean > 0):
            raise ValueError(f"a mean inter-arrival time must be positive and finite, not {mean}")
        factor = self.mean / mean
        return MAP(self.D0 * factor, self.D1 * factor)

    def thinned(self, keep: float) -> MAP:
        """The process that keeps each arrival independently with probability `keep`."""
        if not 0 < keep <= 1:
            raise ValueError(f"the probability of keeping an arrival must be in (0, 1], not {keep}")
        return MAP(self.D0 + (1 - keep) * self.D1, keep * self.D1)

    def superposed(self, other: MAP) -> MAP:
        """Both processes merged into one stream: Kronecker sums, n x m phases."""
        mine, theirs = np.eye(self.states), np.eye(other.states)
        return MAP(
            np.kron(self.D0, theirs) + np.kron(mine, other.D0),
            np.kron(self.D1, theirs) + np.kron(mine, other.D1),
        )

    def composed(self, other: MAP) -> MAP:
        """Kronecker product composition (Casale et al. 2010): moments and correlations multiply.

        E[X^k] = E[A^k] E[B^k] / k!. At least one of the two must have a diagonal D0, or the
        product is not a Markovian arrival process.
        """
        if not (_is_diagonal(self.D0) or _is_diagonal(other.D0)):
            raise ValueError("a Kronecker composition needs one process whose D0 is diagonal")
        return MAP(-np.kron(self.D0, other.D0), np.kron(self.D1, other.D1))

    def _is_renewal(self) -> bool:
        return bool(np.all(np.abs(self._embedded - self._phase) < 1e-13))


def stationary(generator: Matrix) -> Matrix:
    """Stationary vector of an irreducible generator by subtraction-free elimination (GTH)."""
    work = np.array(generator, dtype=float)
    size = work.shape[0]
    for last in range(size - 1, 0, -1):
        work[:last, last] /= work[last, :last].sum()
        work[:last, :last] += np.outer(work[:last, last], work[last, :last])
    weights = np.ones(size)
    for state in range(1, size):
        weights[state] = weights[:state] @ work[:state, state]
    return np.asarray(weights / weights.sum())


def _phase_at_arrivals(D0: Matrix, D1: Matrix) -> Matrix:
    # By way of the chain in time: the chain embedded at arrivals may have transient phases.
    weights = stationary(D0 + D1) @ D1
    return np.asarray(weights / weights.sum())


def _generator_pair(D0: ArrayLike, D1: ArrayLike) -> tuple[Matrix, Matrix]:
    try:
        hidden, observed = np.array(D0, dtype=float), np.array(D1, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError("D0 and D1 must be square matrices of numbers") from error
    if hidden.ndim != 2 or hidden.shape[0] != hidden.shape[1] or hidden.size == 0:
        raise ValueError(f"D0 must be a square matrix, not of shape {hidden.shape}")
    if observed.shape != hidden.shape:
        raise ValueError(f"D0 and D1 must have one shape, not {hidden.shape} and {observed.shape}")
    if not (np.isfinite(hidden).all() and np.isfinite(observed).all()):
        raise ValueError("D0 and D1 must be finite")
    scale = np.abs(np.diag(hidden)).max()
    off = hidden - np.diag(np.diag(hidden))
    if off.min() < 0 or observed.min() < 0:
        raise ValueError("rates off D0's diagonal and in D1 must not be negative")
    if (np.diag(hidden) >= 0).any():
        raise ValueError("D0's diagonal must be negative")
    gap = np.abs(hidden.sum(axis=1) + observed.sum(axis=1))
    if (gap > _ROW_SUM_TOLERANCE * np.maximum(np.abs(np.diag(hidden)), 1e-6 * scale)).any():
        raise ValueError("rows of D0 + D1 must sum to zero")
    if not observed.any():
        raise ValueError("D1 must have at least one positive rate, or nothing ever arrives")
    np.fill_diagonal(hidden, -(off.sum(axis=1) + observed.sum(axis=1)))
    if not _is_irreducible((off + observed) > 0):
        raise ValueError("D0 + D1 must be irreducible: every phase must reach every other")
    return hidden, observed


def _is_irreducible(edges: NDArray[np.bool_]) -> bool:
    size = edges.shape[0]
    reach = edges | np.eye(size, dtype=bool)
    for _ in range(max(1, int(np.ceil(np.log2(size))))):
        reach = (reach.astype(float) @ reach.astype(float)) > 0
    return bool(reach.all())


def _is_diagonal(matrix: Matrix) -> bool:
    return bool(np.count_nonzero(matrix - np.diag(np.diag(matrix))) == 0)


def _lags(lags: int | Iterable[int]) -> NDArray[np.int64]:
    if isinstance(lags, (int, np.integer)):
        if lags < 1:
            raise ValueError(f"the number of lags is a whole number from 1 up, not {lags}")
        return np.arange(1, int(lags) + 1)
    values = np.asarray(list(lags), dtype=float).ravel()
    if not np.isfinite(values).all() or (values < 0).any() or (values != np.floor(values)).any():
        raise ValueError("lags must be whole numbers from 0 up")
    return values.astype(np.int64)
