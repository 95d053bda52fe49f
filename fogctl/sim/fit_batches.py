"""From single batches to the simulator's parameters: what they take, warm or not, and what changes cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from fogctl.sim.parameters import StageParameters

Vector = NDArray[np.float64]

FEWEST = 10
_SCATTER = 0.1
"""What one batch is usually off, relatively: so much weighs a batch against what was known before."""
_NAMES = ("tau_s", "mu_per_s", "beta", "k0", "k1", "theta", "sigma", "cold", "warm_cpu_s", "driver_s")
_LOGS = np.array([True, True, False, True, True, False, False, True, True, True])
_SD = np.array([0.7, 0.3, 0.05, 0.5, 0.5, 0.25, 0.15, 1.0, 1.0, 2.0])
"""How far each may be from what was known before; of logarithms, where it is solved as one."""
_STALL_SD = 2.0
"""Seconds by which stalls differ by chance."""
_LINE_SD = np.array([3.0, 8.0])
"""The same as `_SD` for the seconds and the round trips of a stall."""
_LOW = {"beta": 0.3, "theta": 0.7, "sigma": 0.2}
_HIGH = {"beta": 1.2, "theta": 2.5, "sigma": 1.5}


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """One batch of a run and what it ran on."""

    rows: float
    duration_s: float
    replicas: tuple[tuple[float, float], ...]
    """Of each replica, nearest first: its round trip in ms, and the CPU seconds it had worked before."""
    share: float
    change: str = ""
    """`out`, `in`, `first`: the first after replicas came, after some went, the first of all; else empty."""
    new_rtt_ms: float = 0.0
    """How far the farthest of the replicas is that came."""


def fit_batches(
    batches: Sequence[SeenBatch], partitions: int, slots: int, known: StageParameters
) -> StageParameters:
    """The parameters most probable after these batches; what they do not show stays as in `known`.

    ValueError for too few. Least squares of the logarithms, where single batches that are far off count less.
    """
    ordinary = [batch for batch in batches if not batch.change]
    if len(ordinary) < FEWEST:
        raise ValueError(f"{len(ordinary)} batches on settled replicas are too few; {FEWEST} are needed")
    from scipy.optimize import least_squares  # slow to import

    centre = _vector(known)
    low = np.array([_LOW.get(name, -np.inf) for name in _NAMES])
    high = np.array([_HIGH.get(name, np.inf) for name in _NAMES])
    measured = np.log([batch.duration_s for batch in ordinary])

    def off(q: Vector) -> Vector:
        return (predicted(_parameters(q, known), ordinary, partitions, slots) - measured) / _SCATTER

    def both(q: Vector) -> Vector:
        return np.concatenate([off(q), (q - centre) / _SD])

    q = least_squares(both, np.clip(centre, low, high), bounds=(low, high), loss="soft_l1", xtol=1e-4).x
    found = _parameters(q, known)
    # From batch to batch: what drifts is the model's error, or the host's, and no chance of single batches.
    steps = np.diff(_SCATTER * off(q))
    found = replace(found, noise=min(0.5, 1.4826 / math.sqrt(2.0) * float(np.median(np.abs(steps)))))
    return replace(found, stalls=replace(found.stalls, **_stalls(batches, partitions, slots, found)))


def predicted(p: StageParameters, batches: Iterable[SeenBatch], partitions: int, slots: int) -> Vector:
    """The logarithm of what each batch takes without noise and without a change before it."""
    return np.log([_batch_s(p, batch, partitions, slots) for batch in batches])


def _batch_s(p: StageParameters, batch: SeenBatch, partitions: int, slots: int) -> float:
    speed = batch.share**p.sigma
    each, left_over = divmod(partitions, len(batch.replicas))
    longest = 0.0
    for order, (rtt_ms, cpu_s) in enumerate(batch.replicas):
        if own := each + (order < left_over):
            fixed_s, row_s = p.part(own, partitions, rtt_ms, speed, slots, p.slowdown(cpu_s))
            longest = max(longest, fixed_s + batch.rows * row_s)
    return p.driver_s + longest


def _stalls(
    batches: Iterable[SeenBatch], partitions: int, slots: int, p: StageParameters
) -> dict[str, float]:
    """What the first batches after changes took beyond what they would have taken."""
    beyond: dict[str, list[tuple[float, float]]] = {}
    for batch in batches:
        if batch.change:
            extra_s = batch.duration_s - _batch_s(p, batch, partitions, slots)
            beyond.setdefault(batch.change, []).append((extra_s, batch.new_rtt_ms / 1e3))
    found = {f"{kind}_s": max(0.0, median(s for s, _ in beyond[kind])) for kind in beyond.keys() - {"out"}}
    if out := beyond.get("out"):
        found["out_s"], found["first_trips"] = _line(out, (p.stalls.out_s, p.stalls.first_trips))
    return found


def _line(points: Sequence[tuple[float, float]], known: tuple[float, float]) -> tuple[float, float]:
    """Seconds and round trips that explain extra seconds at distances; a few points leave both open."""
    extra, far = np.array(points).T
    rows = np.column_stack([np.ones(far.size), far]) / _STALL_SD
    square = rows.T @ rows + np.diag(1.0 / np.square(_LINE_SD))
    right = rows.T @ (extra / _STALL_SD) + np.array(known) / np.square(_LINE_SD)
    seconds, trips = np.linalg.solve(square, right).tolist()
    return max(0.0, seconds), max(0.0, trips)


def _vector(p: StageParameters) -> Vector:
    values = np.array([max(float(getattr(p, name)), 1e-6) for name in _NAMES])
    return np.where(_LOGS, np.log(values), values)


def _parameters(q: Vector, known: StageParameters) -> StageParameters:
    values = np.where(_LOGS, np.exp(np.where(_LOGS, q, 0.0)), q)
    return replace(known, **dict(zip(_NAMES, values.tolist(), strict=True)))
