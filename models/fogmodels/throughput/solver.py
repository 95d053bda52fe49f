"""Damped Gauss-Newton for a handful of parameters: bounds, Gaussian priors, outlier-proof weights.

scipy's `least_squares` costs milliseconds a call; a control loop refits at every observation, so the
few lines that matter are written out here on plain numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Residuals = Callable[[Vector], tuple[Vector, Matrix]]
"""Parameters -> (relative residuals, their derivative by each parameter)."""

# Repeats of one measurement differ by up to 7 % (a standard deviation near 5 %); that belief is worth
# this many observations until the residuals themselves say otherwise.
NOISE_BELIEF, NOISE_BELIEF_SAMPLES = 0.05, 3.0
# While searching the belief counts less, so that the priors let go of samples that show no noise.
_SEARCH_BELIEF_SAMPLES = 0.5
# Cauchy weights with this tuning lose 5 % efficiency on Gaussian noise and ignore gross outliers.
_TUNING = 2.385
_LONGEST_STEP = 3.0


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of each parameter before any sample: mean, standard deviation, hard bounds."""

    mean: Vector
    sd: Vector
    low: Vector
    high: Vector


@dataclass(frozen=True, slots=True)
class Solution:
    """Parameters with the covariance and the noise that the samples and the prior leave.

    `freedom` counts what is left to estimate the noise from, `misfit` orders solutions of one problem.
    """

    parameters: Vector
    covariance: Matrix
    noise: float
    freedom: float
    misfit: float


def solve(
    residuals: Residuals, weights: Vector, prior: Prior, start: Vector, *, enough: float = 1e-6
) -> Solution:
    """The parameters of greatest posterior probability, searched from `start`.

    Each round takes Gauss-Newton steps on the Cauchy loss at the present noise plus the priors, then
    estimates the noise anew; a round ends when a step gains less than `enough` (in log-likelihood).
    """
    x = np.minimum(np.maximum(start, prior.low), prior.high)
    r, jacobian = residuals(x)
    # Far from the answer residuals say nothing of noise; a wide scale keeps every sample in the game.
    noise = max(NOISE_BELIEF, _median(np.abs(r)))
    for _ in range(4):
        before = x
        x, r, jacobian = _descend(residuals, weights, prior, x, r, jacobian, noise, steps=30, enough=enough)
        freedom = posterior(r, jacobian, weights, noise, prior.sd)[1]
        noise = _noise(r, freedom, _SEARCH_BELIEF_SAMPLES)
        if np.abs(x - before).max() < 1e-3:
            break
    noise = _noise(r, freedom, NOISE_BELIEF_SAMPLES)
    covariance, freedom = posterior(r, jacobian, weights, noise, prior.sd)
    return Solution(x, covariance, noise, freedom, _cost(x, r, weights, prior, NOISE_BELIEF))


def resume(residuals: Residuals, weights: Vector, prior: Prior, before: Solution) -> Solution:
    """`solve` for a problem that differs from a solved one by a sample: a few steps from there."""
    x = np.minimum(np.maximum(before.parameters, prior.low), prior.high)
    r, jacobian = residuals(x)
    noise = _noise(r, before.freedom + 1.0, _SEARCH_BELIEF_SAMPLES)
    x, r, jacobian = _descend(residuals, weights, prior, x, r, jacobian, noise, steps=3, enough=1e-3)
    noise = _noise(r, before.freedom + 1.0, NOISE_BELIEF_SAMPLES)
    covariance, freedom = posterior(r, jacobian, weights, noise, prior.sd)
    return Solution(x, covariance, noise, freedom, math.nan)


def posterior(r: Vector, jacobian: Matrix, weights: Vector, noise: float, sd: Vector) -> tuple[Matrix, float]:
    """Covariance of the parameters, and the degrees of freedom left to estimate the noise."""
    scaled = jacobian * sd
    pull = (scaled * (_influence(r, weights, noise) / noise**2)[:, None]).T
    # In units of the prior the precision is 1 plus what the samples add; eigenvalues below 1 are rounding.
    values, vectors = np.linalg.eigh(pull @ scaled)
    left = 1.0 / (1.0 + np.maximum(values, 0.0))
    axes = vectors * sd[:, None]
    covariance: Matrix = (axes * left) @ axes.T
    return covariance, NOISE_BELIEF_SAMPLES + max(0.0, len(r) - len(sd) + float(left.sum()))


def _median(values: Vector) -> float:
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2.0


def _influence(r: Vector, weights: Vector, noise: float) -> Vector:
    scaled = r * (1.0 / (_TUNING * noise))
    return weights / (1.0 + scaled * scaled)


def _noise(r: Vector, freedom: float, belief_samples: float) -> float:
    """Standard deviation of the relative noise: by the median of the residuals, shrunk towards the belief."""
    squares = len(r) * (1.4826 * _median(np.abs(r))) ** 2
    count = freedom - NOISE_BELIEF_SAMPLES + belief_samples
    return math.sqrt((belief_samples * NOISE_BELIEF**2 + squares) / count)


def _cost(x: Vector, r: Vector, weights: Vector, prior: Prior, noise: float) -> float:
    scaled = r * (1.0 / (_TUNING * noise))
    off = (x - prior.mean) / (_TUNING * prior.sd)
    return 0.5 * _TUNING**2 * float(weights @ np.log1p(scaled * scaled) + np.log1p(off * off).sum())


def _descend(
    residuals: Residuals,
    weights: Vector,
    prior: Prior,
    x: Vector,
    r: Vector,
    jacobian: Matrix,
    noise: float,
    *,
    steps: int,
    enough: float,
) -> tuple[Vector, Vector, Matrix]:
    """At most `steps` Gauss-Newton steps; stops when one gains less than `enough`."""
    cost = _cost(x, r, weights, prior, noise)
    damping = 1e-4
    for _ in range(steps):
        # The prior is weighed like a sample: where the samples insist, it is the outlier and lets go.
        tightness = 1.0 / (prior.sd**2 + ((x - prior.mean) / _TUNING) ** 2)
        pull = (jacobian * (_influence(r, weights, noise) / noise**2)[:, None]).T
        gradient = pull @ r + (x - prior.mean) * tightness
        hessian = pull @ jacobian
        hessian.flat[:: len(x) + 1] += tightness
        while True:
            trial = _bounded_step(x, gradient, hessian, damping, prior)
            r_trial, jacobian_trial = residuals(trial)
            cost_trial = _cost(trial, r_trial, weights, prior, noise)
            if cost_trial <= cost or damping > 1e8:
                break
            damping *= 10.0
        if not cost_trial < cost:
            break
        gained = cost - cost_trial
        x, r, jacobian, cost = trial, r_trial, jacobian_trial, cost_trial
        damping = max(0.2 * damping, 1e-10)
        if gained < enough:
            break
    return x, r, jacobian


def _bounded_step(x: Vector, gradient: Vector, hessian: Matrix, damping: float, prior: Prior) -> Vector:
    """A damped step; parameters at a bound that would leave it stay, the others move as if alone."""
    held = ((x <= prior.low) & (gradient > 0)) | ((x >= prior.high) & (gradient < 0))
    # Scaled to a unit diagonal, the damped matrix cannot be singular.
    size = np.sqrt(hessian.diagonal())
    damped = hessian / (size * size[:, None])
    damped.flat[:: len(x) + 1] = 1.0 + damping
    if held.any():
        damped[held] = 0.0
        damped[:, held] = 0.0
        damped[held, held] = 1.0
        gradient = np.where(held, 0.0, gradient)
    step = np.asarray(np.linalg.solve(damped, gradient / size), dtype=np.float64) / size
    step = np.minimum(np.maximum(step, -_LONGEST_STEP), _LONGEST_STEP)
    bounded: Vector = np.minimum(np.maximum(x - step, prior.low), prior.high)
    return bounded
