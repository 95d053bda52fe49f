"""The batch-time form: how long a Spark micro-batch takes, hence how many rows a second it sustains.

    D = (1 + kappa*z) * (tau*m + N / (mu * x^sigma * n^beta)) + (k0 + k1*m) * ND * (ND / 100 ms)^(theta - 1)
    MST = N / D

N rows a batch, n replicas with CPU share x, m = ceil(partitions/n) tasks a replica runs in turn, ND the
largest round trip in seconds. tau: start-up of a task; mu: rows/s of one replica at share 1; k0, k1:
round trips per batch and per task. theta > 1: long round trips cost more than in proportion, because
short ones hide behind work (and TCP restarts slowly after a long idle wait); theta = 1 is the plain form.
kappa: how much longer a replica works that has just begun (z = 1; a warm one has z = 0).

Where a replica's slots are known tasks are whole: the batch waits for a replica with m of the P tasks, so
P/m stands for n, and ceil(m/slots) in place of m tasks wait for round trips one after another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from fogmodels.throughput.samples import Measurements, Point, Vector
from fogmodels.throughput.solver import Matrix, Prior, Residuals, Solution, resume, solve

NAME: Final = "batch"
REFERENCE_MS: Final = 100.0
NAMES: Final = ("tau", "mu", "beta", "k0", "k1", "theta", "sigma", "kappa")

# Solved as logarithms, so that they stay positive whatever the samples say.
_LOGS = np.array([True, True, False, True, True, False, False, False])
# Centres: counted on Spark (4 round trips for the task binary, 2 a task) and start-up near 0.1 s.
# They decide only what the samples leave open. mu has no centre of its own: it comes from the samples.
# Rates of live replicas rose by 80 to 100 % while they warmed up.
_MEAN = np.array([math.log(0.12), 0.0, 1.0, math.log(4.0), math.log(2.0), 1.0, 1.0, 0.8])
_SD = np.array([1.0, 5.0, 0.15, 0.7, 0.7, 0.3, 0.15, 0.3])
_LOW = np.array([math.log(1e-6), -80.0, 0.1, math.log(1e-3), math.log(1e-3), 0.7, 0.2, 0.0])
_HIGH = np.array([math.log(1e4), 80.0, 1.5, math.log(1e3), math.log(1e3), 2.0, 1.5, 5.0])


def _prior(data: Measurements) -> Prior:
    # A guess of mu a little above what one replica did in all, for waiting takes part of the time.
    mean = _MEAN.copy()
    warm = data.mst * (1.0 + _MEAN[7] * data.cold) / (data.ways * data.share)
    mean[1] = float(np.median(np.log(warm))) + 0.5
    return Prior(mean, _SD, _LOW, _HIGH)


def _residuals(data: Measurements) -> Residuals:
    """ln(predicted batch time) - ln(measured batch time): the relative error, the same way for all sizes."""
    tasks, rounds, rows, cold = data.tasks, data.rounds, data.rows, data.cold
    log_n, log_x = np.log(data.ways), np.log(data.share)
    log_rows = np.log(rows)
    distance = data.rtt_ms / REFERENCE_MS
    near = distance <= 0.0
    log_distance = np.log(np.where(near, 1.0, distance))
    log_measured = log_rows - np.log(data.mst)
    jacobian_shape = (len(data), len(NAMES))

    def at(q: Vector) -> tuple[Vector, Matrix]:
        jacobian = np.empty(jacobian_shape)
        slow = 1.0 + q[7] * cold
        start = math.exp(q[0]) * tasks * slow
        work = np.exp(log_rows - q[1] - q[2] * log_n - q[6] * log_x) * slow
        wait = np.exp(q[5] * log_distance) * (REFERENCE_MS / 1e3)
        wait[near] = 0.0
        per_batch = math.exp(q[3]) * wait
        per_task = math.exp(q[4]) * rounds * wait
        total = start + work + per_batch + per_task
        jacobian[:, 0] = start
        jacobian[:, 1] = -work
        jacobian[:, 2] = -work * log_n
        jacobian[:, 3] = per_batch
        jacobian[:, 4] = per_task
        jacobian[:, 5] = (per_batch + per_task) * log_distance
        jacobian[:, 6] = -work * log_x
        jacobian[:, 7] = (start + work) * cold / slow
        jacobian /= total[:, None]
        return np.log(total) - log_measured, jacobian

    return at


class BatchForm:
    """The batch-time form as something that can be fitted and asked."""

    name = NAME
    names = NAMES

    def fit(self, data: Measurements, near: Vector | None = None) -> Solution:
        """The most probable parameters, searched from `near` if given, else from two guesses."""
        prior, residuals = _prior(data), _residuals(data)
        if near is not None:
            return solve(residuals, data.weight, prior, near, enough=1e-3)
        curved = prior.mean.copy()
        curved[[2, 5]] = 0.8, 1.4
        starts = (prior.mean, curved)
        return min((solve(residuals, data.weight, prior, s) for s in starts), key=lambda s: s.misfit)

    def refit(self, data: Measurements, before: Solution) -> Solution:
        """`fit` after one more sample, in a few steps from the fit before."""
        return resume(_residuals(data), data.weight, _prior(data), before)

    def parameters(self, q: Vector) -> dict[str, float]:
        """The solver's vector under the formula's names."""
        return {k: float(math.exp(v) if log else v) for k, v, log in zip(NAMES, q, _LOGS, strict=True)}

    def informed(self, solution: Solution) -> dict[str, bool]:
        """Whether the samples, not the prior, decided each parameter."""
        left = np.sqrt(np.diag(solution.covariance)) / _SD
        return {k: bool(v < 0.5) for k, v in zip(NAMES, left, strict=True)}

    def mst(self, p: Mapping[str, float], at: Point) -> float:
        """Rows a second sustained: N/D."""
        speed = p["mu"] * math.pow(at.share, p["sigma"]) * math.pow(at.ways, p["beta"])
        distance = math.pow(at.rtt_ms / REFERENCE_MS, p["theta"]) * (REFERENCE_MS / 1e3)
        own = (1.0 + p["kappa"] * at.cold) * (p["tau"] * at.tasks + at.rows / speed)
        return at.rows / (own + (p["k0"] + p["k1"] * at.rounds) * distance)

    def spread(self, solution: Solution, point: Measurements) -> tuple[float, bool]:
        """Standard deviation of ln MST at `point`, and True: it is on the logarithm."""
        _, gradient = _residuals(point)(solution.parameters)
        return math.sqrt(float(gradient[0] @ solution.covariance @ gradient[0])), True
