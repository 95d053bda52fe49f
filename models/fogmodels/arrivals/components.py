"""The building blocks of a composed fit: correlated MAP(2)s and an uncorrelated phase-type base."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Pair = tuple[Matrix, Matrix]

_EXPONENTIAL = 5e-4


def two_branches(m2: float, kappa: float) -> tuple[Matrix, Matrix]:
    """Probabilities and means of the hyperexponential of mean 1 with these reduced moments.

    m2 = E[X^2]/2 > 1 and E[X^3]/6 = kappa m2^2 with kappa > 1: all that two branches can reach.
    """
    m3 = kappa * m2 * m2
    # The branch means are the roots of x^2 - a x + b, because m_{k+2} = a m_{k+1} - b m_k.
    a = (m3 - m2) / (m2 - 1.0)
    b = a - m2
    slow = 0.5 * (a + np.sqrt(max(a * a - 4 * b, 0.0)))
    fast = b / slow
    p = (1.0 - fast) / (slow - fast)
    return np.array([1 - p, p]), np.array([fast, slow])


def correlated_map2(strength: float, decay: float, kappa: float) -> Pair:
    """(D0, D1) of a MAP(2) of mean 1 with diagonal D0 and E[X^2]/2 = 1 + strength.

    Its SCV times its autocorrelation at lag k is strength * decay^k; kappa is its free shape.
    """
    phase, means = two_branches(1.0 + strength, kappa)
    switch = decay * np.eye(2) + (1 - decay) * phase[None, :]
    return np.diag(-1 / means), switch / means[:, None]


def renewal_base(m2: float, kappa: float, most_phases: int) -> Pair:
    """(D0, D1) of independent phase-type times of mean 1 with E[X^2]/2 = m2.

    Above 1: two branches with shape kappa. Below: a mixture of Erlang-(k-1) and Erlang-k, the
    family that reaches SCVs under 1/2, where no product of MAP(2)s can go; an SCV below
    1/most_phases is rounded up to it.
    """
    if m2 > 1 + _EXPONENTIAL:
        phase, means = two_branches(m2, kappa)
        return np.diag(-1 / means), phase[None, :] / means[:, None]
    if m2 >= 1 - _EXPONENTIAL:
        return np.array([[-1.0]]), np.array([[1.0]])
    scv = max(2 * m2 - 1, 1 / most_phases)
    k = max(2, ceil(1 / scv - 1e-9))
    p = (k * scv - np.sqrt(max(k * (1 + scv) - k * k * scv, 0.0))) / (1 + scv)
    rate = k - p
    arrivals = np.zeros((k, k))
    arrivals[-1, 0], arrivals[-1, 1] = rate * (1 - p), rate * p
    return rate * (np.eye(k, k=1) - np.eye(k)), arrivals


def compose(base: Pair, parts: list[Pair]) -> Pair:
    """Kronecker product composition of processes whose D0 is diagonal onto a base."""
    D0, D1 = base
    for hidden, observed in parts:
        D0, D1 = np.asarray(-np.kron(D0, hidden), dtype=float), np.asarray(np.kron(D1, observed), dtype=float)
    return D0, D1
