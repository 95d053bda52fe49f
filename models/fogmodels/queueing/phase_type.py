"""Phase-type distributions: the service times of the queues, and the exact form of their response times."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, factorial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fogmodels.arrivals.sampling import sample_renewal

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PhaseType:
    """Time to absorption of a Markov chain: start vector beta, sub-generator S."""

    beta: Matrix
    S: Matrix

    def __init__(self, beta: ArrayLike, S: ArrayLike) -> None:
        start, inner = _validated(beta, S)
        for name, value in (("beta", start), ("S", inner)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"PhaseType(phases={self.phases}, mean={self.mean:.6g}, scv={self.scv:.4g})"

    @classmethod
    def exponential(cls, mean: float) -> PhaseType:
        """Exponential with the given mean."""
        return cls.erlang(1, mean)

    @classmethod
    def erlang(cls, k: int, mean: float) -> PhaseType:
        """Erlang-k with the given mean (SCV 1/k)."""
        if isinstance(k, bool) or int(k) != k or k < 1:
            raise ValueError(f"an Erlang order is a whole number from 1 up, not {k}")
        rate = int(k) / _positive(mean, "a mean")
        return cls(np.eye(int(k))[0], rate * (np.eye(int(k), k=1) - np.eye(int(k))))

    @classmethod
    def hyperexponential(cls, probabilities: ArrayLike, means: ArrayLike) -> PhaseType:
        """Exponential with means[i] with probability probabilities[i]."""
        branch = np.atleast_1d(np.asarray(means, dtype=float))
        if branch.ndim != 1 or not np.isfinite(branch).all() or (branch <= 0).any():
            raise ValueError("the branches' means must be positive and finite")
        return cls(probabilities, np.diag(-1.0 / branch))

    @classmethod
    def from_moments(cls, mean: float, scv: float, third: float | None = None) -> PhaseType:
        """A small phase-type with this mean and SCV; E[X^3] = third too where SCV > 1 allows it.

        SCV < 1: mixture of Erlang-(k-1) and Erlang-k (Tijms); 1: exponential; > 1: two branches,
        with gamma-like balance (means in proportion to their weights) when `third` is not given.
        """
        mean, scv = _positive(mean, "a mean"), _positive(scv, "an SCV")
        if scv < 1 - 1e-12:
            if third is not None:
                raise ValueError("three moments can be matched only where the SCV is above 1")
            return _erlang_mixture(mean, scv)
        if scv <= 1 + 1e-12:
            return cls.exponential(mean)
        if third is None:
            # Balanced means: p1/m1 = p2/m2.
            p = 0.5 * (1 + np.sqrt((scv - 1) / (scv + 1)))
            return cls.hyperexponential([p, 1 - p], [mean / (2 * p), mean / (2 * (1 - p))])
        return cls.hyperexponential(*hyperexponential_branches(mean, scv, _positive(third, "E[X^3]")))

    @property
    def phases(self) -> int:
        """Number of phases."""
        return int(self.beta.size)

    @property
    def exit_rates(self) -> Matrix:
        """Rate of absorption from each phase."""
        return np.asarray(np.maximum(-self.S.sum(axis=1), 0.0))

    @property
    def mean(self) -> float:
        """Expected value."""
        return self.moment(1)

    @property
    def scv(self) -> float:
        """Squared coefficient of variation."""
        return self.moment(2) / self.mean**2 - 1.0

    def moment(self, order: int) -> float:
        """E[X^order]."""
        if int(order) != order or order < 1:
            raise ValueError(f"a moment's order is a whole number from 1 up, not {order}")
        vector: Matrix = np.ones(self.phases)
        for _ in range(int(order)):
            vector = np.asarray(np.linalg.solve(-self.S, vector), dtype=float)
        return float(factorial(int(order)) * (self.beta @ vector))

    def scaled(self, mean: float) -> PhaseType:
        """The same shape with another mean."""
        return PhaseType(self.beta, self.S * (self.mean / _positive(mean, "a mean")))

    def sample(self, n: int, rng: np.random.Generator | int) -> Matrix:
        """Draw n independent values; rng may be a seed."""
        rng = np.random.default_rng(rng)
        if int(n) != n or n < 0:
            raise ValueError(f"the number of samples is a whole number from 0 up, not {n}")
        erlang_rate = self._erlang_rate()
        if erlang_rate is not None:
            return np.asarray(rng.standard_gamma(self.phases, size=int(n)) / erlang_rate)
        return sample_renewal(self.beta, self.S, int(n), rng)

    def _erlang_rate(self) -> float | None:
        rate = -float(self.S[0, 0])
        chain = rate * (np.eye(self.phases, k=1) - np.eye(self.phases))
        return rate if self.beta[0] == 1.0 and np.array_equal(chain, self.S) else None


def hyperexponential_branches(mean: float, scv: float, third: float) -> tuple[Matrix, Matrix]:
    """Probabilities and means of the two-branch hyperexponential with these three moments.

    Exists exactly when SCV > 1 and E[X^3] E[X] > 1.5 E[X^2]^2; ValueError otherwise.
    """
    m1, m2, m3 = 1.0, (scv + 1.0) / 2.0, third / mean**3 / 6.0
    if not (m2 > 1.0 and m3 > m2 * m2):
        raise ValueError(
            "no two-branch hyperexponential has these moments: E[X^3] E[X] must exceed 1.5 E[X^2]^2"
        )
    # The branch means are the roots of x^2 - a x + b with m_{k+2} = a m_{k+1} - b m_k (reduced moments).
    a = (m3 - m1 * m2) / (m2 - m1 * m1)
    b = a * m1 - m2
    root = np.sqrt(max(a * a - 4 * b, 0.0))
    slow = (a + root) / 2
    fast = b / slow
    p = (m1 - fast) / (slow - fast)
    return np.array([1 - p, p]), mean * np.array([fast, slow])


def _erlang_mixture(mean: float, scv: float) -> PhaseType:
    # Tijms: with probability p one phase less. Exact for 1/k <= scv <= 1/(k-1).
    k = max(2, ceil(1 / scv - 1e-9))
    if k > 1000:
        raise ValueError(f"an SCV of {scv:.3g} needs {k} phases; at most 1,000 are made")
    p = (k * scv - np.sqrt(max(k * (1 + scv) - k * k * scv, 0.0))) / (1 + scv)
    rate = (k - p) / mean
    start = np.zeros(k)
    start[0], start[1] = 1 - p, p
    return PhaseType(start, rate * (np.eye(k, k=1) - np.eye(k)))


def _validated(beta: ArrayLike, S: ArrayLike) -> tuple[Matrix, Matrix]:
    try:
        start, inner = np.array(beta, dtype=float, ndmin=1), np.array(S, dtype=float, ndmin=2)
    except (TypeError, ValueError) as error:
        raise ValueError("beta must be a vector and S a square matrix of numbers") from error
    if start.ndim != 1 or start.size == 0 or inner.shape != (start.size, start.size):
        raise ValueError(f"beta and S must have matching sizes, not {start.shape} and {inner.shape}")
    if not (np.isfinite(start).all() and np.isfinite(inner).all()):
        raise ValueError("beta and S must be finite")
    if (start < 0).any() or abs(start.sum() - 1) > 1e-9:
        raise ValueError("beta must be a probability vector: no negative entry, sum 1")
    diagonal = np.diag(inner)
    if (inner - np.diag(diagonal)).min() < 0 or (diagonal >= 0).any():
        raise ValueError("S must have a negative diagonal and no negative rate off it")
    if (inner.sum(axis=1) > 1e-9 * np.abs(diagonal)).any():
        raise ValueError("rows of S must not sum to more than zero")
    _require_absorption(start, inner)
    return start / start.sum(), inner


def _require_absorption(beta: Matrix, S: Matrix) -> None:
    exits = -S.sum(axis=1) > 1e-12 * np.abs(np.diag(S))
    edges = (S > 0) | np.eye(beta.size, dtype=bool)
    for _ in range(beta.size):
        exits = exits | (edges & exits[None, :]).any(axis=1)
    if not exits.all():
        raise ValueError("S must lead to absorption from every phase")


def _positive(value: float, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be a number, not {value!r}") from error
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{what} must be positive and finite, not {value}")
    return number
