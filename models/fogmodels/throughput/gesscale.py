"""Gesscale's form, MST = alpha * n^beta - gamma * ND_max (Arkian et al., ICCCN 2021, equations 1 to 3).

With a CPU share x, alpha * n^beta becomes alpha * x^sigma * n^beta; sigma stays 1 until samples at
several shares say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from fogmodels.throughput.samples import Measurements, Point, Vector
from fogmodels.throughput.solver import (
    NOISE_BELIEF,
    Matrix,
    Prior,
    Residuals,
    Solution,
    posterior,
    resume,
    solve,
)

NAME: Final = "gesscale"
NAMES: Final = ("alpha", "beta", "gamma", "sigma")
REFERENCE_MS: Final = 100.0

# Solver's vector: ln alpha, beta, g = gamma * 100 ms / alpha, sigma. Unit-free but for alpha.
_LOW = np.array([-80.0, 0.0, 0.0, 0.2])
_HIGH = np.array([80.0, 1.5, 1e3, 1.5])
# How far the defaults beta = 1, gamma = 0 of equations 2 and 3 may be off: for the interval only.
_DOUBT = np.array([5.0, 0.15, 0.3, 0.15])


def _residuals(data: Measurements) -> Residuals:
    """(predicted - measured) / measured; tiny measurements count as if a twentieth of the median."""
    log_n, log_x, distance = np.log(data.replicas), np.log(data.share), data.rtt_ms / REFERENCE_MS
    scale = np.maximum(data.mst, 0.05 * float(np.median(data.mst)))
    measured = data.mst / scale
    log_scale = np.log(scale)

    def at(q: Vector) -> tuple[Vector, Matrix]:
        work = np.exp(q[0] + q[1] * log_n + q[3] * log_x - log_scale)
        delay = np.exp(q[0] - log_scale) * distance
        mst = work - q[2] * delay
        return mst - measured, np.stack([mst, work * log_n, -delay, work * log_x], axis=1)

    return at


class GesscaleForm:
    """The paper's form as something that can be fitted and asked."""

    name = NAME
    names = NAMES

    def fit(self, data: Measurements, near: Vector | None = None) -> Solution:
        """Equation 2 for one configuration, 3 for two, 1 for three or more, as in section IV-C."""
        residuals = _residuals(data)
        if not _three_configurations(data):
            return _judged(data, residuals, _vector(*_two_samples(data)), NOISE_BELIEF)
        # Leave-one-out passes `near`; the start that the samples give is as good, only precision may differ.
        enough = 1e-12 if near is None else 1e-6
        found = solve(residuals, data.weight, _limits(data), _vector(*_profile(data)), enough=enough)
        return _judged(data, residuals, found.parameters, found.noise)

    def refit(self, data: Measurements, before: Solution) -> Solution:
        """`fit` after one more sample, in a few steps from the fit before."""
        if len(data) <= 4 or not _three_configurations(data):
            return self.fit(data)
        residuals = _residuals(data)
        found = resume(residuals, data.weight, _limits(data), before)
        return _judged(data, residuals, found.parameters, found.noise)

    def parameters(self, q: Vector) -> dict[str, float]:
        """The solver's vector under the paper's names; gamma in records/s per ms."""
        alpha = math.exp(q[0])
        return {
            "alpha": alpha,
            "beta": float(q[1]),
            "gamma": float(q[2]) * alpha / REFERENCE_MS,
            "sigma": float(q[3]),
        }

    def informed(self, solution: Solution) -> dict[str, bool]:
        """Whether the samples, not the paper's defaults, decided each parameter."""
        left = np.sqrt(np.diag(solution.covariance)) / _DOUBT
        return {k: bool(v < 0.5) for k, v in zip(NAMES, left, strict=True)}

    def mst(self, p: Mapping[str, float], at: Point) -> float:
        """Equation 1, never negative; the form knows neither batches nor tasks."""
        work = p["alpha"] * math.pow(at.share, p["sigma"]) * math.pow(at.replicas, p["beta"])
        return max(0.0, work - p["gamma"] * at.rtt_ms)

    def spread(self, solution: Solution, point: Measurements) -> tuple[float, bool]:
        """Standard deviation of the MST at `point` in records/s, and False: not on the logarithm."""
        _, gradient = _residuals(point)(solution.parameters)
        return math.sqrt(float(gradient[0] @ solution.covariance @ gradient[0])), False


def _vector(alpha: float, beta: float, gamma: float) -> Vector:
    q = np.array([math.log(alpha), beta, gamma * REFERENCE_MS / alpha, 1.0])
    bounded: Vector = np.minimum(np.maximum(q, _LOW), _HIGH)
    return bounded


def _limits(data: Measurements) -> Prior:
    """Bounds only: the paper has no prior. What the samples cannot tell stays at its default."""
    low, high = _LOW.copy(), _HIGH.copy()
    mean = np.array([0.0, 1.0, 0.0, 1.0])
    told = (True, np.ptp(data.replicas) > 0, data.rtt_ms.max() > 0, np.ptp(data.share) > 0)
    for i, known in enumerate(told):
        if not known:
            low[i] = high[i] = mean[i]
    return Prior(mean, np.full(4, 1e4), low, high)


def _three_configurations(data: Measurements) -> bool:
    seen = set()
    for configuration in zip(data.replicas.tolist(), data.rtt_ms.tolist(), data.share.tolist(), strict=True):
        seen.add(configuration)
        if len(seen) == 3:
            return True
    return False


def _two_samples(data: Measurements) -> tuple[float, float, float]:
    """alpha, beta = 1 and gamma of equation 3; equation 2 where that gives no gamma >= 0."""
    units = data.replicas * data.share
    keys, where = np.unique(np.stack([units, data.rtt_ms]), axis=1, return_inverse=True)
    where = where.reshape(-1)
    weight = np.bincount(where, data.weight)
    mst = np.bincount(where, data.weight * data.mst) / weight
    if keys.shape[1] == 2:
        (n1, n2), (d1, d2), (y1, y2) = keys[0], keys[1], mst
        determinant = n2 * d1 - n1 * d2
        if abs(determinant) > 1e-12 * (n2 * d1 + n1 * d2):
            alpha = (y2 * d1 - y1 * d2) / determinant
            gamma = (n1 * y2 - n2 * y1) / determinant
            if alpha > 0.0 and gamma >= 0.0:
                return float(alpha), 1.0, float(gamma)
    ratio = keys[0] / mst
    return float((weight @ ratio) / (weight @ ratio**2)), 1.0, 0.0


def _profile(data: Measurements) -> tuple[float, float, float]:
    """A start for equation 1: alpha and gamma are linear given beta; the best of a grid of betas."""
    betas = np.linspace(0.1, 1.5, 15)[:, None]
    scale = data.weight / data.mst**2
    work, delay = (data.replicas**betas) * data.share, data.rtt_ms
    ww, wd, dd = (scale * work**2).sum(1), (scale * work * delay).sum(1), float(scale @ delay**2)
    wy, dy = (scale * work * data.mst).sum(1), float((scale * delay) @ data.mst)
    determinant = ww * dd - wd**2
    sound = determinant > 1e-9 * ww * dd
    safe = np.where(sound, determinant, 1.0)
    gamma = np.where(sound, (wd * wy - ww * dy) / safe, 0.0)
    alpha = np.where(sound, (dd * wy - wd * dy) / safe, 0.0)
    plain = ~sound | (gamma < 0.0) | (alpha <= 0.0)
    alpha, gamma = np.where(plain, wy / ww, alpha), np.where(plain, 0.0, gamma)
    error = np.abs((alpha[:, None] * work - gamma[:, None] * delay) / data.mst - 1.0) @ data.weight
    best = int(np.argmin(error))
    return float(alpha[best]), float(betas[best, 0]), float(gamma[best])


def _judged(data: Measurements, residuals: Residuals, q: Vector, noise: float) -> Solution:
    """Covariance of `q` from the samples and the doubt about the paper's defaults."""
    r, jacobian = residuals(q)
    covariance, freedom = posterior(r, jacobian, data.weight, noise, _DOUBT)
    return Solution(q, covariance, noise, freedom, math.nan)
