"""MAP/PH/1, first come first served: the exact response-time distribution by matrix-analytic methods."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fogmodels.arrivals import MAP
from fogmodels.arrivals.markovian import stationary
from fogmodels.queueing.phase_type import PhaseType
from fogmodels.queueing.response import Inaccurate, MatrixExponential, ResponseTime, Unstable

Matrix = NDArray[np.float64]

_SATURATED = 1e-9
_MOST_DOUBLINGS = 60


def solve(arrivals: MAP, service: PhaseType) -> ResponseTime:
    """Exact mean and percentiles of the response time; raises Unstable at utilisation >= 1.

    The age of the customer in service rises while it is served and falls, at its departure, by
    one inter-arrival time: a Markov-modulated fluid queue (Sengupta 1989; Ramaswami 1999) with
    rising phases (arrival phase at its own arrival, service phase) and falling phases (arrival
    phase). With Psi, the phase on return to a level, the age's density is p exp(Kx), and its
    value at a departure is that customer's response time: phase-type of order n m, no truncation.
    """
    utilisation = service.mean / arrivals.mean
    if not utilisation < 1.0 - _SATURATED:
        raise Unstable(utilisation)
    # In units of the mean service time, so that no threshold depends on the user's unit.
    unit = service.mean
    D0, D1 = arrivals.D0 * unit, arrivals.D1 * unit
    S, beta = service.S * unit, service.beta
    exits = np.maximum(-S.sum(axis=1), 0.0)
    rise = _kron(np.eye(arrivals.states), S)
    finish = _kron(np.eye(arrivals.states), exits[:, None])
    begin = _kron(D1, beta[None, :])
    psi = first_return(rise, finish, D0, begin)

    idle = stationary(D0 + begin @ psi)
    density = idle @ begin
    decay = rise + psi @ begin
    leave = np.tile(exits, arrivals.states)
    tail = np.linalg.solve(-decay, leave)
    total = float(density @ tail)
    start = density / total
    mean = float(start @ np.linalg.solve(-decay, tail))
    # Rate conservation: the age is positive exactly while the server is busy. With idle periods
    # weighted by `idle`, arrivals per idle time and per customer must agree with the utilisation.
    busy = float(density @ np.linalg.solve(-decay, np.ones(leave.size)))
    if abs(busy / (1.0 + busy) - utilisation) > 1e-7 * (1.0 - utilisation):
        raise Inaccurate(f"the queue at utilisation {utilisation:.9g} is too near saturation for these rates")
    return ResponseTime(
        mean=mean * unit,
        utilisation=utilisation,
        method="MAP/PH/1",
        distribution=MatrixExponential(start, decay / unit, tail),
    )


def first_return(rise: Matrix, finish: Matrix, fall: Matrix, begin: Matrix) -> Matrix:
    """Psi: phase probabilities on the first return of a Markov-modulated fluid to its level.

    The minimal non-negative solution of finish + rise X + X fall + X begin X = 0 by the
    structure-preserving doubling algorithm (Guo, Lin and Xu 2006): quadratic convergence.
    """
    eye_up, eye_down = np.eye(rise.shape[0]), np.eye(fall.shape[0])
    # A stable fluid returns surely, so the equation's matrix maps the all-ones vector to zero, and
    # near saturation a second eigenvalue comes close to that zero and ruins the accuracy. Moving the
    # known one away leaves the solution as it is (Guo, Iannazzo and Meini 2007).
    moved = float(np.abs(np.diag(fall)).max()) / fall.shape[0]
    fall, finish = fall - moved, finish + moved
    shift = max(float(-np.diag(rise).min()), float(-np.diag(fall).min()))
    A, D = shift * eye_up - rise, shift * eye_down - fall
    D_begin = np.linalg.solve(D, begin)
    W = np.linalg.inv(A - finish @ D_begin)
    V = np.linalg.inv(D - begin @ np.linalg.solve(A, finish))
    E, F = eye_down - 2 * shift * V, eye_up - 2 * shift * W
    G = 2 * shift * D_begin @ W
    H = 2 * shift * np.linalg.solve(D.T, (W @ finish).T).T
    for _ in range(_MOST_DOUBLINGS):
        inverse = np.linalg.inv(eye_down - G @ H)
        left = E @ inverse
        right = F + (F @ H) @ (inverse @ G)  # F (I - H G)^-1, without a second, larger inverse
        step = right @ H @ E
        G = G + left @ G @ F
        H = H + step
        E, F = left @ E, right @ F
        if np.abs(step).max() <= 1e-16:
            break
    else:
        raise Inaccurate("the doubling iteration did not converge")
    sums = H.sum(axis=1, keepdims=True)
    if not np.abs(sums - 1.0).max() < 1e-6:
        raise Inaccurate("the first-return probabilities do not sum to one")
    # A stable queue's fluid always returns: removing the rounding error in exactly this direction
    # is what keeps loads near 1 accurate.
    return np.asarray(H / sums)


def _kron(a: Matrix, b: Matrix) -> Matrix:
    return np.asarray(np.kron(a, b), dtype=float)
